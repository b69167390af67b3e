"""Quantities of a simulation as a check holds them: the expected run, and the ends that other seeds and step prices give."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.questions.check.cases import CheckCase
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.simulate.min_replicas import min_replicas
from rooflinecli.questions.simulate.question import SimulateQuestion
from rooflinecli.questions.simulate.repeat_seeds import SEEDS, intervals, repeats
from rooflinecli.questions.simulate.run import figures, run
from rooflinecli.questions.simulate.study import OWN, VARIED, one
from rooflinecli.specs.options import OPTIONS

LOAD = ("qps", "concurrency", "prompt", "output", "prompts-per-slot")
NEITHER = ("equal-lengths", "batch", "phase", "tokens", "attention-flops")


def ends(case: CheckCase, result: EstimateAnswer, name: str) -> IntervalBounds:
    """A number of the case's simulation, on the plan that the estimate took. Raises UsageError for one that is not there."""
    values, sure = _simulated(*_asked(case, result))
    if name not in values:
        raise unknown("quantity of a simulation", name, values, "`roofline simulate --format json` shows them")
    value = values[name]
    if name not in sure:
        return IntervalBounds(value)
    low, high = sure[name]
    return IntervalBounds(value, "", low, low, high)


def _asked(case: CheckCase, result: EstimateAnswer) -> tuple[SimulateQuestion, bool]:
    """The question of a case. Raises UsageError for an entry of `simulate:` that does not exist."""
    plan = next((found.layout_of_phase for name, found in result.phases.items() if name != "train"), None)
    if plan is None:
        raise UsageError("a simulation serves; add prefill or decode to `phase`", "phase")
    options = {
        name: value
        for name, value in case.options.items()
        if name not in (*LOAD, *NEITHER) and OPTIONS[name].phase != "train"
    }
    options |= {"n": plan.devices, **{axis: getattr(plan, axis) for axis in ("tp", "pp", "dp", "cp", "ep")}}
    written = {name: case.options[name] for name in LOAD if name in case.options}
    for name, value in case.simulate:
        if name.replace("_", "-") not in (*OWN, *VARIED):
            raise unknown("entry of simulate", name, (*OWN, *VARIED))
        written[name.replace("_", "-")] = value
    if "trace" in written:  # the estimate's lengths beside it are those of a mean request
        written = {name: value for name, value in written.items() if name not in ("prompt", "output")}
    found = one({**options, **written})
    return found.question, found.fewest


@lru_cache(maxsize=256)
def _simulated(question: SimulateQuestion, least: bool) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The numbers of a question, and their ends. Raises Infeasible."""
    found = min_replicas(question)[0] if least else run(question)
    return found.values, intervals(found.values, map(figures, repeats(found.question, SEEDS)), found.first_token_error)
