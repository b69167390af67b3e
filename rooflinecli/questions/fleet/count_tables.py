"""Tables over counts of devices: what several models may take of every group together, in every way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rooflinecli.questions.fleet.demand import ServiceDemand

if TYPE_CHECKING:
    from rooflinecli.questions.fleet.assignment import AllocationProgram

Bundle = tuple[tuple[int, ...], float]  # lots of all groups but the last, and devices of the last


class CountTable:
    """Tables over the counts of all groups but one, in lots: cell (i, j, ...) keeps the fewest devices of that one."""

    def __init__(self, asked: AllocationProgram, last: int, rounded_up: bool):
        self.asked, self.last, self.up = asked, last, rounded_up
        self.others = [k for k in range(len(asked.devices)) if k != last]
        self.lots = {k: asked.unit(k) for k in self.others}
        while self.others and self._work() > asked.work:
            widest = max(self.others, key=lambda k: asked.devices[k] // self.lots[k])
            self.lots[widest] *= 2
        self.shape = tuple(asked.devices[k] // self.lots[k] + 1 for k in self.others)

    @property
    def exact(self) -> bool:
        return all(self.lots[k] == self.asked.unit(k) for k in self.others)

    def _work(self) -> float:
        cells = prod(self.asked.devices[k] // self.lots[k] + 1 for k in self.others)
        return float(cells) ** 2

    def empty(self) -> np.ndarray:
        table = np.full(self.shape, np.inf)
        table[(0,) * len(self.shape)] = 0.0
        return table

    def all(self, factor: float) -> np.ndarray:
        """The table of every model together."""
        table = self.empty()
        for demand in self.asked.demands:
            table = merged(table, self.bundles(demand, factor))[0]
        return table

    def bundles(self, demand: ServiceDemand, factor: float) -> list[Bundle]:
        """What one model may take: lots of the other groups, and the fewest devices of the last that carry the rest."""
        need = demand.rate * factor
        cells = [self._cells(demand, k, need) for k in self.others]
        found: dict[tuple[int, ...], float] = {}
        for counts in product(*cells):
            rest = need - sum(float(demand.most(k, np.array(n))) for k, (_, n) in zip(self.others, counts, strict=True))
            place = tuple(cell for cell, _ in counts)
            least = float(demand.fewest(self.last, np.array(rest)))
            if self.asked.whole and sum(n > 0 for _, n in counts) + (least > 0) > 1:
                continue
            found[place] = min(least, found.get(place, np.inf))
        return pareto_optimal(found)

    def _cells(self, demand: ServiceDemand, group: int, need: float) -> list[tuple[int, int]]:
        """(lots, devices): the counts of a group at which the rate rises, up to the first that carries all of it."""
        counts = np.arange(0, self.asked.devices[group] + 1, self.asked.unit(group))
        rates = demand.most(group, counts)
        rises = np.flatnonzero(np.diff(rates, prepend=-1.0) > 0)
        enough = int(np.searchsorted(rates[rises], need * (1 - 1e-12)))
        lot, most = self.lots[group], self.shape[self.others.index(group)] - 1
        chosen = [int(n) for n in counts[rises[: enough + 1]]]
        pairs = [(-(-n // lot) if self.up else n // lot, n) for n in chosen]
        return [(cell, n) for cell, n in pairs if cell <= most]


def pareto_optimal(found: dict[tuple[int, ...], float]) -> list[Bundle]:
    """Bundles of which no other takes as few of every group; those on fewer groups first, to which ties go."""
    kept: dict[tuple[int, ...], float] = {}
    for place, least in sorted(found.items()):
        below = (tuple(c - (i == k) for i, c in enumerate(place)) for k in range(len(place)))
        if np.isfinite(least) and all(found.get(p, np.inf) > least for p in below):
            kept[place] = least
    return sorted(kept.items(), key=lambda item: (sum(map(bool, item[0])) + bool(item[1]), item[0]))


def merged(table: np.ndarray, bundles: Sequence[Bundle]) -> tuple[np.ndarray, np.ndarray]:
    """The table with one more model, and which bundle each cell took (-1: none)."""
    after, taken = np.full(table.shape, np.inf), np.full(table.shape, -1)
    for number, (place, least) in enumerate(bundles):
        into = tuple(slice(c, None) for c in place)
        came = tuple(slice(0, n - c) for c, n in zip(place, table.shape, strict=True))
        offered = table[came] + least
        better = offered < after[into]
        after[into] = np.where(better, offered, after[into])
        taken[into] = np.where(better, number, taken[into])
    return after, taken
