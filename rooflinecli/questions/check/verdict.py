"""One requirement on one quantity: pass, fail or inconclusive, by how much, and what the number is made of.

The value at the selected bound decides. Where it misses the limit and the opposite bound of the interval meets it, the limit lies
inside the model's uncertainty: inconclusive. The floor is exact, so nothing is inconclusive there.
"""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.check.question import FAIL, INCONCLUSIVE, PASS, RequirementAnswer, Value
from rooflinecli.questions.conditions import Requirement
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.quantities import unit_of

ORDER = (PASS, INCONCLUSIVE, FAIL)


def evaluate(
    requirement: Requirement,
    found: IntervalBounds,
    result: EstimateAnswer | None,
    hold: str,
    violations: dict[str, str],
) -> RequirementAnswer:
    """The verdict on a quantity. violations: phase -> why it cannot run, where its times and costs describe nothing and fail.

    Raises UsageError when the quantity cannot be compared so.
    """
    _check_comparable(requirement, found)
    value = found.at(hold, requirement.upper)
    verdict = _verdict(requirement, found, value, hold)
    at_expected = _verdict(requirement, found, found.expected, "expected")
    infeasible, reason = found.interval and found.phase in violations, ""
    if infeasible:
        verdict = at_expected = FAIL
        reason = "infeasible layout, value not meaningful"
    elif requirement.quantity == "feasible" and verdict == FAIL:
        reason = "; ".join(violations.values())
    return RequirementAnswer(
        quantity=requirement.quantity,
        file=requirement.file,
        line=requirement.line,
        written=requirement.written,
        comparison=requirement.comparison,
        limit=requirement.limit,
        unit="" if isinstance(requirement.limit, (bool, str)) else unit_of(requirement.quantity),
        value=value,
        value_bound=hold if found.interval else "expected",
        expected=found.expected,
        floor=found.floor,
        interval=(found.low, found.high) if found.interval else None,
        verdict=verdict,
        verdict_at_expected=at_expected,
        margin=None if infeasible else _margin(requirement, value),
        bound=found.note or ("" if result is None else _composition(requirement, found, result)),
        reason=reason,
        implied=requirement.implied,
    )


def worst(verdicts: list[str]) -> str:
    return max(verdicts, key=ORDER.index)


def _margin(requirement: Requirement, value: float) -> float | None:
    """Distance to the limit as a fraction of it; negative beyond it."""
    limit = requirement.limit
    if isinstance(limit, (bool, str)) or requirement.comparison == "==" or limit == 0:
        return None
    return float((limit - value if requirement.upper else value - limit) / abs(limit))


def _check_comparable(requirement: Requirement, found: IntervalBounds) -> None:
    name, limit, value = requirement.quantity, requirement.limit, found.expected
    kinds = {bool: "true or false", str: "a word"}
    want, have = kinds.get(type(limit), "a number"), kinds.get(type(value), "a number")
    if want != have:
        raise UsageError(f"{name} is {have} ({value!r}), but the limit is {want}; compare it with {have}")
    if requirement.comparison == "==" and found.interval:
        raise UsageError(f"{name} has an interval, so == cannot be checked; use <= or >=")


def _verdict(requirement: Requirement, found: IntervalBounds, value: Value, hold: str) -> str:
    if bool(requirement.holds(value)):
        return PASS
    best = found.low if requirement.upper else found.high
    return INCONCLUSIVE if found.interval and hold != "floor" and bool(requirement.holds(best)) else FAIL


def _composition(requirement: Requirement, found: IntervalBounds, result: EstimateAnswer) -> str:
    """The bottleneck and the largest term of a time, the largest part of memory."""
    group, *rest = requirement.quantity.split(".")
    if group in ("measured", "layout"):  # their notes say it
        return ""
    if "memory" in (group, *rest):
        return _largest_part(result.phases[found.phase or group].memory)
    phase = result.phases.get(found.phase)
    if phase is None or not found.interval:
        return ""
    name, seconds = max(phase.breakdown_s.items(), key=lambda item: item[1])
    return f"{found.phase} is bound by {phase.bottleneck}; {name} takes {seconds / phase.time_s:.0%} of the time"


def _largest_part(memory: Residency) -> str:
    parts = {
        k.removesuffix("_bytes"): v
        for k, v in memory.entries()
        if k.endswith("_bytes") and k not in ("total_bytes", "capacity_bytes")
    }
    name = max(parts, key=lambda k: parts[k])
    if not memory.total_bytes:
        return ""
    return f"{name.replace('_', ' ')} is {parts[name] / memory.total_bytes:.0%} of resident memory"
