"""Where an answer goes: standard output, or the file named by --out, written whole or not at all."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import one_line

INTERRUPTED = 130  # exit code after Ctrl-C


def columns(wide: bool = False, out: Path | None = None) -> int:
    """Columns to write for: the terminal's, those of a pipe or a file, or as many as it takes."""
    from rooflinecli.render.formats.terminal_style import columns as found

    return found(wide, out is not None)


def write(text: str, out: Path | None = None) -> None:
    """Print `text`, or put it in `out`. Raises UsageError when the file cannot be written."""
    if not text.endswith("\n"):
        text += "\n"
    if out is not None:
        files.write(out, text)
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # a reader that went away is the caller's to notice
        raise
    except OSError as error:
        raise UsageError(f"standard output cannot be written ({error.strerror}); write elsewhere") from None


def print_error(message: object) -> None:
    """One line on stderr. What a file or an option smuggled in of line breaks and escape sequences is taken out."""
    print(f"roofline: {one_line(str(message))}", file=sys.stderr)


# what this program prints beyond ASCII -> what looks like it; one cell for one where it stands in tables
_LIKENESS = str.maketrans(
    {"≤": "<=", "≥": ">=", "→": "->", "±": "+-", "÷": "/"}
    | dict(zip("µμ–—·×…┤└─░▏▎▍▌▋▊▉█", "uu--.x~|+-.   #####", strict=True))
)


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """Characters that the encoding lacks -> their nearest in ASCII; `?` where there is none."""
    import unicodedata

    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end].translate(_LIKENESS)
    bare = (unicodedata.normalize("NFKD", c).encode("ascii", "ignore").decode() or "?" for c in lost)
    return "".join(bare), error.end


def any_encoding() -> None:
    """Standard output and error take any text, whatever their encoding: ASCII and Latin-1 get the nearest character."""
    import os

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, as `>&-` does
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    codecs.register_error("plainer", _plainer)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="plainer")
