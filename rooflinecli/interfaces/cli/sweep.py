"""`roofline sweep`: the question, and its points streamed to a writer, a file and a plot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import Json
from rooflinecli.interfaces.cli.from_question import Study, command, draw, show
from rooflinecli.interfaces.cli.output import INTERRUPTED, Progress, columns, print_error
from rooflinecli.questions.sweep.question import Sweep
from rooflinecli.specs.options import OptText, Text, field
from rooflinecli.specs.quantities import first_release

if TYPE_CHECKING:
    from rooflinecli.core.parallel_map import Spread as SpreadMap


FORMATS = ("table", "csv", "json", "jsonl", "markdown", "parquet")


class SweepDelivery(Study):
    """Rows of a sweep, and a plot of them."""

    # fmt: off
    format: Text = field("choice", "Format of the rows", default="table", choices=FORMATS, short="-f")
    plot: OptText = field("file", "FILE.png, FILE.svg, or - for the terminal.", default=None)
    plot_kind: Text = field("choice", "latency against throughput, the roofline, or memory against batch", default="latency", choices=("latency", "roofline", "memory"))
    # fmt: on


def run(question: Sweep, how: SweepDelivery) -> int:
    """Sweep and print; the exit code is 1 where no point is feasible."""
    from rooflinecli.questions.sweep import axes
    from rooflinecli.questions.sweep import run as sweep
    from rooflinecli.questions.sweep.plot_points import Gathered
    from rooflinecli.questions.sweep.run import Filter, shard
    from rooflinecli.render.formats.plot import check

    options, figures = question.options(), list(question.figures) or None
    if question.sensitivity:
        from rooflinecli.questions.sensitivity.answer import of_point

        if how.format in ("jsonl", "parquet"):
            raise UsageError(f"--sensitivity has no {how.format} form; use table, json, csv or markdown", "format")
        show(of_point(options, figures), "compare.sensitivity", how, table="rows")
        return 0
    if how.plot:
        check(how.plot)
    space = axes.space(options, figures)
    shown = sweep.layout(space, question.wanted)
    keep = Filter(space, list(question.where), question.feasible_only)
    start, stop = shard(space.points, question.part)
    plot = Gathered(how.plot_kind, space) if how.plot else None
    progress, feasible, interrupted = Progress(stop - start), False, False
    file = None if how.out is None else Path(how.out)
    quiet = how.plot == "-" and file is None and how.format == "table"
    first = how.schema == "1"
    names = [first_release(name) for name in shown.names] if first else shown.names
    about = ({"schema": "roofline/sweep/1"} if first else {}) | {
        "axes": {a.name: _values(a.values) for a in (*space.structure, *space.sizes)},
        "phases": list(space.phases),
        "columns": names,
        "first": start,
        "stop": stop,
        "of": space.points,
    }
    with writer(how.format, file, names, about, quiet, columns(how.wide, file)) as out:
        try:
            for table, points in _tables(how, how.over(question), space, shown, keep, start, stop, plot):
                feasible = feasible or bool(table["feasible"].any())
                out.add({first_release(name): column for name, column in table.items()} if first else table)
                progress.add(points)
        except KeyboardInterrupt:  # what was computed is written as a whole file
            interrupted = True
    progress.close()
    if interrupted:
        print_error(f"interrupted: {progress.done:,} of {stop - start:,} points are written")
        return INTERRUPTED
    if plot:
        draw(plot.picture, str(how.plot))
    return 0 if feasible else 1


def _tables(
    how: SweepDelivery, over: SpreadMap | None, space: Any, shown: Any, keep: Any, start: int, stop: int, plot: Any
) -> Iterator[tuple[Json, int]]:
    """(rows that pass, points they were chosen from) box by box, made here or by many hands. Raises UsageError for a plot by many."""
    from rooflinecli.questions.sweep import run as sweep

    if over is not None:
        if plot:
            raise UsageError("--plot draws while the sweep goes by; leave out --jobs, --cluster and --resume", "plot")
        yield from sweep.spread(space, shown, keep, start, stop, over)
        return
    for choice, answer in sweep.answers(space, start, stop):
        yield keep(answer, sweep.table(shown, choice, answer)), answer.points
        if plot:
            plot.add(choice, answer)


def _values(values: tuple[object, ...]) -> list[object]:
    """An axis for the header: all of it, or its ends when it is long."""
    whole = [int(v) if isinstance(v, float) and v == int(v) else v for v in values]
    return whole if len(whole) <= 64 else [*whole[:3], f"… {len(whole) - 4} more …", whole[-1]]


@contextmanager
def writer(
    format: str, out: Path | None, names: list[str], about: dict[str, object], quiet: bool = False, width: int = 120
) -> Iterator[Any]:
    """A writer to standard output, or to a file written whole or not at all. Raises UsageError when it cannot be written."""
    from rooflinecli.render.formats.rows import WRITERS, Table

    if quiet:
        yield SimpleNamespace(add=lambda chunk: None)
        return
    if out is None and format == "parquet":
        raise UsageError("--format parquet needs --out FILE")
    with ExitStack() as opened:
        target: Any = sys.stdout
        if out is not None:
            target = opened.enter_context(files.replacing(out))
        if out is not None and format != "parquet":
            target = opened.enter_context(target.open("w", encoding="utf-8", errors="replace"))
        made = Table(target, names, about, width) if format == "table" else WRITERS[format](target, names, about)
        yield made
        made.close()
        if out is None:
            sys.stdout.flush()


app = command(Sweep, run, SweepDelivery)
