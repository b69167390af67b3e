"""The whole question: plan files and settings in, one report out."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.questions.check import baseline as saved
from rooflinecli.questions.check.cases import CheckCase, load
from rooflinecli.questions.check.measured_quantities import Measured
from rooflinecli.questions.check.report import report
from rooflinecli.questions.check.run import Estimator, run

EFFORT = 300  # estimates a run makes without being asked for more: those of its checks, and what is left in search of changes


@dataclass(frozen=True)
class CheckSettings:
    """What the command line decides; None leaves a matter to the plan files."""

    hold: str | None = None
    unsure: str | None = None
    only: str | None = None
    suggest: int | None = None
    baseline: Path | None = None
    tolerance: float = 0.02
    moved: str = "warn"


def share(written: str) -> float:
    """A tolerance as people write it: 5 %, 0.05. Raises UsageError."""
    try:
        value = units.parse(float(written) if _bare(written) else written, "1")
    except ValueError as error:
        raise UsageError(f"--tolerance {written}: {error}") from None
    if not 0 <= value < float("inf"):
        raise UsageError(f"--tolerance {written}: must not be negative; give a share such as 5 %")
    return value


def check(plans: list[Path], settings: CheckSettings, measured: Measured | None = None) -> dict[str, Any]:
    """The report; `measured` reads the measured files that checks name. Raises DataError with file:line for a plan that is wrong, UsageError for settings that are."""
    old = saved.load(settings.baseline) if settings.baseline else None
    cases: list[CheckCase] = []
    strict: list[str] = []
    for path in dict.fromkeys(plans):
        found, plan = load(path, settings.hold)
        cases += found
        strict.append(plan.unsure.value)
    if settings.only is not None:
        cases = [
            case
            for case in cases
            if fnmatchcase(case.name, settings.only) or fnmatchcase(case.name.partition("[")[0], settings.only)
        ]
        if not cases:
            raise UsageError(f"--only {settings.only}: no check has such a name; quote a pattern such as 'chat*'")
    answer = Estimator(measured)
    unsure = settings.unsure or ("fail" if "fail" in strict else "warn")
    effort = settings.suggest if settings.suggest is not None else max(EFFORT - len(cases), EFFORT // 5)
    result = report(run(cases, answer), answer, unsure, effort)
    if old is not None:
        changes = saved.moved(old, result, settings.tolerance)
        result |= {
            "moved": changes,
            "tolerance": settings.tolerance,
            "holds": result["holds"] and not (changes and settings.moved == "fail"),
        }
    return result


def _bare(written: str) -> bool:
    try:
        float(written)
    except ValueError:
        return False
    return True
