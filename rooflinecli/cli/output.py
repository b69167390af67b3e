"""Where an answer goes: standard output, or the file named by --out, written whole or not at all."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path

from rooflinecli.errors import UsageError


class Format(str, Enum):
    """One value is one file of render/."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


def write(text: str, out: Path | None = None) -> None:
    """Print `text`, or put it in `out`. Raises UsageError when the file cannot be written."""
    if not text.endswith("\n"):
        text += "\n"
    if out is None:
        _print(text)
        return
    partial = out.with_name(out.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, out)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written ({error.strerror}); give a writable path") from None


def _print(text: str) -> None:
    """To standard output. A reader that went away is the caller's to notice; a full disk is an error with a remedy."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output cannot be written ({error.strerror}); write elsewhere") from None
