"""Quantities of measured files in requirements: the slowest time, the largest gap to the estimate, the fraction inside its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rooflinecli.core.errors import unknown
from rooflinecli.core.units import duration
from rooflinecli.importers.source import Options
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.compare.question import INSIDE, MeasuredGap

Measured = Callable[
    [Sequence[Path], Options], list[MeasuredGap]
]  # files and options of a plan -> rows with their estimates
GAP, COVERAGE, FORMER_COVERAGE = "gap", "coverage_fraction", "inside_share"


def ends(rows: list[MeasuredGap], name: str) -> IntervalBounds:
    """`PHASE.time_s`, `gap` (the largest, either way) or `coverage_fraction`. Raises UsageError for another name."""
    times = {f"{phase}.time_s": [r for r in rows if r.phase == phase] for phase in dict.fromkeys(r.phase for r in rows)}
    if name in times:
        slowest = max(times[name], key=lambda row: row.measured_s)
        return IntervalBounds(slowest.measured_s, note=_note(slowest))
    if name == GAP:
        worst = max(rows, key=lambda row: abs(row.gap))
        return IntervalBounds(abs(worst.gap), note=_note(worst))
    bounded = [row for row in rows if row.interval_s]
    if name in (COVERAGE, FORMER_COVERAGE) and bounded:
        outside = [row for row in bounded if row.verdict != INSIDE]
        return IntervalBounds(1 - len(outside) / len(bounded), note=_note(outside[0]) if outside else "")
    raise unknown("measured quantity", name, [*times, GAP, *([COVERAGE] if bounded else [])])


def _note(row: MeasuredGap) -> str:
    """A row in a sentence, with what would explain its gap best."""
    span = "" if row.interval_s is None else f", {' to '.join(map(duration, row.interval_s))}"
    why = f"; {row.explained_by[0].what} would explain it" if row.explained_by and row.verdict != INSIDE else ""
    return f"{row.row}: {row.quantity} {duration(row.measured_s)}, estimated {duration(row.expected_s)}{span}{why}"
