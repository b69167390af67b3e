"""Tables of errors, for people (table), documents (markdown), and programs (csv, json)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli.render import csv as comma
from rooflinecli.render import markdown as marked
from rooflinecli.render.json import dumps

# column -> (heading, per cent?)
COLUMNS: dict[str, tuple[str, bool]] = {
    "group": ("group", False),
    "rows": ("rows", False),
    "mean": ("mean error", True),
    "median": ("median", True),
    "p90": ("p90", True),
    "bias": ("bias", True),
    "coverage": ("in the 80 % interval", True),
    "floor_mean": ("bare floor", True),
    "model_like": ("model-like", True),
    "fitted": ("refitted", True),
    "shipped": ("shipped", True),
    "left_out": ("left out", True),
    "suspect": ("suspect", False),
    "below_floor": ("below floor", False),
}
LEGEND = (
    "mean, median, p90: |predicted / measured - 1|; bias: geometric mean of predicted / measured, less one; bare floor: mean error of the roofline "
    "itself; suspect: rows that measured faster than the floor, not scored; below floor: predictions below it."
)


def render(result: dict[str, Any], format: str, images: dict[str, str] | None = None) -> str:
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
    parts = [preface()] if format == "markdown" and result["subject"] == "all" else []
    for table in result["tables"]:
        rows = cells(table["rows"])
        title = f"## {table['title'][0].upper()}{table['title'][1:]}" if format == "markdown" else table["title"]
        body = (marked.table(rows) if format == "markdown" else columns_of(rows)) if table["rows"] else ""
        image = f"![{table['title']}]({images[table['title']]})" if images and table["title"] in images else ""
        shown = image if format == "markdown" else ""
        parts.append("\n\n".join(part for part in (title, body, shown, "\n".join(table["notes"])) if part))
    return "\n\n".join([*parts, LEGEND])


def preface() -> str:
    """What is compared with what: the head of docs/accuracy.md."""
    return (Path(__file__).resolve().parent.parent / "validate" / "preface.md").read_text(encoding="utf-8").rstrip()


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
        return f"{value:+.1%}" if column == "bias" else f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def columns_of(rows: list[list[str]]) -> str:
    """Aligned columns: the first to the left, numbers to the right."""
    width = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, width, strict=True))
        ).rstrip()
        for row in rows
    )
