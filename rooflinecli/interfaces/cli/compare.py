"""`roofline compare`: the question, or measured rows next to the estimate of one chip."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, Plotted, command
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.compare.question import Compare, MeasuredAnswer


class CompareDelivery(Plotted, Delivery):
    """Where the answer goes, and its picture."""


def run(question: Compare, how: CompareDelivery) -> int:
    """Compare and print; the exit code is 1 where no chip can."""
    if question.measured:
        show(_measured(question), "compare.measured", how, table="rows")
        return 0
    if question.sensitivity and how.format == "csv":
        from rooflinecli.engine.build_request import warn

        warn("--sensitivity has no place in csv, which holds the rows alone; table, markdown and json have it")
    found = question.answer()
    show(found, "compare", how, table="rows")
    return 0 if found.feasible else 1


def _measured(question: Compare) -> MeasuredAnswer:
    """Measured rows next to the estimate on one chip."""
    from rooflinecli.calibrate.gap_explanations import against
    from rooflinecli.calibrate.report import aside
    from rooflinecli.calibrate.resolve_rows import resolve
    from rooflinecli.importers.logs import read

    if len(question.chips) != 1:
        raise UsageError("--measured compares with one chip; give one --hw", "hw")
    rows = [row for file in question.measured for row in read(Path(file))]
    found = resolve(rows, question.options() | {"hw": question.chips[0]})
    return MeasuredAnswer(rows=against(found.rows), aside=aside([*found.doubts, *found.aside]), notes=found.notes)


app = command(Compare, run, CompareDelivery)
