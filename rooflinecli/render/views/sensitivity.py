"""Elasticities of the time of each phase."""

from __future__ import annotations

from rooflinecli.questions.sensitivity.answer_types import SensitivityAnswer
from rooflinecli.render.blocks import Column, Headline, Page, Table, page
from rooflinecli.render.views.tornado import values

_COLUMNS = (
    Column("phase", text=True),
    Column("value", text=True, least=24),
    Column("elasticity"),
    Column("current", text=True, drop=1),
)


def view(answer: SensitivityAnswer) -> Page:
    """A row for each value that the time follows, strongest first."""
    rows = [[row.phase, row.figure, f"{row.elasticity:+.4f}", values(row.value, "1")] for row in answer.rows]
    names = (answer.model, answer.hardware)
    strongest = ", ".join(f"{phase} time by {found[0].figure}" for phase, found in answer.phases.items() if found)
    return page(
        [
            Headline(
                f"{answer.model} on {answer.hardware}: % change in time per 1% change of each value; most: {strongest}",
                names,
            )
        ],
        [Table(_COLUMNS, rows)],
    )
