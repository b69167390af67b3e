"""Refit of the constants of engines with few published runs: to all of these runs, and with each model left out.

To first order, as `lab.fit_serving` does for the engines with thousands of runs. An engine's runs on another chip are in no fit: they
show what its constants are worth there. `python -m lab.fit_sparse_engines`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lab.fit import Array
from lab.fit_serving import Linear, slopes_of
from lab.show import show
from rooflinecli.engine import inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.validate import inference as served
from rooflinecli.validate.inference import Run
from rooflinecli.validate.stats import Table

STREAM, LAUNCH, CACHE = "efficiency.matmul.memory", "engine.per_layer", "efficiency.decode_attention.memory"
REDUCE = "efficiency.collective.overhead"
# engine -> groups it is fitted to, groups of other chips, constants
FITTED: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "neuron": (("neuron_trn1",), ("neuron_inf2",), (LAUNCH, CACHE)),
    "cuda-graph": (("gptfast", "gptfast_moe"), (), (LAUNCH, STREAM, REDUCE)),
    "autoawq": (("autoawq", "autoawq_other"), (), (LAUNCH, STREAM)),
}
NOTE = (
    "Mean errors of inter-token latencies; fitted: the constants named refitted to all runs, to first order; left out: each model "
    "predicted from a fit without it (with the median and the share inside the interval). elsewhere: runs on another chip, in no fit, under "
    "the constants fitted here."
)


def gather(groups: tuple[str, ...], paths: tuple[str, ...]) -> tuple[Linear, Array, Array]:
    """The runs of these groups that state an ITL as a linear problem, their models, and the half widths of their intervals."""
    runs = [
        run for run in served.published_runs() + served.later_runs() if run.group in groups and "itl" in run.measured
    ]
    missed, slopes, half_widths = (
        np.array(column) for column in zip(*(_linear(run, paths) for run in runs), strict=True)
    )
    return Linear(paths, missed, slopes, 1.0, 0.0), np.array([run.options["model"] for run in runs]), half_widths


def _linear(run: Run, paths: tuple[str, ...]) -> tuple[float, Array, float]:
    answers = []

    def seconds(ctx: EstimateContext, factors: dict[str, Any]) -> Any:
        answers.append(inference.decode(ctx, run.layout))
        return answers[0].time_s

    expected, slopes = slopes_of(run, paths, seconds)
    half_width = float(np.log(np.max(answers[0].interval_s[1] / answers[0].time_s)))
    return expected - float(np.log(run.measured["itl"])), slopes, half_width


def tables() -> list[Table]:
    """A line for each engine: errors as shipped, refitted and left out, and the factor of the fit on each constant."""
    rows = []
    for engine, (here, elsewhere, paths) in FITTED.items():
        linear, models, half_widths = gather(here, paths)
        point = linear.fit(np.ones(len(models), dtype=bool))
        left_out = linear.left_out(models)
        line: dict[str, Any] = {
            "group": engine,
            "rows": len(models),
            "shipped": _mean(linear.missed),
            "fitted": _mean(linear.errors(point)),
            "left_out": _mean(left_out),
            "left_out_median": float(np.median(np.abs(np.expm1(left_out)))),
            "left_out_inside": float((np.abs(left_out) <= half_widths).mean()),
        }
        if elsewhere:
            line["elsewhere"] = _mean(gather(elsewhere, paths)[0].errors(point))
        line |= {path.rpartition(".")[2]: float(f"{np.exp(x):.3g}") for path, x in zip(paths, point, strict=True)}
        rows.append(line)
    return [Table("refit: engines with few runs", rows, [NOTE])]


def _mean(logs: Array) -> float:
    return float(np.abs(np.expm1(logs)).mean())


if __name__ == "__main__":
    show(tables())
