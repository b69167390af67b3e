"""`roofline measure [SUITE]`: time real kernels, fit the constants, write a hardware profile; `measure model` compares a whole model.

`roofline validate` and `roofline calibrate`: tables of errors, pictures of them, and the hardware file that a calibration makes.
"""

from __future__ import annotations

import sys
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rooflinecli.calibrate.question import Calibrate
from rooflinecli.interfaces.cli.from_question import Delivery, add, command, show
from rooflinecli.interfaces.cli.main import PlainGroup, application
from rooflinecli.interfaces.cli.output import INTERRUPTED, Progress, columns, print_error, write
from rooflinecli.measure.question import SUITES, ModelComparison, OpenAIServer, Suite, VLLMServer, needs_jax
from rooflinecli.specs.options import OptText, Switch, Text, field
from rooflinecli.validate.question import Validate

if TYPE_CHECKING:
    from rooflinecli.core.record import Json
    from rooflinecli.measure.cases import KernelCase
    from rooflinecli.measure.run import MeasureAnswer


class ValidateDelivery(Delivery):
    """Tables of errors, and pictures of them in a folder."""

    # fmt: off
    plot: OptText = field("file", "A folder for pictures, one per table: predicted against measured, residuals by group.", default=None, metavar="PATH")
    # fmt: on


class CalibrateDelivery(Delivery):
    """The page of a calibration on standard output, the hardware file in --out."""

    # fmt: off
    out: OptText = field("file", "Write the calibrated hardware file here.", default=None, short="-o")
    force: Switch = field("switch", "Write --out even where the held-out rows got worse.", default=False)
    # fmt: on


def _text(
    answer: Any,
    how: Delivery,
    notes: list[str],
    out: Path | None = None,
    images: dict[str, str] | None = None,
    head: str = "",
    summary: bool = False,
) -> str:
    """The tables of an answer in a format."""
    from rooflinecli.render.answer import render
    from rooflinecli.render.views import report_tables

    if how.format == "csv":
        return report_tables.csv(answer.tables)
    page = report_tables.view(answer.tables, notes, images, head)
    if summary and how.format == "table" and any("mean" in row for table in answer.tables for row in table.rows):
        page = report_tables.summarized(answer.tables, page)
    return render(answer, lambda _: page, how.format, columns(how.wide, out), schema=how.schema, details=how.details)


def validate(question: Validate, how: ValidateDelivery) -> None:
    """Print the tables, or write them to --out."""
    from rooflinecli.render.views import report_tables

    with Progress(unit="subjects") as bar:
        tables = question.tables(bar.advance)
    out, images = None if how.out is None else Path(how.out), {}
    if how.plot is not None:
        from rooflinecli.render.formats.plot import validation

        folder = out.parent if out else Path()
        images = {title: relpath(path, folder) for title, path in validation(tables, Path(how.plot)).items()}
    text = _text(question.answer_of(tables), how, [report_tables.LEGEND], out, images, summary=True)
    if how.format == "markdown" and question.subject == "all":
        text = f"{report_tables.preface()}\n\n{text}"
    write(text, out)


def calibrate(question: Calibrate, how: CalibrateDelivery) -> int:
    """Calibrate and print; the exit code is 1 where all that moved made held-out rows worse."""
    from rooflinecli.calibrate.answer import hardware_yaml, report
    from rooflinecli.core import files

    with Progress(unit="fits") as bar:
        result = question.answer(bar.advance)
    answer = report(result)
    kept, force = result.written(how.force), how.force
    unwritten = " Nothing is written; --out FILE writes it." if result.moved and not how.out else ""
    write(_text(answer, how, answer.notes, head=result.headline(how.out or "", force) + unwritten))
    if how.out is not None and kept:
        files.write(Path(how.out), hardware_yaml(result, force=force))
    elif how.out is not None and result.moved:
        print_error(f"not written: {how.out}: the held-out rows got worse; --force writes it")
    elif how.out is not None:
        print_error(f"note: {how.out} is not written: no phase moved, so the shipped file says all there is")
    return INTERRUPTED if result.interrupted else int(bool(result.moved) and not kept)


class MeasureDelivery(Delivery):
    """An answer on standard output; --out is the profile."""

    without = frozenset({"out", "schema"})
    # fmt: off
    format: Text = field("choice", "Format of the answer", default="table", choices=("table", "json"), short="-f")
    # fmt: on


class RunsDelivery(Delivery):
    """Runs of a server as JSON lines."""

    without = frozenset({"format", "schema", "wide"})


class _Default(PlainGroup):
    """`roofline measure --quick` is `roofline measure all --quick`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["all", *args]
        return super().parse_args(ctx, args)


def suite(question: Suite, how: MeasureDelivery) -> int:
    """Measure and print; the exit code is 1 where no profile was written, 130 after Ctrl-C."""
    needs_jax()
    from rooflinecli.render.views.measure import rate

    with Progress() as bar:

        def progress(case: KernelCase, record: Json | None, planned: int) -> None:
            bar.unit = f"timing {case.label}" if record is None else f"{case.label}: {rate(record)}"
            bar.advance(int(record is not None and record.get("looks", 1) == 1), planned)

        answer = question.answer(progress)
    return _show(answer, how)


def _show(answer: MeasureAnswer, how: MeasureDelivery) -> int:
    """Write the profile and print the run; returns the exit code."""
    from rooflinecli.render.views import measure as views

    if not answer.leader:
        return 0
    for sentence in [*views.warnings(answer.records, answer.failed), *answer.notes]:
        print(f"roofline: {sentence}", file=sys.stderr)
    if answer.text is not None:
        write(answer.text, answer.out)
    report: Any = answer.report() if how.format == "json" else answer
    show(report, "measure", how)
    return 130 if answer.interrupted else int(answer.withheld)


def model(question: ModelComparison, how: MeasureDelivery) -> None:
    """Compare a model with its prediction and print it."""
    answer = question.answer()
    if how.format == "table":
        for row in answer.phases:
            if row["warning"]:
                print(f"roofline: {row['phase']}: {row['warning']}", file=sys.stderr)
    show(answer, "measure.comparison", how)


def server(question: OpenAIServer, how: RunsDelivery) -> None:
    """Measure a server and print a line of JSON for each run."""
    import json

    write("\n".join(json.dumps(run) for run in question.answer()), None if how.out is None else Path(how.out))


def app(verb: str) -> typer.Typer:
    """The application of a verb."""
    if verb == "validate":
        return command(Validate, validate, ValidateDelivery)
    if verb == "calibrate":
        return command(Calibrate, calibrate, CalibrateDelivery)
    found = application(
        cls=_Default,
        help="Time real kernels on this machine, fit the engine's constants and write a hardware profile "
        "that `estimate --hw` reads.",
    )
    for one in SUITES.values():
        add(found, one, suite, MeasureDelivery)
    add(found, ModelComparison, model, MeasureDelivery)
    add(found, OpenAIServer, server, RunsDelivery)
    add(found, VLLMServer, server, RunsDelivery)
    return found
