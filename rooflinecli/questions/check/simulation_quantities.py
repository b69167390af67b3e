"""Quantities of a simulation in requirements: the expected run, and the interval over seeds and step times."""

from __future__ import annotations

from functools import lru_cache

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.questions.check.cases import CheckCase
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.question import is_estimate_option
from rooflinecli.questions.simulate.question import FORMER, Numbers, Simulate
from rooflinecli.questions.simulate.run import SEEDS, figures, intervals, min_replicas, repeats, run
from rooflinecli.specs.options import OPTIONS, Option

LOAD = ("qps", "concurrency", "prompt", "output", "prompts-per-slot", "equal-lengths")
NEITHER = ("batch", "phase", "tokens", "attention-flops")


def ends(case: CheckCase, result: EstimateAnswer, name: str) -> IntervalBounds:
    """A number of the case's simulation, on the plan that the estimate took. Raises UsageError for one that is not there."""
    values, sure = _simulated(_asked(case, result))
    name = {old: new for new, old in FORMER["former_keys"].items()}.get(name, name)
    if name not in values:
        raise unknown("quantity of a simulation", name, values, "`roofline simulate --format json` shows them")
    value = values[name]
    if name not in sure:
        return IntervalBounds(value)
    low, high = sure[name]
    return IntervalBounds(value, "", low, low, high)


def _asked(case: CheckCase, result: EstimateAnswer) -> Simulate:
    """The question of a case. Raises UsageError for an entry of `simulate:` that does not exist."""
    plan = next((found.layout_of_phase for name, found in result.phases.items() if name != "train"), None)
    if plan is None:
        raise UsageError("simulations are for serving; add prefill or decode to `phase`", "phase")
    options = {
        name: value
        for name, value in case.options.items()
        if name not in (*LOAD, *NEITHER) and OPTIONS[name].phase != "train"
    }
    options |= {"n": plan.devices, **{axis: getattr(plan, axis) for axis in ("tp", "pp", "dp", "cp", "ep")}}
    written = {name: case.options[name] for name in LOAD if name in case.options}
    for name, value in case.simulate:
        written[_entry(name)] = value
    if "trace" in written:  # the estimate's lengths are those of a mean request
        written = {name: value for name, value in written.items() if name not in ("prompt", "output")}
    return Simulate.read({**options, **written})


def own_fields() -> list[Option]:
    """The fields of a simulation that no estimate has: the entries of `simulate:`."""
    return [field for field in Simulate.fields().values() if not is_estimate_option(field)]


def _entry(name: str) -> str:
    """The parameter of an entry of `simulate:`, which may be any of a simulation's own fields. Raises UsageError for others."""
    for field in own_fields():
        if name.replace("_", "-") in field.names:
            return field.parameter if field.name not in LOAD else field.name
    raise unknown("entry of simulate", name, [field.long for field in own_fields()])


@lru_cache(maxsize=256)
def _simulated(question: Simulate) -> tuple[Numbers, dict[str, list[float]]]:
    """The numbers of a question, and their ends. Raises Infeasible."""
    found = min_replicas(question)[0] if question.replicas == "min" else run(question)
    return found.values, intervals(found.values, map(figures, repeats(found.question, SEEDS)), found.first_token_error)
