"""The first layouts of a serving search, simulated at the rate that was asked for: percentiles where the search has means."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions.simulate.answer import Cell, cell_values
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.specs.options import OPTIONS

KEPT = (
    "replicas",
    "devices",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p99_s",
    "tpot_p99_s",
    "e2e_p99_s",
    "slo_attainment",
    "feasible",
    "violation",
)
_LAYOUT = (
    "prompts-per-slot",
    "equal-lengths",
    "n",
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "batch",
    "phase",
    "tokens",
    "attention-flops",
    "prompt",
    "output",
)


def simulated(
    options: dict[str, Any], rows: list[dict[str, Any]], limits: dict[str, str | None], over: Spread
) -> list[dict[str, Any]]:
    """Per row what its instances make of Poisson arrivals at the rate; the limits of the search are its SLO."""
    return [
        {k: row[k] for k in KEPT if k in row}
        for row in over(cell_values, [_cell(options, row, limits) for row in rows])
    ]


def note(
    options: dict[str, Any], rows: list[dict[str, Any]], limits: dict[str, str | None], over: Spread | None
) -> None:
    """Put beside each row what its simulation says."""
    for row, values in zip(rows, simulated(options, rows, limits, over or map), strict=True):
        row["simulate"] = values


def _cell(options: dict[str, Any], row: dict[str, Any], limits: dict[str, str | None]) -> Cell:
    layout = row["layout"]
    own = {k: v for k, v in options.items() if k not in _LAYOUT and OPTIONS[k].phase != "train"}
    plan = {"n": layout["devices"], **{axis: layout[axis] for axis in ("tp", "pp", "dp", "ep")}}
    said = ",".join(f"{name}={limits[name]}" for name in ("ttft", "itl") if limits[name] is not None)
    given = {k: str(options[k]) for k in ("prompt", "output") if k in options} | ({"slo": said} if said else {})
    copies = str(int(row["serve"]["instances"]))
    return Simulate.read({**own, **plan, **given, "qps": limits["qps"], "replicas": copies}), {}
