"""Measured rows with their estimates, and what would explain each gap."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.compare.question import INSIDE, MeasuredAnswer, MeasuredGap
from rooflinecli.render.blocks import Column, Page, Prose, Table, page
from rooflinecli.render.numbers import text

_COLUMNS = (
    Column("row", text=True, least=24),
    Column("quantity", text=True, drop=2),
    Column("measured"),
    Column("floor", drop=1),
    Column("expected"),
    Column("80% interval"),
    Column("gap"),
    Column("verdict", text=True),
)


def view(answer: MeasuredAnswer) -> Page:
    """A table of the rows, then explanations, rows that were not compared, and notes."""
    rows = [
        (
            row.row,
            row.quantity,
            *(text(seconds, "time_s") for seconds in (row.measured_s, row.floor_s, row.expected_s)),
            text(row.interval_s, "interval_s"),
            f"{row.gap:+.0%}",
            row.verdict,
        )
        for row in answer.rows
    ]
    notes = [_explanation(row) for row in answer.rows if row.explained_by and row.verdict != INSIDE]
    for aside in answer.aside:
        count = plural(float(aside["rows"] or 0), "row")
        notes.append(f"{count} from {aside['row']} on not compared: {aside['reason']}")
    return page([Table(_COLUMNS, rows)], [Prose(note, 2) for note in (*notes, *answer.notes)])


def _explanation(row: MeasuredGap) -> str:
    """The explanations of a row, the mildest first."""
    each = ", ".join(f"{e.what} (asks {e.asks:.2g})" for e in row.explained_by)
    return f"{row.row}: any one of these would explain {row.gap:+.0%}: {each}"
