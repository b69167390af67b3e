"""Cases -> outcomes: every case is estimated once, and each of its requirements evaluated."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core.errors import DataError, Infeasible, RooflineError, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.engine import build_request
from rooflinecli.importers.source import Options
from rooflinecli.questions.check.cases import CheckCase
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.check.quantities import FITS, Measured, bounds
from rooflinecli.questions.check.question import FAIL, INCONCLUSIVE, PASS, RequirementAnswer, Value
from rooflinecli.questions.conditions import Requirement
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.quantities import unit_of


@dataclass(frozen=True)
class Outcome:
    """A case with its estimate (none for a fleet, and when no device count fits) and the verdict on every requirement."""

    case: CheckCase
    result: EstimateAnswer | None
    requirements: tuple[RequirementAnswer, ...] = ()
    problem: str = ""

    @property
    def verdict(self) -> str:
        return worst([r.verdict for r in self.requirements]) if self.requirements else FAIL

    @property
    def at_expected(self) -> str:
        return worst([r.verdict_at_expected for r in self.requirements]) if self.requirements else FAIL


class Estimator:
    """Estimates by options, each distinct one computed once."""

    def __init__(self, measured: Measured | None = None) -> None:
        self.measured = measured
        self._memo: dict[str, EstimateAnswer | RooflineError] = {}

    def __call__(self, options: Options) -> EstimateAnswer:
        """Raises UsageError or Infeasible as the estimate does, and UsageError for numbers beyond any machine."""
        key = repr(sorted(options.items()))
        if key not in self._memo:
            try:
                self._memo[key] = self._answer(options)
            except RooflineError as error:
                self._memo[key] = error
        found = self._memo[key]
        if isinstance(found, RooflineError):
            raise found
        return found

    def knows(self, options: Options) -> bool:
        """Whether these options were estimated before."""
        return repr(sorted(options.items())) in self._memo

    def _answer(self, options: Options) -> EstimateAnswer:
        try:
            request = build_request.request(options)
            try:
                return estimate(request)
            except Infeasible:
                sizes = [int(v) for v in (request.tp, request.pp, request.dp) if v is not None]
                if request.devices is not None or len(sizes) < 3:
                    raise
                total = sizes[0] * sizes[1] * sizes[2] * int(request.cp or 1)
                return estimate(replace(request, devices=float(total)))
        except (ArithmeticError, ValueError, MemoryError) as error:
            raise UsageError(f"these sizes overflow the computation ({error}); use smaller values") from None


def outcome(case: CheckCase, estimator: Estimator) -> Outcome:
    """The outcome of one case. Raises DataError with file:line for whatever is wrong with how it is written."""
    result = None
    if case.fleet is None:
        try:
            result = estimator(case.options)
        except Infeasible as error:
            return Outcome(case, None, problem=str(error))
        except UsageError as error:
            raise DataError(f"{case.lines.get(error.option, case.where)}: {case.name}: {error}") from None
    feasible = "feasible" if result is not None else FITS
    requirements = list(case.requirements)
    if not any(r.quantity == feasible for r in requirements) and (result is None or not result.feasible):
        # an infeasible plan never passes by not requiring that it fits
        requirements.insert(0, Requirement(feasible, "==", True, "true", case.where, implied=True))
    violations = {} if result is None else {v.constraint.partition(".")[0]: v.message for v in result.violations}
    if any(r.quantity == "feasible" and r.limit is False for r in requirements):
        violations = {}
    evaluated = []
    for requirement in requirements:
        try:
            found = bounds(requirement.quantity, case, result, estimator)
            evaluated.append(evaluate(requirement, found, result, case.hold, violations))
        except UsageError as error:
            raise DataError(f"{requirement.where}: {case.name}: {error}") from None
        except Infeasible as error:  # of a simulation
            return Outcome(case, None, problem=str(error))
    return Outcome(case, result, tuple(evaluated))


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
    return RequirementAnswer.like(
        requirement,
        unit="" if isinstance(requirement.limit, (bool, str)) else unit_of(requirement.quantity),
        value=value,
        value_bound=hold if found.interval else "expected",
        expected=found.expected,
        floor=found.floor,
        interval=(found.low, found.high) if found.interval else None,
        verdict=verdict,
        verdict_at_expected=at_expected,
        margin=None if infeasible else requirement.margin(value),
        bound=found.note or ("" if result is None else _composition(requirement, found, result)),
        reason=reason,
    )


def worst(verdicts: list[str]) -> str:
    return max(verdicts, key=ORDER.index)


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
        memory = result.phases[found.phase or group].memory
        parts = {k.removesuffix("_bytes"): v for k, v in memory.entries() if k.endswith("_bytes")}
        total, _ = parts.pop("total"), parts.pop("capacity")
        name = max(parts, key=lambda k: parts[k])
        return f"{name.replace('_', ' ')} is {parts[name] / total:.0%} of resident memory" if total else ""
    phase = result.phases.get(found.phase)
    if phase is None or not found.interval:
        return ""
    name, seconds = max(phase.breakdown_s.items(), key=lambda item: item[1])
    return f"{found.phase} is bound by {phase.bottleneck}; {name} takes {seconds / phase.time_s:.0%} of the time"
