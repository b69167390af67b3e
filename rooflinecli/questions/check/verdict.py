"""One requirement held to one estimate: pass, fail or unsure, by how much, and what stands behind the number.

The held end decides: it keeps to the limit, or it does not. A miss whose other end of the interval keeps to it is
unsure, since the limit lies inside what the estimate cannot tell apart. The speed of light is exact: no unsure there.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.questions.check.interval_bounds import IntervalBounds, ends
from rooflinecli.questions.check.requirement import Requirement
from rooflinecli.questions.estimate.answer_types import EstimateAnswer

PASS, FAIL, UNSURE = "pass", "fail", "unsure"
_ELSEWHERE = ("measured", "layout")  # these say themselves what stands behind a value
ORDER = (PASS, UNSURE, FAIL)


@dataclass(frozen=True)
class Judgment:
    """A requirement, the value held to it, and the verdict."""

    requirement: Requirement
    ends: IntervalBounds
    value: Any
    verdict: str
    at_expected: str
    margin: float | None
    bound: str
    reason: str = ""


def judge(
    requirement: Requirement,
    result: EstimateAnswer | None,
    hold: str,
    unfit: dict[str, str],
    simulated: IntervalBounds | None = None,
) -> Judgment:
    """`unfit`: phase -> why it cannot run at all; its times and costs describe nothing and fail. `simulated`: what the
    quantity is, where no estimate says it; of a fleet there is none.

    Raises UsageError when the quantity does not exist or cannot be compared so.
    """
    found = simulated or (ends(result, requirement.quantity) if result is not None else IntervalBounds(None))
    _comparable(requirement, found)
    value = found.at(hold, requirement.upper)
    verdict = _verdict(requirement, found, value, hold)
    expected = _verdict(requirement, found, found.expected, "expected")
    why = "does not fit, so this describes nothing that can run" if found.interval and found.phase in unfit else ""
    if why:
        verdict = expected = FAIL
    elif requirement.quantity == "feasible" and verdict == FAIL:
        why = "; ".join(unfit.values())
    return Judgment(
        requirement,
        found,
        value,
        verdict,
        expected,
        margin(requirement, value) if not why else None,
        found.note or (bound(requirement, found, result) if result is not None else ""),
        why,
    )


def worst(verdicts: list[str]) -> str:
    return max(verdicts, key=ORDER.index)


def margin(requirement: Requirement, value: Any) -> float | None:
    """How far on the right side of its limit the value is, as a share of the limit; negative beyond it."""
    limit = requirement.limit
    if isinstance(limit, (bool, str)) or requirement.comparison == "==" or limit == 0:
        return None
    slack = limit - value if requirement.upper else value - limit
    return float(slack / abs(limit))


def _comparable(requirement: Requirement, found: IntervalBounds) -> None:
    name, limit, value = requirement.quantity, requirement.limit, found.expected
    kinds = {bool: "true or false", str: "a word"}
    want, have = kinds.get(type(limit), "a number"), kinds.get(type(value), "a number")
    if want != have:
        raise UsageError(f"{name} is {have} ({value!r}), but the limit is {want}; compare it with {have}")
    if requirement.comparison == "==" and found.interval:
        raise UsageError(f"{name} comes with an interval, so == can never be held to it; use <= or >=")


def _verdict(requirement: Requirement, found: IntervalBounds, value: Any, hold: str) -> str:
    if requirement.met(value):
        return PASS
    best = found.low if requirement.upper else found.high
    return UNSURE if found.interval and hold != "floor" and requirement.met(best) else FAIL


def bound(requirement: Requirement, found: IntervalBounds, result: EstimateAnswer) -> str:
    """What the number is made of: the resource and the largest term of a time, the largest tenant of memory."""
    if requirement.quantity.partition(".")[0] in _ELSEWHERE:
        return ""
    if "memory" in requirement.quantity.split("."):
        return _tenant(result.phases[found.phase or requirement.quantity.partition(".")[0]].memory)
    phase = result.phases.get(found.phase)
    if phase is None or not found.interval:
        return ""
    name, seconds = max(phase.breakdown_s.items(), key=lambda item: item[1])
    return f"{found.phase} is bound by {phase.bottleneck}; {name} takes {seconds / phase.time_s:.0%} of the time"


def _tenant(memory: Residency) -> str:
    tenants = {
        k.removesuffix("_bytes"): v
        for k, v in memory.entries()
        if k.endswith("_bytes") and k not in ("total_bytes", "capacity_bytes")
    }
    name = max(tenants, key=lambda k: tenants[k])
    return (
        f"{name.replace('_', ' ')} fill {tenants[name] / memory.total_bytes:.0%} of what is resident"
        if memory.total_bytes
        else ""
    )
