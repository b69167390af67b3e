"""`roofline validate` and `roofline calibrate`: tables of errors, pictures of them, and the hardware file that a calibration makes."""

from __future__ import annotations

from os.path import relpath
from pathlib import Path
from typing import Any

import typer

from rooflinecli.calibrate.question import Calibrate
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import Progress, columns, print_error, write
from rooflinecli.specs.options import OptText, Switch, field
from rooflinecli.validate.question import Validate


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
    answer: Any, how: Delivery, notes: list[str], out: Path | None = None, images: dict[str, str] | None = None
) -> str:
    """The tables of an answer in a format."""
    from rooflinecli.render.answer import render
    from rooflinecli.render.views import report_tables

    if how.format == "csv":
        return report_tables.csv(answer.tables)
    page = report_tables.view(answer.tables, notes, images)
    return render(answer, lambda _: page, how.format, columns(how.wide, out), schema=how.schema)


def validate(question: Validate, how: ValidateDelivery) -> None:
    """Print the tables, or write them to --out."""
    from rooflinecli.render.views import report_tables

    with Progress(unit="subjects") as bar:
        tables = question.tables(bar.tell)
    out, images = None if how.out is None else Path(how.out), {}
    if how.plot is not None:
        from rooflinecli.render.formats.plot import validation

        folder = out.parent if out else Path()
        images = {title: relpath(path, folder) for title, path in validation(tables, Path(how.plot)).items()}
    text = _text(question.answer_of(tables), how, [report_tables.LEGEND], out, images)
    if how.format == "markdown" and question.subject == "all":
        text = f"{report_tables.preface()}\n\n{text}"
    write(text, out)


def calibrate(question: Calibrate, how: CalibrateDelivery) -> int:
    """Calibrate and print; the exit code is 1 where held-out rows got worse."""
    from rooflinecli.calibrate.answer import hardware_yaml, report
    from rooflinecli.core import files

    result = question.answer()
    answer = report(result)
    write(_text(answer, how, answer.notes))
    if result.refused and not how.force:
        return 1
    if how.out is not None and result.moved:
        files.write(Path(how.out), hardware_yaml(result))
    elif how.out is not None:
        print_error(f"note: {how.out} is not written: no phase moved, so the shipped file says all there is")
    return 0


def app(verb: str) -> typer.Typer:
    """The application of a verb."""
    if verb == "validate":
        return command(Validate, validate, ValidateDelivery)
    return command(Calibrate, calibrate, CalibrateDelivery)
