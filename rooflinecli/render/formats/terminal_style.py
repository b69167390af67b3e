"""Bold, dim and red where a terminal shows them, plain text when piped, with NO_COLOR or TERM=dumb; and how wide it is."""

from __future__ import annotations

import os
import sys

PIPE = 120  # columns of a pipe or a file, which have none of their own
NARROWEST = 20
WIDE = 10**6  # with --wide


def colored() -> bool:
    """Whether standard output is a terminal that shows styles."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def _style(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colored() else text


def columns(wide: bool = False, to_file: bool = False) -> int:
    """Columns to write for: COLUMNS, else the terminal's, else those of a pipe."""
    if wide:
        return WIDE
    given = os.environ.get("COLUMNS", "")[:6]
    if given.isdecimal() and int(given) > 0:
        return max(int(given), NARROWEST)
    try:
        found = os.get_terminal_size(sys.stdout.fileno()).columns if not to_file else 0
    except (OSError, ValueError, AttributeError):  # no terminal, closed, or not a stream of the system's
        found = 0
    return max(found, NARROWEST) if found else PIPE


def bold(text: str) -> str:
    return _style("1", text)


def dim(text: str) -> str:
    return _style("2", text)


def red(text: str) -> str:
    return _style("31", text)
