"""Tables of errors, for people (table), documents (markdown), and programs (csv, json)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli.render.formats import csv as comma
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE

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
    "below_floor": ("below floor", False),
}
LEGEND = (
    "mean, median, p90: |predicted / measured - 1|; bias: geometric mean of predicted / measured, less one; bare floor: mean error of the roofline "
    "itself; suspect: rows that measured faster than the floor, not scored; below floor: predictions below it."
)


def render(result: dict[str, Any], format: str, images: dict[str, str] | None = None, width: int = PIPE) -> str:
    """The answer in one of the formats. `images`: title of a table -> picture, shown in Markdown."""
    if format == "json":
        return dumps(result)
    if format == "csv":
        columns = [
            *COLUMNS,
            *sorted({key for t in result["tables"] for row in t["rows"] for key in row} - set(COLUMNS)),
        ]
        lines = [[t["title"], *(row.get(c, "") for c in columns)] for t in result["tables"] for row in t["rows"]]
        return comma.rows([["table", *columns], *lines])
    if format == "markdown":
        parts = [preface()] if result["subject"] == "all" else []
        return "\n\n".join([*parts, *(_section(t, images or {}) for t in result["tables"]), LEGEND])
    return "\n\n".join([*(_block(t, width) for t in result["tables"]), "\n".join(terminal.prose(LEGEND, width))])


def _section(table: dict[str, Any], images: dict[str, str]) -> str:
    """A table in a document, with its picture."""
    title = table["title"]
    image = f"![{title}]({images[title]})" if title in images else ""
    body = marked.table(cells(table["rows"])) if table["rows"] else ""
    head = f"## {title[0].upper()}{title[1:]}"
    return "\n\n".join(part for part in (head, body, image, "\n".join(table["notes"])) if part)


# columns of a table for people go in this order where there is no room for all, after those no other table has
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


def _block(table: dict[str, Any], width: int) -> str:
    """A table for people."""
    grid = cells(table["rows"])
    known = [heading for heading, _ in COLUMNS.values()]
    drop = [name for name in grid[0] if name not in known] + [COLUMNS[c][0] for c in _DROP]
    body = terminal.table(grid, width, drop=drop, shrink={grid[0][0]: 24}) if table["rows"] else []
    notes = [line for note in table["notes"] for line in terminal.prose(note, width)]
    return "\n\n".join("\n".join(part) for part in (terminal.prose(table["title"], width), body, notes) if part)


def preface() -> str:
    """What is compared with what: the head of docs/accuracy.md."""
    return (
        (Path(__file__).resolve().parent.parent.parent / "validate" / "preface.md").read_text(encoding="utf-8").rstrip()
    )


def cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Head and rows as text, with the columns that any row fills."""
    used = [c for c in COLUMNS if any(c in row for row in rows)]
    more = sorted({key for row in rows for key in row} - set(COLUMNS))
    head = [COLUMNS[c][0] for c in used] + more
    return [head, *([_cell(row, c) for c in used] + [str(row.get(c, "")) for c in more] for row in rows)]


def _cell(row: dict[str, Any], column: str) -> str:
    if column not in row:
        return ""
    value = row[column]
    if COLUMNS[column][1]:
        return f"{value:+.1%}" if column in ("bias", "off", "change", "cost") else f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}" if isinstance(value, float) else str(value)
