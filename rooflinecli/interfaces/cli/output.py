"""Where an answer goes: standard output, or the file named by --out, written whole or not at all; errors and progress on standard error."""

from __future__ import annotations

import codecs
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import one_line

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from rooflinecli.core.parallel_map import Workers

Q = TypeVar("Q")
A = TypeVar("A")
INTERRUPTED = 130  # exit code after Ctrl-C
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)  # of a write to standard output


def columns(wide: bool = False, out: Path | None = None) -> int:
    """Columns to write for: the terminal's, those of a pipe or a file, or as many as it takes."""
    from rooflinecli.render.formats.terminal import columns as found

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
        raise UsageError(unwritable(error)) from None


def unwritable(error: OSError) -> str:
    """What is said where standard output cannot be written."""
    return f"standard output cannot be written ({error.strerror}); write elsewhere"


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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, as `>&-` does
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    codecs.register_error("plainer", _plainer)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="plainer")


class Progress:
    """`add` counts what is done, in `unit`s; rich draws the bar after `after` seconds, also while nothing is done yet, and it leaves no trace
    when closed."""

    def __init__(self, total: int | None = None, unit: str = "points", after: float = 1.0):
        self.total, self.unit, self.after = total, unit, after
        self.done, self.start, self.drawn = 0, time.monotonic(), 0.0
        self.visible = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: RichProgress | None = None
        self._first = threading.Timer(after + 0.1, self.add, (0,))

    def advance(self, done: int, total: int) -> None:
        """Count what is done of a total that is known only now; another total begins another count."""
        if total != self.total:
            self.total, self.done = total, 0
        self.add(done)

    def add(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self.visible and now - self.start > self.after and now - self.drawn > 0.1:
            self.drawn = now
            self._bar = self._bar or self._opened()
            rate = self.done / (now - self.start)
            shown = f"{rate:,.3g}/s" if rate < 1e3 else f"{rate:,.0f}/s"
            self._bar.update(
                self._bar.task_ids[0], total=self.total, completed=self.done, description=self.unit, rate=shown
            )
            self._bar.refresh()

    def _opened(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        columns = (
            BarColumn(20),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            "{task.description}",
            "{task.fields[rate]}",
        )
        bar = Progress(
            *columns, TimeLeft(), console=Console(stderr=True), transient=True, auto_refresh=False, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        bar.add_task("", total=self.total, rate="")
        bar.start()
        return bar

    def close(self) -> None:
        self._first.cancel()
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> Progress:
        if self.visible:
            self._first.daemon = True
            self._first.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def counting(workers: Workers | None, unit: str) -> Workers:
    """A map that shows how many of its items are done."""

    def counted(function: Callable[[Q], A], items: Iterable[Q]) -> Iterator[A]:
        every = list(items)
        with Progress(len(every), unit) as bar:
            for answer in (workers or map)(function, every):
                bar.add(1)
                yield answer

    return counted
