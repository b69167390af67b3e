"""Progress bar on stderr: current case, last result, time left. Silent where stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rooflinecli.measure.cases import KernelCase, Record
from rooflinecli.measure.session import Tell


@contextmanager
def bar(total: int, result: Callable[[Record], str]) -> Iterator[Tell]:
    """Yields `tell(case, record)`; `result(record)` is the text of a running result."""
    if not sys.stderr.isatty():
        yield lambda case, record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=total, last="")

        def tell(case: KernelCase, record: Record | None) -> None:
            if record is None:
                progress.update(task, description=f"timing {case.label}")
            elif record.get("looks", 1) == 1:
                progress.update(task, advance=1, last=f"{result(record)}")
            else:
                progress.update(task, description=f"second look, {case.label}", last=f"{result(record)}")

        yield tell
