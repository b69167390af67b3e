"""A progress bar on stderr, only once a run has taken a second and only on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from rooflinecli.core.parallel_map import Spread

Q = TypeVar("Q")
A = TypeVar("A")


class Progress:
    """`add` counts what is done; rich draws the bar after `after` seconds, and it leaves no trace when closed."""

    def __init__(self, total: int = 1, unit: str = "points", after: float = 1.0):
        self.total, self.unit, self.after = max(total, 1), unit, after
        self.done, self.start, self.drawn = 0, time.monotonic(), 0.0
        self.visible = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: RichProgress | None = None

    def tell(self, done: int, total: int) -> None:
        """Count what is done of a total that is known only now."""
        self.total = total
        self.add(done)

    def add(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self.visible and now - self.start > self.after and now - self.drawn > 0.1:
            self.drawn = now
            self._bar = self._bar or self._opened()
            rate = self.done / (now - self.start)
            self._bar.update(
                self._bar.task_ids[0], completed=self.done, rate=f"{rate:,.3g}/s" if rate < 1e3 else f"{rate:,.0f}/s"
            )
            self._bar.refresh()

    def _opened(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        columns = (
            BarColumn(20),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TextColumn(self.unit),
            TextColumn("{task.fields[rate]}"),
            TimeLeft(),
        )
        console = Console(stderr=True)
        bar = Progress(
            *columns,
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task("", total=self.total, rate="")
        bar.start()
        return bar

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def counting(over: Spread, unit: str) -> Spread:
    """A map that shows how many of its items are done."""

    def counted(function: Callable[[Q], A], items: Iterable[Q]) -> Iterator[A]:
        every = list(items)
        with Progress(len(every), unit) as bar:
            for answer in over(function, every):
                bar.add(1)
                yield answer

    return counted
