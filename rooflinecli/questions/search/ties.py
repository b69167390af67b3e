"""Layouts that the model cannot tell apart, the simplest of them, and what would separate them.

Layouts of one model on one chip share most of their error, which cancels between them; that of their communication, hidden and
exposed, does not. Two are tied when the ends that rank differ by no more than that, so one that no published run supports is
tied only where it is good enough in spite of it.
"""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.core.units import duration
from rooflinecli.engine.phase_answer import PhaseAnswer, TrainAnswer
from rooflinecli.questions.search.ranking import RankedLayout

_AXES = ("tp", "dp", "ep", "cp", "pp")


def indistinguishable(ranked: list[RankedLayout]) -> list[RankedLayout]:
    """The first and those that cannot be told from it, in their order."""
    return [entry for entry in ranked if entry is ranked[0] or _same(ranked[0], entry)]


def _same(one: RankedLayout, other: RankedLayout) -> bool:
    a, b = abs(one.keys[0]), abs(other.keys[0])
    if a <= 0 or b <= 0 or not math.isfinite(a * b):
        return a == b
    return abs(math.log(b / a)) <= math.hypot(one.error, other.error)


def simplicity(entry: RankedLayout) -> tuple[Any, ...]:
    """Fewer techniques first, then smaller groups, then the order of the ranking."""
    layout = entry.layout
    axes = [layout[name] for name in ("tp", "pp", "cp", "virtual_stages")]
    used = (
        sum(size > 1 for size in axes)
        + (layout["zero"] > 1)
        + (layout["shard"] is not None)
        + (layout["recompute"] != "none")
    )
    return used, math.prod(axes), layout["ep"], entry.keys


def separating_measurement(first: PhaseAnswer, simple: PhaseAnswer, same: bool) -> str:
    """What to measure, since the model cannot say which is faster."""
    assert isinstance(first, TrainAnswer) and isinstance(simple, TrainAnswer)
    if same:
        return "one measured step of it and of the next: they differ by less than what the model knows of either"
    spent = [(axis, _seconds(first, axis), _seconds(simple, axis)) for axis in _AXES]
    axis, one, other = max(spent, key=lambda found: abs(found[1] - found[2]))
    return (
        f"they differ most in {axis} communication ({duration(one)} of the first, {duration(other)} of the simplest, hidden or not); "
        f"`roofline measure collectives` on these links, or one step of each, would settle it"
    )


def _seconds(answer: TrainAnswer, axis: str) -> float:
    """Communication of an axis, in sight or hidden."""
    return float(answer.communication_s.get(axis, 0.0) + answer.hidden_s.get(axis, 0.0))
