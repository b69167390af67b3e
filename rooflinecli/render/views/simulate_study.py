"""A study of simulations, a row each, in the formats of one."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.formats import csv as comma
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.views.simulate import shown

_STUDY = (
    "replicas",
    "devices",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p99_s",
    "e2e_p99_s",
    "output_tokens_per_s",
    "slo_share",
    "usd_per_million_output_tokens",
    "violation",
)


def rows(result: dict[str, Any], format: str, width: int) -> str:
    """A study: a row per simulation."""
    if format == "json":
        return dumps(result)
    names = list(dict.fromkeys(name for row in result["rows"] for name in row))
    if format == "csv":
        return comma.rows([names, *([row.get(name, "") for name in names] for row in result["rows"])])
    wanted = [
        *result["axes"],
        *(
            name
            for name in _STUDY
            if name not in result["axes"] and any(row.get(name) not in (None, "") for row in result["rows"])
        ),
    ]
    grid = [[_HEADS.get(name, name) for name in wanted]]
    grid += [[shown(name, row[name]) if row.get(name) is not None else "" for name in wanted] for row in result["rows"]]
    if format == "markdown":
        return marked.table(grid)
    return "\n".join(terminal.table(grid, width, left=tuple(range(len(result["axes"]))), shrink={"violation": 30}))


_HEADS = {
    "ttft_p50_s": "ttft p50",
    "ttft_p99_s": "ttft p99",
    "itl_p99_s": "itl p99",
    "e2e_p99_s": "e2e p99",
    "output_tokens_per_s": "tokens/s",
    "slo_share": "in the SLO",
    "usd_per_million_output_tokens": "USD/M tokens",
}
