"""What a calibration found, for people and programs: the tables of a validation, in its formats."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.formats import csv as comma
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE

_PERCENT = (
    "before",
    "after",
    "covered_before",
    "covered",
    "interval",
    "move",
    "contraction",
    "sd_before",
    "sd_after",
    "drop",
)
_NAMES = {
    "covered_before": "in interval before",
    "covered": "in interval after",
    "sd_before": "now",
    "sd_after": "then",
}


def render(result: dict[str, Any], format: str, width: int = PIPE) -> str:
    """The answer in one of the formats."""
    if format == "json":
        return dumps(result)
    if format == "csv":
        columns = list(dict.fromkeys(key for t in result["tables"] for row in t["rows"] for key in row))
        lines = [[t["title"], *(row.get(c, "") for c in columns)] for t in result["tables"] for row in t["rows"]]
        return comma.rows([["table", *columns], *lines])
    if format == "markdown":
        parts = [f"## {t['title']}\n\n{marked.table(_grid(t['rows']))}" for t in result["tables"] if t["rows"]]
        return "\n\n".join([*parts, "\n".join(f"- {note}" for note in result["notes"])])
    parts = [
        "\n".join([*terminal.prose(t["title"], width), *terminal.table(_grid(t["rows"]), width, left=_text(t["rows"]))])
        for t in result["tables"]
        if t["rows"]
    ]
    notes = [line for note in result["notes"] for line in terminal.prose(note, width, "  ")]
    return "\n\n".join([*parts, "\n".join(notes)] if notes else parts)


def _grid(rows: list[dict[str, Any]]) -> list[list[str]]:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return [
        [_NAMES.get(c, c.replace("_", " ")) for c in columns],
        *([_cell(c, row.get(c)) for c in columns] for row in rows),
    ]


def _text(rows: list[dict[str, Any]]) -> list[str]:
    """Columns that hold words."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return [_NAMES.get(c, c.replace("_", " ")) for c in columns if any(isinstance(row.get(c), str) for row in rows)]


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column in _PERCENT and isinstance(value, float):
        return (
            f"{value:+.1%}"
            if column == "move"
            else f"{value:.0%}"
            if column.startswith(("cov", "con"))
            else f"{value:.1%}"
        )
    return f"{value:.3g}" if isinstance(value, float) else str(value)
