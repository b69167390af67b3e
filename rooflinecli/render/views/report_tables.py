"""Tables of errors: what `validate`, `calibrate` and the studies of the lab print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.record import ReportTable
from rooflinecli.core.text import plural
from rooflinecli.render import numbers
from rooflinecli.render.answer import csv_rows
from rooflinecli.render.blocks import Block, Column, Drawing, Headline, Note, Page, Prose, Table, page
from rooflinecli.specs.snapshots import table

if TYPE_CHECKING:
    from rooflinecli.calibrate.answer import CalibrationReport
    from rooflinecli.validate.question import ValidateAnswer

Row = Mapping[str, float | str | None]

_COLUMNS = table(Path(__file__).with_suffix(".yaml"))
_SUMMARY = ("rows", "mean", "median", "coverage", "floor_mean")
_ORDER, _HEADS, LEGEND = _COLUMNS["order"], _COLUMNS["heads"], _COLUMNS["legend"]


def view(
    tables: Sequence[ReportTable], notes: Sequence[str], images: Mapping[str, str] | None = None, head: str = ""
) -> Page:
    """`head`; a headline, a table, its picture and its notes for each; then the notes of all. `images`: title -> file, for Markdown."""
    groups: list[list[Block]] = [[Headline(head)]] if head else []
    for one in tables:
        if one.rows or one.notes:
            groups.append([Headline(one.title[:1].upper() + one.title[1:]), *_body(one.rows)])
            if images and one.title in images:
                groups[-1].append(Drawing((), f"![{one.title}]({images[one.title]})"))
            groups.append([Prose(note) for note in one.notes or ()])
    return page(*groups, [Note(note) for note in notes])


def summarized(tables: Sequence[ReportTable], whole: Page) -> Page:
    """A line for each table of errors, that of all its rows; the `whole` of them is the details."""
    ends = ((one, next((r for r in one.rows if r.get("group") == "all"), one.rows[-1])) for one in tables if one.rows)
    scored = [(one.title[:1].upper() + one.title[1:], row) for one, row in ends if "mean" in row]
    means, inside = (
        sorted(float(row[name] or 0.0) for _, row in scored if name in row) for name in ("mean", "coverage")
    )
    errors, covered = (numbers.interval(found[0], found[-1], "fraction") for found in (means, inside))
    head = f"{plural(len(scored), 'table')}: mean error {errors}; {covered} of the rows are in the 80% interval"
    columns = [
        Column("predicted against measured", text=True, least=30),
        *map(Column, (_HEADS.get(n, n) for n in _SUMMARY)),
    ]
    lines = [[title, *(cell(name, row.get(name)) for name in _SUMMARY)] for title, row in scored]
    more = [
        Note(
            "rows, errors and coverage are those of all groups of a table; bare floor: mean error of the roofline itself"
        )
    ]
    return page([Headline(head)], [Table(columns, lines)], more, details=whole.groups, about="every group, exclusions")


def validated(answer: ValidateAnswer) -> Page:
    """The tables of a validation."""
    return view(answer.tables, [LEGEND])


def calibrated(answer: CalibrationReport) -> Page:
    """What moved, and the tables of a calibration."""
    return view(answer.tables, answer.notes, head=answer.headline)


def csv(tables: Sequence[ReportTable]) -> str:
    """All rows under the columns of all tables, the table's title first."""
    rows = [row for table in tables for row in table.rows]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [[table.title, *(row.get(c, "") for c in columns)] for table in tables for row in table.rows]
    return csv_rows([["table", *columns], *lines])


def preface() -> str:
    """The head of docs/accuracy.md: the data and the forms."""
    path = Path(__file__).resolve().parent.parent.parent / "validate" / "preface.md"
    return path.read_text(encoding="utf-8").rstrip()


def _body(rows: Sequence[Row]) -> list[Block]:
    """A table; rows with a reason, which no column has room for, as sentences."""
    if any("reason" not in row for row in rows):
        return [_table(rows)]
    repeats = [f" ({row['rows']} rows)" if row.get("rows", 1) != 1 else "" for row in rows]
    excluded = ["; left out" if row.get("left_out") == "yes" else "" for row in rows]
    return [
        Prose(f"{row['row']}: {row['reason']}{repeated}{mark}")
        for row, repeated, mark in zip(rows, repeats, excluded, strict=True)
    ]


def _table(rows: Sequence[Row]) -> Table:
    used = list(dict.fromkeys(key for row in rows for key in row))
    known = [column for column in _ORDER if column in used]
    order = [*known, *(column for column in used if column not in _ORDER)]
    ranks = {name: rank for rank, name in enumerate((*(c for c in order if c not in _ORDER), *_COLUMNS["drop"]), 1)}
    columns = [
        Column(
            _HEADS.get(name, name.replace("_", " ")),
            text=any(isinstance(row.get(name), str) for row in rows),
            drop=ranks.get(name, 0),
            least=0 if i else 24,
        )
        for i, name in enumerate(order)
    ]
    return Table(columns, [[cell(name, row.get(name)) if name in row else "" for name in order] for row in rows])


def cell(column: str, value: float | str | None) -> str:
    """A number under its column: errors to a tenth of a per cent, seconds and hours with one decimal."""
    if value is None or isinstance(value, str):
        return value or numbers.NONE
    if column in _ORDER and column not in _COLUMNS["plain"]:
        return numbers.error(value, signed=column in _COLUMNS["signed"])
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
