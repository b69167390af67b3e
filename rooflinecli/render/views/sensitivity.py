"""Elasticities as table, Markdown, CSV or JSON."""

from __future__ import annotations

import json
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.csv import rows
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.markdown import table
from rooflinecli.render.formats.terminal_style import PIPE


def text(result: dict[str, Any], format: str, width: int = PIPE) -> str:
    """The answer in one of the formats. Raises UsageError for one that suits streams only."""
    flat = [
        [phase, row["figure"], f"{row['elasticity']:+.4f}", _value(row["value"])]
        for phase, found in result["phases"].items()
        for row in found
    ]
    head = ["phase", "figure", "elasticity", "value"]
    if format == "json":
        return dumps(result)
    if format == "csv":
        exact = [
            [phase, row["figure"], row["elasticity"], json.dumps(row["value"])]
            for phase, found in result["phases"].items()
            for row in found
        ]
        return rows([head, *exact])
    if format == "markdown":
        return table([head, *flat])
    if format != "table":
        raise UsageError(f"--sensitivity has no {format} form; use table, json, csv or markdown")
    title = f"{result['model']} on {result['hardware']}: per cent of time for one per cent of the figure"
    lines = terminal.table([head, *flat], width, left=(0, "figure", "value"), drop=("value",), shrink={"figure": 24})
    return "\n".join([*terminal.prose(title, width), "", *lines])


def _value(value: Any) -> str:
    return ", ".join(f"{v:.4g}" for v in value) if isinstance(value, list) else f"{value:.4g}"
