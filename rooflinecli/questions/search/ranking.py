"""Keeping the best while layouts stream by: the best of every device split, or the Pareto front of two objectives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class RankedLayout:
    """A layout (sizes and structure by name), what it scores (less is better) at the end that ranks, and what goes between equals.

    expected: the objectives' expected values; error: the relative error of its communication, which other layouts do not share.
    """

    layout: dict[str, Any]
    keys: tuple[float, ...]
    order: tuple[float, ...]
    expected: tuple[float, ...] = ()
    error: float = 0.0


def sort(keys: list[np.ndarray], ties: list[np.ndarray]) -> np.ndarray:
    """Indices by the first key, then the next; ties by the given columns in turn."""
    return np.lexsort([*reversed(ties), *reversed(keys)])


@dataclass
class Ranking:
    """The best layout per device split; ties go to the smaller `order`."""

    entries: dict[Any, RankedLayout] = field(default_factory=dict)

    def offer(self, split: Any, entry: RankedLayout) -> None:
        held = self.entries.get(split)
        if held is None or (entry.keys, entry.order) < (held.keys, held.order):
            self.entries[split] = entry

    def top(self, count: int | None) -> list[RankedLayout]:
        """The best so many, all of them for None."""
        return sorted(self.entries.values(), key=lambda e: (e.keys, e.order))[:count]

    def keep(self, count: int) -> None:
        """Forget all but the best so many."""
        if len(self.entries) > count:
            order = sorted(self.entries.items(), key=lambda item: (item[1].keys, item[1].order))
            self.entries = dict(order[:count])


@dataclass
class ParetoFront:
    """Layouts that none beats in both objectives."""

    entries: list[RankedLayout] = field(default_factory=list)

    def offer(self, entry: RankedLayout) -> None:
        if any(e.keys[0] <= entry.keys[0] and e.keys[1] <= entry.keys[1] for e in self.entries):
            return
        self.entries = [e for e in self.entries if not (entry.keys[0] <= e.keys[0] and entry.keys[1] <= e.keys[1])]
        self.entries.append(entry)

    def top(self, count: int) -> list[RankedLayout]:
        return sorted(self.entries, key=lambda e: e.keys)


def frontier(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Indices of points not dominated (both minimized), by rising `first`."""
    order = np.lexsort([second, first])
    best = np.minimum.accumulate(np.concatenate([[np.inf], second[order][:-1]]))
    return order[second[order] < best]
