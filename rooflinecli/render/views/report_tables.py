"""Tables of errors: what `validate`, `calibrate` and the studies of the lab print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rooflinecli.core.report_table import ReportTable
from rooflinecli.render import numbers
from rooflinecli.render.blocks import Block, Column, Drawing, Headline, Note, Page, Prose, Table, page
from rooflinecli.render.formats import csv as comma

Row = Mapping[str, float | str | None]

# column -> (heading, per cent?)
COLUMNS: dict[str, tuple[str, bool]] = {
    "group": ("group", False),
    "by": ("by", False),
    "rows": ("rows", False),
    "before": ("before", True),
    "calibrated": ("calibrated", True),
    "change": ("change", True),
    "clean": ("clean", True),
    "corrupted": ("corrupted", True),
    "cost": ("cost", True),
    "blocks": ("blocks", False),
    "seconds": ("CPU s", False),
    "mean": ("mean error", True),
    "median": ("median", True),
    "p90": ("p90", True),
    "bias": ("bias", True),
    "expected_hours": ("hours", False),
    "published_hours": ("published", False),
    "off": ("off", True),
    "mfu": ("MFU", True),
    "implied_mfu": ("MFU implied", True),
    "layout": ("layout", False),
    "coverage": ("in the 80% interval", True),
    "half_width": ("half width", True),
    "families": ("families", False),
    "bare_factor": ("bare factor", True),
    "one_factor": ("one factor", True),
    "worse": ("worse", True),
    "kept": ("kept", True),
    "floor_mean": ("bare floor", True),
    "layouts": ("layouts", False),
    "gain": ("gain of the winner", True),
    "gain_max": ("largest", True),
    "gain_left_out": ("family left out", True),
    "gain_measured": ("over measured", True),
    "rank": ("rank of the published", True),
    "rank_max": ("worst rank", True),
    "points": ("points", False),
    "reached": ("as fast for a user", False),
    "over": ("over published", True),
    "over_least": ("least", True),
    "over_most": ("greatest", True),
    "over_apart": ("pools apart", True),
    "asked": ("error asked for", True),
    "asked_max": ("most", True),
    "set": ("set", True),
    "model_like": ("model-like", True),
    "fitted": ("refitted", True),
    "shipped": ("shipped", True),
    "left_out": ("left out", True),
    "left_out_median": ("left out, median", True),
    "generation_out": ("generation left out", True),
    "engine_out": ("engine left out", True),
    "formula_mean": ("formula, mean", True),
    "formula_median": ("formula, median", True),
    "left_out_inside": ("left out, in the 80% interval", True),
    "elsewhere": ("elsewhere", True),
    "suspect": ("suspect", False),
    "error_before": ("error before", True),
    "error_after": ("error after", True),
    "coverage_before": ("in interval before", True),
    "coverage_after": ("in interval after", True),
    "interval": ("interval", True),
    "move": ("move", True),
    "contraction": ("contraction", True),
    "sd_before": ("now", True),
    "sd_after": ("then", True),
    "below_floor": ("below floor", False),
}
LEGEND = (
    "mean, median, p90: |predicted / measured - 1|; bias: geometric mean of predicted / measured, less one; bare floor: mean error of the roofline "
    "itself; suspect: rows that measured faster than the floor, not scored; below floor: predictions below it."
)


# columns that are dropped first where there is no room for all, after those that COLUMNS does not have
_DROP = (
    "kept",
    "worse",
    "one_factor",
    "families",
    "model_like",
    "below_floor",
    "suspect",
    "p90",
    "bias",
    "median",
    "shipped",
    "fitted",
    "rows",
)
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
    return comma.rows([["table", *columns], *lines])


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
    known = [column for column in COLUMNS if column in used]
    order = [*known, *(column for column in used if column not in COLUMNS)]
    ranks = {name: rank for rank, name in enumerate((*(c for c in order if c not in COLUMNS), *_DROP), 1)}
    columns = [
        Column(
            COLUMNS[name][0] if name in COLUMNS else name.replace("_", " "),
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
    if COLUMNS.get(column, ("", False))[1]:
        return numbers.error(value, signed=column in _SIGNED)
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
