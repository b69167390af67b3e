"""Refitting the constants that engines with few published runs do not share: to all of these runs, and with each model left out.

A fit is one of factors on the constants, to first order in their logarithms (serving_fit has the same for the engines with thousands
of runs). An engine's runs on another chip are in no fit: they show what its constants are worth there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.price.overrides import TIMES
from rooflinecli.validate import inference as served
from rooflinecli.validate import throughput_tables
from rooflinecli.validate.fit_serving import STEP, best
from rooflinecli.validate.inference import Run
from rooflinecli.validate.stats import Array, Table

ROUNDS = 30
STREAM, START, KEYS = "efficiency.matmul.memory", "engine.per_layer", "efficiency.decode_attention.memory"
SUM = "efficiency.collective.overhead"
# engine -> groups it is fitted to, groups of other chips, constants
FITTED: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "neuron": (("neuron_trn1",), ("neuron_inf2",), (START, KEYS)),
    "cuda-graph": (("gptfast", "gptfast_moe"), (), (START, STREAM, SUM)),
    "autoawq": (("autoawq", "autoawq_other"), (), (START, STREAM)),
}
NOTE = (
    "Mean errors of inter-token latencies; shipped: as they are; fitted: the constants named refitted to all runs, to first order; left out: each model "
    "predicted from a fit without it (the median beside it, and what of it lies inside the interval). elsewhere: runs on another chip, in no fit, under "
    "the constants fitted here."
)


@dataclass
class Runs:
    """Runs of an engine as arrays: logarithms of expected over measured seconds, their slopes along each constant, half widths."""

    models: Array
    missed: Array
    slopes: Array
    wide: Array

    def fit(self, mask: Array) -> Array:
        """Logarithms of the factors that fit the runs of a mask."""
        slopes = self.slopes[mask]
        point, left = np.zeros(slopes.shape[1]), self.missed[mask].copy()
        for _ in range(ROUNDS):
            for i in range(len(point)):
                rest = left - slopes[:, i] * point[i]
                point[i] = best(rest, slopes[:, i], np.ones(len(rest)), point[i], 0.0)
                left = rest + slopes[:, i] * point[i]
        return point

    def errors(self, point: Array) -> Array:
        """log(predicted / measured) at a point."""
        found: Array = self.missed + self.slopes @ point
        return found

    def without(self) -> Array:
        """The same with each model's runs predicted from a fit that left it out."""
        found = self.missed.copy()
        for name in np.unique(self.models):
            mine = self.models == name
            found[mine] = self.errors(self.fit(~mine))[mine]
        return found


def gather(groups: tuple[str, ...], paths: tuple[str, ...]) -> Runs:
    """The runs of these groups that state an inter-token latency."""
    runs = [
        run
        for run in served.published_runs() + throughput_tables.runs()
        if run.group in groups and "itl" in run.measured
    ]
    found = [_answered(run, paths) for run in runs]
    missed, slopes, wide = (np.array(column) for column in zip(*found, strict=True))
    return Runs(np.array([run.options["model"] for run in runs]), missed, slopes, wide)


def _answered(run: Run, paths: tuple[str, ...]) -> tuple[float, Array, float]:
    factors: dict[str, Any] = {}
    for i, path in enumerate(paths):
        column = np.ones(len(paths) + 1)
        column[i + 1] = np.exp(STEP)
        factors[TIMES + path] = column
    answer = inference.decode(EstimateContext(build_request.request(run.options), override=factors), run.layout)
    logs = np.log(np.broadcast_to(answer.time_s, len(paths) + 1))
    wide = float(np.log(np.max(answer.interval_s[1] / answer.time_s)))
    return float(logs[0] - np.log(run.measured["itl"])), (logs[1:] - logs[0]) / STEP, wide


def refitted() -> list[Table]:
    """A line for each engine: errors as shipped, refitted and left out, and what the fit asks of each constant."""
    rows = []
    for engine, (here, elsewhere, paths) in FITTED.items():
        runs = gather(here, paths)
        point = runs.fit(np.ones(len(runs.missed), dtype=bool))
        out = runs.without()
        line: dict[str, Any] = {
            "group": engine,
            "rows": len(runs.missed),
            "shipped": _mean(runs.missed),
            "fitted": _mean(runs.errors(point)),
            "left_out": _mean(out),
            "left_out_median": float(np.median(np.abs(np.expm1(out)))),
            "left_out_inside": float((np.abs(out) <= runs.wide).mean()),
        }
        if elsewhere:
            line["elsewhere"] = _mean(gather(elsewhere, paths).errors(point))
        line |= {path.rpartition(".")[2]: float(f"{np.exp(x):.3g}") for path, x in zip(paths, point, strict=True)}
        rows.append(line)
    return [Table("refit: engines with few runs", rows, [NOTE])]


def _mean(logs: Array) -> float:
    return float(np.abs(np.expm1(logs)).mean())
