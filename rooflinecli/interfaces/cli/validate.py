"""`roofline validate`: the question, its tables of errors, and pictures of them."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.interfaces.cli.progress import Progress
from rooflinecli.specs.options import OptText, field
from rooflinecli.validate.question import Validate


class ValidateDelivery(Delivery):
    """Tables of errors, and pictures of them in a folder."""

    # fmt: off
    plot: OptText = field("file", "A folder for pictures, one per table: predicted against measured, residuals by group.", default=None, metavar="PATH")
    # fmt: on


def run(question: Validate, how: ValidateDelivery) -> None:
    """Print the tables, or write them to --out."""
    from rooflinecli.render.answer import render
    from rooflinecli.render.views import report_tables

    bars: list[Progress] = []

    def tell(done: int, total: int) -> None:
        if not bars:
            bars.append(Progress(total, "subjects"))
        bars[0].add(done)

    tables, images = question.tables(tell), {}
    for bar in bars:
        bar.close()
    out = None if how.out is None else Path(how.out)
    if how.plot is not None:
        from os.path import relpath

        from rooflinecli.render.formats.plot import validation

        folder = out.parent if out else Path()
        images = {title: relpath(path, folder) for title, path in validation(tables, Path(how.plot)).items()}
    answer = question.answer_of(tables)
    if how.format == "csv":
        text = report_tables.csv(answer.tables)
    else:
        text = render(
            answer,
            lambda a: report_tables.view(a.tables, [report_tables.LEGEND], images),
            how.format,
            columns(how.wide, out),
            schema=how.schema,
        )
    if how.format == "markdown" and question.subject == "all":
        text = f"{report_tables.preface()}\n\n{text}"
    write(text, out)


app = command(Validate, run, ValidateDelivery)
