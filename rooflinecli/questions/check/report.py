"""Outcomes -> the report every format renders: `roofline/check/1`, plain data, SI, the unit beside each value."""

from __future__ import annotations

from typing import Any

from rooflinecli.questions.check.baseline import SCHEMA
from rooflinecli.questions.check.fix_search import Budget, SuggestedFix, remedies
from rooflinecli.questions.check.run import Estimator, Outcome, gate
from rooflinecli.questions.check.verdict import FAIL, PASS, UNSURE, Judgment
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.layout import AXES


def report(outcomes: list[Outcome], answer: Estimator, unsure: str, suggest: int) -> dict[str, Any]:
    """`suggest`: how much estimating the search for changes that pass may cost in all (see `Budget`)."""
    found = remedies(outcomes, answer, Budget(suggest))
    checks = [_check(outcome, ways) for outcome, ways in zip(outcomes, found, strict=True)]
    verdicts = [o.verdict for o in outcomes]
    counts = {v: verdicts.count(v) for v in (PASS, FAIL, UNSURE)}
    return {
        "schema": SCHEMA,
        "holds": gate(outcomes, unsure),
        "unsure": unsure,
        "summary": {"checks": len(outcomes), "requirements": sum(len(o.judgements) for o in outcomes), **counts},
        "checks": checks,
    }


def _check(outcome: Outcome, found: list[SuggestedFix] | None) -> dict[str, Any]:
    case, result = outcome.case, outcome.result
    rows = [_row(j, case.hold) for j in outcome.judgements]
    return {
        "name": case.name,
        "file": case.file,
        "line": case.line,
        "description": case.description,
        "hold": case.hold,
        "verdict": outcome.verdict,
        "verdict_at_expected": outcome.at_expected,
        "model": result.model.name if result else None,
        "hardware": result.hardware.name if result else None,
        "layout": _layout(result),
        "options": {k: v for k, v in case.options.items() if k not in ("model", "hw")},
        "binding": _binding(outcome),
        "problem": outcome.problem,
        "requirements": rows,
        "remedies": None if found is None else [_remedy(r, outcome) for r in found],
    }


def _layout(result: EstimateAnswer | None) -> dict[str, Any]:
    """phase -> its sizes."""
    keys = ("devices", *AXES, "zero", "micro_batch", "virtual_stages", "recompute")
    phases = result.phases.items() if result is not None else ()
    return {phase: {k: getattr(answer.layout_of_phase, k) for k in keys} for phase, answer in phases}


def _row(j: Judgment, hold: str) -> dict[str, Any]:
    r = j.requirement
    return {
        "quantity": r.quantity,
        "file": r.file,
        "line": r.line,
        "written": r.written,
        "comparison": r.comparison,
        "limit": r.limit,
        "unit": r.unit,
        "value": j.value,
        "held": hold if j.ends.interval else "expected",
        "expected": j.ends.expected,
        "floor": j.ends.floor,
        "interval": [j.ends.low, j.ends.high] if j.ends.interval else None,
        "verdict": j.verdict,
        "verdict_at_expected": j.at_expected,
        "margin": j.margin,
        "bound": j.bound,
        "reason": j.reason,
        "implied": r.implied,
    }


def _binding(outcome: Outcome) -> str | None:
    """The requirement that decides: the one missed by most, else the one with the least to spare."""
    if not outcome.judgements:
        return None
    worst = [j for j in outcome.judgements if j.verdict == outcome.verdict]
    ranked = sorted(
        worst,
        key=lambda j: (j.margin is not None or outcome.verdict == PASS, j.margin if j.margin is not None else 1e300),
    )
    return ranked[0].requirement.quantity


def _remedy(remedy: SuggestedFix, missed: Outcome) -> dict[str, Any]:
    named = {(j.requirement.where, j.requirement.written) for j in missed.judgements if j.verdict != PASS}
    return {
        "text": remedy.text,
        "changes": [{"option": n, "from": a, "to": b} for n, a, b in remedy.changes],
        "values": [
            {"quantity": j.requirement.quantity, "value": j.value, "unit": j.requirement.unit}
            for j in remedy.outcome.judgements
            if (j.requirement.where, j.requirement.written) in named and not isinstance(j.value, bool)
        ],
    }
