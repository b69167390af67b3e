"""The best layouts of a serving search, simulated at the request rate: percentiles in addition to means."""

from __future__ import annotations

from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.question import ServingRow
from rooflinecli.questions.search.search_request import LIMITS, Limits
from rooflinecli.questions.simulate.answer import Cell, cell_values
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.specs.options import OPTIONS

KEPT = (
    "replicas", "devices", "ttft_p50_s", "ttft_p99_s", "itl_p99_s", "tpot_p99_s", "e2e_p99_s", "slo_attainment", "feasible", "violation",
)  # fmt: skip
_OF_LAYOUT = (
    "prompts-per-slot", "n", "tp", "pp", "dp", "cp", "ep", "batch", "phase", "tokens", "attention-flops", "prompt", "output",
)  # fmt: skip


def simulate(options: Options, rows: list[ServingRow], limits: Limits, over: Spread | None) -> None:
    """Set the numbers of each row under Poisson arrivals at the rate; the limits of the search are its SLO."""
    cells = [_cell(options, row, limits) for row in rows]
    for row, values in zip(rows, (over or map)(cell_values, cells), strict=True):
        row.simulate = {k: values[k] for k in KEPT if k in values}


def _cell(options: Options, row: ServingRow, limits: Limits) -> Cell:
    own = {k: v for k, v in options.items() if k not in _OF_LAYOUT and OPTIONS[k].phase != "train"}
    sizes = {"n": row.layout.devices, **{axis: row.layout[axis] for axis in ("tp", "pp", "dp", "ep")}}
    slo = ",".join(f"{name}={limits[name]!r}s" for name in LIMITS if name in limits)
    load = {k: str(options[k]) for k in ("prompt", "output") if k in options} | ({"slo": slo} if slo else {})
    replicas = str(int(row.serve["instances"]))
    return Simulate.read({**own, **sizes, **load, "qps": limits["qps"], "replicas": replicas}), {}
