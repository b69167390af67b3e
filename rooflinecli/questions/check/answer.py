"""`roofline check`: plan files and settings in, the verdict of every case out."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.questions.check.cases import CheckCase, load
from rooflinecli.questions.check.fix_search import Budget, fixes
from rooflinecli.questions.check.quantities import Measured
from rooflinecli.questions.check.question import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    CaseAnswer,
    Change,
    CheckAnswer,
    CheckSummary,
    FixAnswer,
    Sizes,
    Value,
)
from rooflinecli.questions.check.run import Estimator, Outcome, outcome
from rooflinecli.specs.layout import AXES
from rooflinecli.specs.name_lookup import display_path

if TYPE_CHECKING:
    from rooflinecli.questions.check.question import Check


SCHEMAS = ("roofline/check/2", "roofline/check/1")


@dataclass(frozen=True)
class SavedCase:
    """What a saved report says of a case: its verdict, its layouts and the expected value of every requirement."""

    verdict: str
    layout: dict[str, Sizes]
    expected: dict[str, Value]


def saved(path: Path) -> dict[str, SavedCase]:
    """The cases of a report saved by --write-baseline or --format json, by file and name. Raises DataError for anything else."""
    at = f"{display_path(path)}:1"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["schema"] in SCHEMAS:
            return {
                f"{case['file']}: {case['name']}": SavedCase(
                    INCONCLUSIVE if case["verdict"] == "unsure" else case["verdict"],
                    case["layout"],
                    {row["quantity"]: row["expected"] for row in case["requirements"]},
                )
                for case in report["checks"]
            }
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such baseline; create it with `roofline check … --write-baseline {path}`"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a readable baseline") from None
    except RecursionError:
        raise DataError(f"{at}: not a valid report (nesting too deep); recreate it with --write-baseline") from None
    except (KeyError, TypeError, AttributeError):
        pass
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise DataError(f"{display_path(path)}:{line}: not valid JSON; recreate it with --write-baseline") from None
    raise DataError(f"{at}: not a report of `roofline check` ({SCHEMAS[0]}); recreate it with --write-baseline")


def changes(before: dict[str, SavedCase], answer: CheckAnswer, tolerance: float) -> list[Change]:
    """Verdicts, layouts and quantities that changed, and checks that were added or removed, in the order of the answer."""
    found: list[Change] = []
    now = {f"{case.file}: {case.name}": case for case in answer.checks}
    for name, case in now.items():
        old = before.get(name)
        if old is None:
            found.append(Change(check=name, what="check", before=None, now=case.verdict))
            continue
        if old.verdict != case.verdict:
            found.append(Change(check=name, what="verdict", before=old.verdict, now=case.verdict))
        if old.layout != case.layout:
            found.append(Change(check=name, what="layout", before=old.layout, now=case.layout))
        for row in case.requirements:
            was = old.expected.get(row.quantity, row.expected)
            moved = relative(was, row.expected)
            if was != row.expected and (moved is None or abs(moved) > tolerance):
                found.append(
                    Change(check=name, what=row.quantity, before=was, now=row.expected, unit=row.unit, change=moved)
                )
    removed = (name for name in before if name not in now)
    return found + [Change(check=name, what="check", before=before[name].verdict, now=None) for name in removed]


def relative(old: Value, new: Value) -> float | None:
    """The change as a fraction of the old value; None when there is none."""
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and old and not isinstance(old, bool):
        return float((new - old) / abs(old))
    return None


EFFORT = 300  # estimates of a run by default: those of its checks, and what is left for the fix search
_SIZES = ("devices", *AXES, "zero", "micro_batch", "virtual_stages", "recompute")


def check(q: Check, measured: Measured | None = None) -> CheckAnswer:
    """The verdicts; `measured` reads the measured files that checks name.

    Raises DataError with file:line for an invalid plan, UsageError for a pattern that matches no check.
    """
    before = None if q.baseline is None else saved(Path(q.baseline))
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
        answer.moved, answer.tolerance = changes(before, answer, q.tolerance), q.tolerance
        answer.passed = answer.passed and not (answer.moved and q.on_change == "fail")
    return answer


def _case(outcome: Outcome, suggested: list[FixAnswer] | None) -> CaseAnswer:
    case, result = outcome.case, outcome.result
    return CaseAnswer.like(
        case,
        verdict=outcome.verdict,
        verdict_at_expected=outcome.at_expected,
        model=result.model.name if result else None,
        hardware=result.hardware.name if result else None,
        layout={} if result is None else {name: _sizes(phase) for name, phase in result.phases.items()},
        options={k: v for k, v in case.options.items() if k not in ("model", "hw")},
        binding=_binding(outcome),
        problem=outcome.problem,
        requirements=list(outcome.requirements),
        fixes=suggested,
    )


def _sizes(phase: PhaseAnswer) -> Sizes:
    return {name: getattr(phase.layout_of_phase, name) for name in _SIZES}


def _binding(outcome: Outcome) -> str | None:
    """The requirement that decides: the one missed by most, else the one with the smallest margin."""
    worst = [r for r in outcome.requirements if r.verdict == outcome.verdict]
    return min(
        worst,
        key=lambda r: (r.margin is not None or outcome.verdict == PASS, 1e300 if r.margin is None else r.margin),
    ).quantity if worst else None  # fmt: skip
