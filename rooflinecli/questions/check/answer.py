"""`roofline check`: plan files and settings in, the verdict of every case out."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.questions.check import baseline
from rooflinecli.questions.check.cases import CheckCase, load
from rooflinecli.questions.check.fix_search import Budget, SuggestedFix, fixes
from rooflinecli.questions.check.measured_quantities import Measured
from rooflinecli.questions.check.question import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    CaseAnswer,
    CheckAnswer,
    CheckSummary,
    FixAnswer,
    QuantityValue,
    Sizes,
)
from rooflinecli.questions.check.run import Estimator, Outcome, outcome
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.layout import AXES

if TYPE_CHECKING:
    from rooflinecli.questions.check.question import Check

EFFORT = 300  # estimates of a run by default: those of its checks, and what is left for the fix search
_SIZES = ("devices", *AXES, "zero", "micro_batch", "virtual_stages", "recompute")


def check(q: Check, measured: Measured | None = None) -> CheckAnswer:
    """The verdicts; `measured` reads the measured files that checks name.

    Raises DataError with file:line for an invalid plan, UsageError for a pattern that matches no check.
    """
    before = None if q.baseline is None else baseline.load(Path(q.baseline))
    cases: list[CheckCase] = []
    policies = []
    for path in dict.fromkeys(Path(plan) for plan in q.plan):
        found, plan = load(path, q.bound)
        cases += found
        policies.append(plan.unsure)
    if q.only is not None:
        pattern = q.only
        cases = [c for c in cases if any(fnmatchcase(name, pattern) for name in (c.name, c.name.partition("[")[0]))]
        if not cases:
            raise UsageError(f"--only {pattern}: no check has such a name; quote a pattern such as 'chat*'")
    policy = q.on_inconclusive or ("fail" if "fail" in policies else "warn")
    estimator = Estimator(measured)
    outcomes = [outcome(case, estimator) for case in cases]
    budget = Budget(q.fix_budget if q.fix_budget is not None else max(EFFORT - len(cases), EFFORT // 5))
    suggested = fixes(outcomes, estimator, budget)
    verdicts = [o.verdict for o in outcomes]
    answer = CheckAnswer(
        passed=FAIL not in verdicts and (policy == "warn" or INCONCLUSIVE not in verdicts),
        unsure=policy,
        summary=CheckSummary(
            checks=len(outcomes),
            requirements=sum(len(o.requirements) for o in outcomes),
            pass_=verdicts.count(PASS),
            fail=verdicts.count(FAIL),
            inconclusive=verdicts.count(INCONCLUSIVE),
        ),
        checks=[_case(*pair) for pair in zip(outcomes, suggested, strict=True)],
    )
    if before is not None:
        answer.moved, answer.tolerance = baseline.changes(before, answer, q.tolerance), q.tolerance
        answer.passed = answer.passed and not (answer.moved and q.on_change == "fail")
    return answer


def _case(outcome: Outcome, suggested: list[SuggestedFix] | None) -> CaseAnswer:
    case, result = outcome.case, outcome.result
    return CaseAnswer(
        name=case.name,
        file=case.file,
        line=case.line,
        description=case.description,
        hold=case.hold,
        verdict=outcome.verdict,
        verdict_at_expected=outcome.at_expected,
        model=result.model.name if result else None,
        hardware=result.hardware.name if result else None,
        layout=_layout(result),
        options={k: v for k, v in case.options.items() if k not in ("model", "hw")},
        binding=_binding(outcome),
        problem=outcome.problem,
        requirements=list(outcome.requirements),
        fixes=None if suggested is None else [_fix(one, outcome) for one in suggested],
    )


def _layout(result: EstimateAnswer | None) -> dict[str, Sizes]:
    phases = result.phases.items() if result is not None else ()
    return {phase: {k: getattr(answer.layout_of_phase, k) for k in _SIZES} for phase, answer in phases}


def _binding(outcome: Outcome) -> str | None:
    """The requirement that decides: the one missed by most, else the one with the smallest margin."""
    worst = [r for r in outcome.requirements if r.verdict == outcome.verdict]
    return min(
        worst,
        key=lambda r: (r.margin is not None or outcome.verdict == PASS, 1e300 if r.margin is None else r.margin),
    ).quantity if worst else None  # fmt: skip


def _fix(fix: SuggestedFix, missed: Outcome) -> FixAnswer:
    limits = {(r.file, r.line, r.written) for r in missed.requirements if r.verdict != PASS}
    return FixAnswer(
        text=", ".join(f"{change.option} {change.from_} -> {change.to}" for change in fix.changes),
        changes=list(fix.changes),
        values=[
            QuantityValue(quantity=r.quantity, value=r.value, unit=r.unit)
            for r in fix.outcome.requirements
            if (r.file, r.line, r.written) in limits and not isinstance(r.value, bool)
        ],
    )
