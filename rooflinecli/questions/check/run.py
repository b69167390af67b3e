"""`check`: plan files -> one report. Every case is estimated once, judged, and when it misses, the nearest plan that passes is sought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rooflinecli.core.errors import DataError, Infeasible, RooflineError, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.engine import build_request
from rooflinecli.questions.check.cases import CheckCase
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.check.measured_quantities import Measured
from rooflinecli.questions.check.requirement import Requirement
from rooflinecli.questions.check.verdict import FAIL, PASS, UNSURE, Judgment, judge, worst
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer

SIMULATED, LAYOUT, MEASURED = "simulate.", "layout.", "measured."
_SIZES = ("tp", "pp", "dp", "cp")


@dataclass(frozen=True)
class Outcome:
    """A case with what was found: the estimate (none when no device count holds it, and of a fleet) and a judgment per requirement."""

    case: CheckCase
    result: EstimateAnswer | None
    judgements: tuple[Judgment, ...]
    problem: str = ""

    @property
    def verdict(self) -> str:
        return FAIL if not self.judgements else worst([j.verdict for j in self.judgements])

    @property
    def at_expected(self) -> str:
        return FAIL if not self.judgements else worst([j.at_expected for j in self.judgements])


class Estimator:
    """Estimates by options, each distinct one computed once."""

    def __init__(self, measured: Measured | None = None) -> None:
        self.measured = measured
        self._memo: dict[str, EstimateAnswer | RooflineError] = {}

    def __call__(self, options: dict[str, Any]) -> EstimateAnswer:
        """Raises UsageError or Infeasible as the estimate does, and UsageError for numbers beyond any machine."""
        key = _key(options)
        if key not in self._memo:
            try:
                self._memo[key] = self._answer(options)
            except RooflineError as error:
                self._memo[key] = error
        found = self._memo[key]
        if isinstance(found, RooflineError):
            raise found
        return found

    def knows(self, options: dict[str, Any]) -> bool:
        """Whether asking costs nothing."""
        return _key(options) in self._memo

    def _answer(self, options: dict[str, Any]) -> EstimateAnswer:
        try:
            request = build_request.request(options)
            try:
                return estimate(request)
            except Infeasible:
                sizes = [int(v) for v in (getattr(request, k) for k in _SIZES[:3]) if v is not None]
                if request.devices is not None or len(sizes) < 3:
                    raise
                total = sizes[0] * sizes[1] * sizes[2] * int(request.cp or 1)
                return estimate(replace(request, devices=float(total)))
        except (ArithmeticError, ValueError, MemoryError) as error:
            raise UsageError(f"these sizes cannot be computed ({error}); give sizes a machine could have") from None


def _key(options: dict[str, Any]) -> str:
    return repr(sorted(options.items()))


def outcome(case: CheckCase, answer: Estimator) -> Outcome:
    """Judge one case. Raises DataError with file:line for whatever is wrong with how it is written."""
    if case.fleet is not None:
        return Outcome(case, None, _of_fleet(case))
    try:
        result = answer(case.options)
    except Infeasible as error:
        return Outcome(case, None, (), str(error))
    except UsageError as error:
        where = case.lines.get(error.option, case.where)
        raise DataError(f"{where}: {case.name}: {error}") from None
    unfit = _unfit(case, result)
    try:
        judgements = [_judged(requirement, case, result, unfit, answer) for requirement in _with_feasible(case, result)]
    except Infeasible as error:  # of a simulation; what an estimate cannot hold is told above
        return Outcome(case, None, (), str(error))
    return Outcome(case, result, tuple(judgements))


def _of_fleet(case: CheckCase) -> tuple[Judgment, ...]:
    """The judgments of a whole fleet, of which no single estimate tells."""
    from rooflinecli.questions.check import fleet_quantities

    found = []
    for requirement in fleet_quantities.with_feasible(case):
        try:
            found.append(judge(requirement, None, case.hold, {}, fleet_quantities.ends(case, requirement.quantity)))
        except UsageError as error:
            raise DataError(f"{requirement.where}: {case.name}: {error}") from None
    return tuple(found)


def _judged(
    requirement: Requirement, case: CheckCase, result: EstimateAnswer, unfit: dict[str, str], answer: Estimator
) -> Judgment:
    try:
        return judge(requirement, result, case.hold, unfit, _elsewhere(requirement.quantity, case, result, answer))
    except UsageError as error:
        raise DataError(f"{requirement.where}: {case.name}: {error}") from None


def _elsewhere(quantity: str, case: CheckCase, result: EstimateAnswer, answer: Estimator) -> IntervalBounds | None:
    """The ends of a quantity that no estimate says: of a simulation, of a layout among the others, of measured files."""
    if quantity.startswith(SIMULATED):
        from rooflinecli.questions.check import simulation_quantities

        return simulation_quantities.ends(case, result, quantity.removeprefix(SIMULATED))
    if quantity.startswith(LAYOUT):
        from rooflinecli.questions.check import regret

        return regret.ends(case, result, quantity.removeprefix(LAYOUT), answer)
    if not quantity.startswith(MEASURED):
        return None
    from rooflinecli.questions.check import measured_quantities as measured

    if not case.measured:
        raise UsageError(f"{quantity}: no measured file; name one in the check, such as `measured: bench.json`")
    if answer.measured is None:
        raise UsageError(f"{quantity}: measured files are read by `roofline check` only")
    return measured.ends(answer.measured(case.measured, case.options), quantity.removeprefix(MEASURED))


def _with_feasible(case: CheckCase, result: EstimateAnswer) -> list[Requirement]:
    """The requirements, and that the plan fits: a plan that does not fit never passes by saying nothing about it."""
    said = any(r.quantity == "feasible" for r in case.requirements)
    implied = (
        [] if said or result.feasible else [Requirement("feasible", "==", True, "", "true", case.where, implied=True)]
    )
    return [*implied, *case.requirements]


def _unfit(case: CheckCase, result: EstimateAnswer) -> dict[str, str]:
    """phase -> why it cannot run; empty when the check says that it must not fit."""
    if any(r.quantity == "feasible" and r.limit is False for r in case.requirements):
        return {}
    return {v.constraint.partition(".")[0]: v.message for v in result.violations}


def run(cases: list[CheckCase], answer: Estimator | None = None) -> list[Outcome]:
    """Every case judged, in the order of the files."""
    answer = answer or Estimator()
    return [outcome(case, answer) for case in cases]


def gate(outcomes: list[Outcome], unsure: str) -> bool:
    """Whether the plan holds."""
    allowed = (PASS, UNSURE) if unsure == "warn" else (PASS,)
    return all(o.verdict in allowed for o in outcomes)
