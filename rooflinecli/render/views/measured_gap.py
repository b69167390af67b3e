"""Measured rows beside the estimate, and what would explain each gap."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.text import plural
from rooflinecli.core.units import duration
from rooflinecli.render.formats import csv as comma
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE

_HEAD = ["row", "quantity", "measured", "floor", "expected", "80% interval", "gap", "verdict"]


def render(result: dict[str, Any], format: str, width: int = PIPE) -> str:
    """The answer in one of the formats."""
    if format == "json":
        return dumps(result)
    grid = [_HEAD, *(_cells(row) for row in result["rows"])]
    if format == "csv":
        columns = ["row", "quantity", "measured_s", "floor_s", "expected_s", "gap", "verdict"]
        return comma.rows([columns, *([row[c] for c in columns] for row in result["rows"])])
    said = [_sentence(row) for row in result["rows"] if row["explained_by"] and row["verdict"] != "inside the interval"]
    more = [
        *said,
        *(f"{plural(a['rows'], 'row')} from {a['row']} on not compared: {a['reason']}" for a in result["aside"]),
        *result["notes"],
    ]
    if format == "markdown":
        return "\n\n".join(part for part in (marked.table(grid), "\n".join(f"- {text}" for text in more)) if part)
    body = terminal.table(
        grid, width, left=("row", "quantity", "verdict"), drop=("floor", "quantity"), shrink={"row": 24}
    )
    return "\n".join(
        [*body, *([""] if more else []), *(line for text in more for line in terminal.prose(text, width, "  "))]
    )


def _cells(row: dict[str, Any]) -> list[str]:
    span = " - ".join(map(duration, row["interval_s"])) if row["interval_s"] else "-"
    times = [duration(row[name]) for name in ("measured_s", "floor_s", "expected_s")]
    return [row["row"], row["quantity"], *times, span, f"{row['gap']:+.0%}", row["verdict"]]


def _sentence(row: dict[str, Any]) -> str:
    """The explanations of a row, the mildest first."""
    each = ", ".join(f"{e['what']} (asks {e['asks']:.2g})" for e in row["explained_by"])
    return f"{row['row']}: any one of these would explain {row['gap']:+.0%}: {each}"
