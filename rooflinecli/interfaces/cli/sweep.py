"""`roofline sweep`: the question, and its points streamed to a writer, a file and a plot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import Json
from rooflinecli.engine.build_request import warn
from rooflinecli.interfaces.cli.from_question import Study, command, draw, show
from rooflinecli.interfaces.cli.output import INTERRUPTED, Progress, columns, print_error
from rooflinecli.questions.sweep.axes import LARGEST, MOST_CHOSEN
from rooflinecli.questions.sweep.question import Sweep
from rooflinecli.specs.options import OptText, Text, field
from rooflinecli.specs.quantities import first_release

FORMATS = ("table", "csv", "json", "jsonl", "markdown", "html", "parquet")


class SweepDelivery(Study):
    """Rows of a sweep, and a plot of them."""

    # fmt: off
    format: Text = field("choice", "Format of the rows", default="table", choices=FORMATS, short="-f")
    plot: OptText = field("file", "FILE.png, FILE.svg, or - for the terminal.", default=None)
    plot_kind: Text = field("choice", "latency against throughput, the roofline, or memory against batch", default="latency", choices=("latency", "roofline", "memory"))
    # fmt: on


def run(question: Sweep, how: SweepDelivery) -> int:
    """Sweep and print; the exit code is 1 where no point is feasible."""
    from rooflinecli.questions.sweep.run import SweepStudy
    from rooflinecli.render.formats.plot import check
    from rooflinecli.render.formats.rows import Gathered

    if question.sensitivity:
        from rooflinecli.questions.sensitivity.answer import of_point

        if how.format in ("jsonl", "parquet"):
            raise UsageError(f"--sensitivity has no {how.format} form; use table, json, csv or markdown", "format")
        show(of_point(question.options(), list(question.figures) or None), "compare.sensitivity", how, table="rows")
        return 0
    if how.plot:
        check(how.plot)
    study, workers = SweepStudy(question), how.workers(question)
    if workers is not None and how.plot:
        raise UsageError("--plot draws while the sweep goes by; leave out --jobs, --cluster and --resume", "plot")
    space, points = study.space, study.stop - study.start
    if points > LARGEST and how.format in ("table", "markdown", "html") and not how.dry_run:
        raise UsageError(
            f"{points:,} points are more than a {how.format} holds; give ranges a step (/8) or a factor (x2), or stream them: --format csv --out FILE",
            "format",
        )
    page = how.format == "html" and workers is None
    plot = Gathered(how.plot_kind, space) if how.plot or page else None
    progress, feasible, interrupted = Progress(points), False, False
    file = None if how.out is None else Path(how.out)
    quiet = how.plot == "-" and file is None and how.format == "table"
    first = how.schema == "1"
    names = [first_release(name) for name in study.shown.names] if first else study.shown.names
    about: Json = ({"schema": "roofline/sweep/1"} if first else {}) | study.about() | {"columns": names}
    with writer(how.format, file, names, about, quiet, columns(how.wide, file)) as out:
        try:
            for table, chosen_from in study.tables(workers, plot.add if plot else None):
                feasible = feasible or bool(table["feasible"].any())
                out.add({first_release(name): column for name, column in table.items()} if first else table)
                progress.add(chosen_from)
        except KeyboardInterrupt:  # what was computed is written as a whole file
            interrupted = True
        if plot and page:
            out.picture = plot.picture
    progress.close()
    if interrupted:
        print_error(f"interrupted: {progress.done:,} of {points:,} points are written")
        return INTERRUPTED
    if plot and how.plot:
        draw(plot.picture, str(how.plot))
    given = {a.name for a in (*space.structure, *space.sizes)}
    if space.chooses and not ({"tp", "pp"} <= given or any(name.startswith("layout.") for name in study.shown.names)):
        warn("the layout of each point is chosen, as `estimate` does; --columns 'layout.*' shows it")
    if not feasible and not space.chooses and not {"tp", "pp", "cp", "ep", "zero"} & given:
        warn(
            f"a sweep of more than {MOST_CHOSEN} points takes sizes of the layout left out as 1; give --tp, --pp or --zero, such as `roofline estimate` chooses"
        )
    return 0 if feasible else 1


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
