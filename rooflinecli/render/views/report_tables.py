"""Tables of errors: what `validate`, `calibrate` and the studies of the lab print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rooflinecli.core.record import ReportTable
from rooflinecli.render import numbers
from rooflinecli.render.answer import csv_rows
from rooflinecli.render.blocks import Block, Column, Drawing, Headline, Note, Page, Prose, Table, page

Row = Mapping[str, float | str | None]

# columns in their order; the others follow
_ORDER = """group by rows before calibrated change clean corrupted cost blocks seconds mean median p90 bias expected_hours published_hours off
mfu implied_mfu layout coverage half_width families bare_factor one_factor worse kept floor_mean layouts gain gain_max gain_left_out
gain_measured rank rank_max points reached over over_least over_most over_apart asked asked_max set model_like fitted shipped left_out
left_out_median generation_out engine_out formula_mean formula_median left_out_inside elsewhere suspect error_before error_after
coverage_before coverage_after interval move contraction sd_before sd_after below_floor""".split()
# those that are no per cents
_PLAIN = frozenset(
    "group by rows blocks seconds expected_hours published_hours layout families layouts points reached suspect below_floor".split()
)
# headings that are not their names
_HEADS = {
    "seconds": "CPU s", "mean": "mean error", "expected_hours": "hours", "published_hours": "published", "mfu": "MFU", "implied_mfu": "MFU implied",
    "coverage": "in the 80% interval", "floor_mean": "bare floor", "gain": "gain of the winner", "gain_max": "largest", "gain_left_out": "family left out",
    "gain_measured": "over measured", "rank": "rank of the published", "rank_max": "worst rank", "reached": "as fast for a user", "over": "over published",
    "over_least": "least", "over_most": "greatest", "over_apart": "pools apart", "asked": "error asked for", "asked_max": "most", "model_like": "model-like",
    "fitted": "refitted", "left_out_median": "left out, median", "generation_out": "generation left out", "engine_out": "engine left out",
    "formula_mean": "formula, mean", "formula_median": "formula, median", "left_out_inside": "left out, in the 80% interval",
    "coverage_before": "in interval before", "coverage_after": "in interval after", "sd_before": "now", "sd_after": "then",
}  # fmt: skip
LEGEND = (
    "mean, median, p90: |predicted / measured - 1|; bias: geometric mean of predicted / measured, less one; bare floor: mean error of the roofline "
    "itself; suspect: rows that measured faster than the floor, not scored; below floor: predictions below it."
)


# columns that are dropped first where there is no room for all, after those that _ORDER does not have
_DROP = "kept worse one_factor families model_like below_floor suspect p90 bias median shipped fitted rows".split()
_SIGNED = ("bias", "off", "change", "cost", "move")


def view(tables: Sequence[ReportTable], notes: Sequence[str], images: Mapping[str, str] | None = None) -> Page:
    """A headline, a table, its picture and its notes for each; then the notes of all. `images`: title -> file, for Markdown."""
    groups: list[list[Block]] = []
    for one in tables:
        if one.rows or one.notes:
            groups.append([Headline(one.title[:1].upper() + one.title[1:]), *_body(one.rows)])
            if images and one.title in images:
                groups[-1].append(Drawing((), f"![{one.title}]({images[one.title]})"))
            groups.append([Prose(note) for note in one.notes or ()])
    return page(*groups, [Note(note) for note in notes])


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
    more = [f" ({row['rows']} rows)" if row.get("rows", 1) != 1 else "" for row in rows]
    left = ["; left out" if row.get("left_out") == "yes" else "" for row in rows]
    return [Prose(f"{row['row']}: {row['reason']}{n}{out}") for row, n, out in zip(rows, more, left, strict=True)]


def _table(rows: Sequence[Row]) -> Table:
    used = list(dict.fromkeys(key for row in rows for key in row))
    known = [column for column in _ORDER if column in used]
    order = [*known, *(column for column in used if column not in _ORDER)]
    ranks = {name: rank for rank, name in enumerate((*(c for c in order if c not in _ORDER), *_DROP), 1)}
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
    if column in _ORDER and column not in _PLAIN:
        return numbers.error(value, signed=column in _SIGNED)
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
