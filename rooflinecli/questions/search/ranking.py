"""The best layouts of a stream: the best of every device split, or the Pareto front of two objectives; and layouts within model uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from rooflinecli.core.units import duration
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.search.question import TrainingLayout

_AXES = ("tp", "dp", "ep", "cp", "pp")


@dataclass
class RankedLayout:
    """A layout, its objectives at the bound that ranks (less is better), and the order between equals.

    expected: the objectives' expected values; error: the relative error of its communication, which other layouts do not share.
    """

    layout: TrainingLayout
    keys: tuple[float, ...]
    order: tuple[float, ...]
    expected: tuple[float, ...] = ()
    error: float = 0.0

    @property
    def simplicity(self) -> tuple[object, ...]:
        """Fewer techniques first, then smaller groups, then the order of the ranking."""
        layout = self.layout
        axes = (layout.tp, layout.pp, layout.cp, layout.virtual_stages)
        techniques = (layout.zero > 1, layout.shard is not None, layout.recompute != "none")
        return sum(size > 1 for size in axes) + sum(techniques), math.prod(axes), layout.ep, self.keys


@dataclass
class Ranking:
    """The best layout per device split; ties go to the smaller `order`."""

    entries: dict[tuple[object, ...], RankedLayout] = field(default_factory=dict)

    def offer(self, split: tuple[object, ...], entry: RankedLayout) -> None:
        """Take a layout in where it is the best of its split."""
        best = self.entries.get(split)
        if best is None or (entry.keys, entry.order) < (best.keys, best.order):
            self.entries[split] = entry

    def top(self, count: int | None) -> list[RankedLayout]:
        """The best `most`, all of them for None."""
        return sorted(self.entries.values(), key=lambda e: (e.keys, e.order))[:count]

    def keep(self, count: int) -> None:
        """Forget all but the best `most`."""
        if len(self.entries) > count:
            order = sorted(self.entries.items(), key=lambda item: (item[1].keys, item[1].order))
            self.entries = dict(order[:count])


@dataclass
class ParetoFront:
    """Layouts that none beats in both objectives."""

    entries: list[RankedLayout] = field(default_factory=list)

    def offer(self, entry: RankedLayout) -> None:
        """Take a layout in where none dominates it, and drop those that it dominates."""
        if any(e.keys[0] <= entry.keys[0] and e.keys[1] <= entry.keys[1] for e in self.entries):
            return
        self.entries = [e for e in self.entries if not (entry.keys[0] <= e.keys[0] and entry.keys[1] <= e.keys[1])]
        self.entries.append(entry)

    def top(self) -> list[RankedLayout]:
        """All of the front, by the first objective."""
        return sorted(self.entries, key=lambda e: e.keys)


def frontier(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Indices of points not dominated (both minimized), by rising `first`."""
    order = np.lexsort([second, first])
    best = np.minimum.accumulate(np.concatenate([[np.inf], second[order][:-1]]))
    return order[second[order] < best]


def indistinguishable(ranked: list[RankedLayout]) -> list[RankedLayout]:
    """The best and those within model uncertainty of it, in their order.

    Layouts of one model on one chip share most of their error, which cancels between them; that of their communication,
    exposed or not, does not. Two are within it when the bounds that rank differ by no more than that, so one that no published
    run supports is among them only where it is good enough in spite of it.
    """
    return [entry for entry in ranked if entry is ranked[0] or _same(ranked[0], entry)]


def _same(one: RankedLayout, other: RankedLayout) -> bool:
    a, b = abs(one.keys[0]), abs(other.keys[0])
    if a <= 0 or b <= 0 or not math.isfinite(a * b):
        return a == b
    return abs(math.log(b / a)) <= math.hypot(one.error, other.error)


def separating_measurement(best: TrainAnswer, simplest: TrainAnswer, same: bool) -> str:
    """What to measure, since the model cannot say which is faster."""
    if same:
        return "one measured step of each; the difference is below the model's uncertainty"
    spent = [(axis, _communication(best, axis), _communication(simplest, axis)) for axis in _AXES]
    axis, one, other = max(spent, key=lambda found: abs(found[1] - found[2]))
    return (
        f"they differ most in {axis} communication ({duration(one)} vs {duration(other)}, exposed or not); "
        f"`roofline measure collectives` on these links, or one measured step of each, would resolve it"
    )


def _communication(answer: TrainAnswer, axis: str) -> float:
    """Seconds of communication of an axis, exposed or overlapped."""
    return float(answer.communication_s.get(axis, 0.0) + answer.hidden_s.get(axis, 0.0))
