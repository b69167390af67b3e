"""Who gets which devices: an exact integer program over counts, solved by dynamic programming.

A model takes a number of devices of every group; its rate on a group is that of the best of its instance layouts there, in
whole instances. The program asks for the least weight (dollars an hour, or devices) at which every model has its rate and
no group gives more than it has. Models are taken one after the other; for every count of devices given so far of all groups but
one, what is kept is the fewest of that one. That is exact. Where the counts of three groups and more are too many to list, they
are counted in larger lots, once rounded up (an assignment that exists) and once down (a bound on every other).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd, prod

import numpy as np

from rooflinecli.core import num


@dataclass(frozen=True)
class InstanceOption:
    """An instance layout of a model on a group: devices it takes, requests per second that it carries at the bound, and expected."""

    size: int
    rate: float
    expected: float = 0.0


@dataclass(frozen=True)
class ServiceDemand:
    """A model: requests per second to carry, and its offers on every group, in the groups' order."""

    rate: float
    offers: tuple[tuple[InstanceOption, ...], ...]

    def most(self, group: int, devices: np.ndarray) -> np.ndarray:
        """The highest rate on a number of devices of a group."""
        rates = [devices // o.size * o.rate for o in self.offers[group]]
        return np.max(rates, axis=0) if rates else np.zeros(np.shape(devices))

    def highest(self, devices: Sequence[int]) -> float:
        """The highest rate on a number of devices of every group."""
        return float(sum(self.most(k, np.array(n)) for k, n in enumerate(devices)))

    def fewest(self, group: int, rate: np.ndarray) -> np.ndarray:
        """The fewest devices of a group that carry a rate, however many there are; infinite where none do."""
        counts = [np.ceil(np.maximum(rate, 0) / o.rate * (1 - 1e-12)) * o.size for o in self.offers[group]]
        return np.min(counts, axis=0) if counts else np.where(rate > 0, np.inf, 0.0)

    def best(self, group: int, devices: int) -> InstanceOption | None:
        """The layout with the highest rate on a number of devices; of equals, as a search ranks them, the most expected, then the smallest."""

        def rank(o: InstanceOption) -> tuple[float, ...]:
            count = devices // o.size
            return num.single(count * o.rate), num.single(count * o.expected), -o.size

        return max((o for o in self.offers[group] if o.size <= devices), key=rank, default=None)


Bundle = tuple[tuple[int, ...], float]  # lots of all groups but the last, and devices of the last


class CountTable:
    """Tables over the counts of all groups but one, in lots: cell (i, j, ...) keeps the fewest devices of that one."""

    def __init__(self, asked: AllocationProgram, last: int, rounded_up: bool):
        self.asked, self.last, self.up = asked, last, rounded_up
        self.others = [k for k in range(len(asked.devices)) if k != last]
        self.lots = {k: asked.unit(k) for k in self.others}
        while self.others and float(prod(asked.devices[k] // self.lots[k] + 1 for k in self.others)) ** 2 > asked.work:
            widest = max(self.others, key=lambda k: asked.devices[k] // self.lots[k])
            self.lots[widest] *= 2
        self.shape = tuple(asked.devices[k] // self.lots[k] + 1 for k in self.others)

    @property
    def exact(self) -> bool:
        return all(self.lots[k] == self.asked.unit(k) for k in self.others)

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

    def weights(self, table: np.ndarray) -> np.ndarray:
        """What each cell weighs; infinite where the last group has too few devices."""
        weights = self.asked.weights
        there = table <= self.asked.devices[self.last]
        total = np.where(there, np.where(there, table, 0.0) * weights[self.last], np.inf)
        for axis, group in enumerate(self.others):
            lots = np.arange(self.shape[axis]) * self.lots[group] * weights[group]
            total = total + lots.reshape([-1 if a == axis else 1 for a in range(len(self.shape))])
        return np.asarray(total)

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


WORK = 3e8  # cells times bundles of a model that are worth listing
FINE = 1e-6  # how closely a common growth is found before it is taken to the assignment's own


@dataclass(frozen=True)
class Assignment:
    """Devices of every model on every group; `bound` is what no assignment weighs less than."""

    devices: tuple[tuple[int, ...], ...]
    weight: float
    bound: float

    @property
    def used(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*self.devices, strict=True)))


@dataclass(frozen=True)
class AllocationProgram:
    """Models and the devices of every group. weights: what a device of each counts; whole: every model on one group alone."""

    demands: tuple[ServiceDemand, ...]
    devices: tuple[int, ...]
    weights: tuple[float, ...]
    whole: bool = False
    work: float = WORK

    @cached_property
    def last(self) -> int:
        """The group of which the fewest are kept: the one with the most counts."""
        return max(range(len(self.devices)), key=lambda k: self.devices[k] / self.unit(k))

    def unit(self, group: int) -> int:
        """What every count of a group is a multiple of."""
        return gcd(*(o.size for d in self.demands for o in d.offers[group])) or 1

    def solve(self, factor: float = 1.0) -> Assignment | None:
        """The lightest assignment that carries `factor` of every rate; None where the fleet cannot."""
        grid = CountTable(self, self.last, rounded_up=True)
        table, steps = grid.empty(), []
        for demand in self.demands:
            bundles = grid.bundles(demand, factor)
            table, taken = merged(table, bundles)
            steps.append((bundles, taken))
        weights = grid.weights(table)
        if not np.isfinite(weights).any():
            return None
        cell = np.unravel_index(int(np.argmin(weights)), weights.shape)
        rows = _backwards(self, grid, steps, tuple(map(int, cell)))
        weight = bound = sum(w * n for row in rows for w, n in zip(self.weights, row, strict=True))
        if not grid.exact:  # the same with every lot rounded down is what no assignment weighs less than
            down = CountTable(self, self.last, rounded_up=False)
            bound = min(weight, float(np.min(down.weights(down.all(factor)))))
        return Assignment(rows, weight, bound)

    def growth(self) -> float:
        """The largest common factor of all rates that the fleet carries; 0 where one of them has no instance there."""
        low, high = 0.0, min((self._alone(d) for d in self.demands), default=0.0)
        found = self.solve(high)
        if found is not None:
            return high
        least = FINE * high
        while high - low > max(FINE * low, least * FINE):
            middle = (low + high) / 2
            found = self.solve(middle)
            if found is None:
                high = middle
                continue
            pairs = zip(self.demands, found.devices, strict=True)
            low = max(middle, min(d.highest(row) / d.rate for d, row in pairs))
        return low

    def _alone(self, demand: ServiceDemand) -> float:
        """The factor of one model's rate with the whole fleet to itself."""
        return demand.highest(self.devices) / demand.rate

    def growth_alone(self) -> list[float | None]:
        """For every model the largest factor of its own rate next to the others' as they are; None where the others alone do not fit."""
        grid = CountTable(self, self.last, rounded_up=True)
        each = [grid.bundles(demand, 1.0) for demand in self.demands]
        return [
            _room(self, grid, others, demand) for demand, others in zip(self.demands, _others(grid, each), strict=True)
        ]

    def load(self, model: int) -> float:
        """The share of the fleet's devices that a model would need for itself alone, above 1 where it does not fit."""
        whole = self._alone(self.demands[model])
        return 1 / whole if whole else float("inf")

    def needed(self, group: int) -> int | None:
        """The fewest devices of one group that carry everything, the others as they are; None where no count does."""
        table = CountTable(self, group, rounded_up=True).all(1.0)
        least = float(np.min(table)) if table.size else float("inf")
        return int(least) if np.isfinite(least) else None


def _backwards(
    asked: AllocationProgram, grid: CountTable, steps: Sequence[tuple[list[Bundle], np.ndarray]], cell: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """Devices of every model on every group, from the last model's choice to the first's."""
    rows: list[tuple[int, ...]] = []
    for demand, (bundles, taken) in zip(reversed(asked.demands), reversed(steps), strict=True):
        place, least = bundles[int(taken[cell])]
        counts = {k: c * grid.lots[k] for k, c in zip(grid.others, place, strict=True)} | {grid.last: int(least)}
        best = {k: demand.best(k, n) for k, n in counts.items()}
        whole = {k: n // o.size * o.size if (o := best[k]) is not None else 0 for k, n in counts.items()}
        rows.append(tuple(whole[k] for k in range(len(asked.devices))))  # what a lot left over goes back
        cell = tuple(a - b for a, b in zip(cell, place, strict=True))
    return tuple(reversed(rows))


def _others(grid: CountTable, each: list[list[Bundle]]) -> list[np.ndarray]:
    """For every model the table of all others: those before it joined with those after."""
    before = [grid.empty()]
    for bundles in each[:-1]:
        before.append(merged(before[-1], bundles)[0])
    after, found = grid.empty(), list[np.ndarray]()
    for number in reversed(range(len(each))):
        cells = {tuple(map(int, c)): float(after[tuple(c)]) for c in np.argwhere(np.isfinite(after))}
        found.append(merged(before[number], pareto_optimal(cells))[0])
        after = merged(after, each[number])[0]
    return found[::-1]


def _room(asked: AllocationProgram, grid: CountTable, others: np.ndarray, demand: ServiceDemand) -> float | None:
    """The most of one model's rate next to the others."""
    cells = np.argwhere(others <= asked.devices[grid.last])
    if not len(cells):
        return None
    left = {grid.last: asked.devices[grid.last] - others[tuple(cells.T)]}
    left |= {k: asked.devices[k] - cells[:, axis] * grid.lots[k] for axis, k in enumerate(grid.others)}
    return float(np.max(sum(demand.most(k, counts) for k, counts in left.items()))) / demand.rate
