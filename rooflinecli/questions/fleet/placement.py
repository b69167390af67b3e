"""The services of a question on its groups as a programme, and what an answer of it means in instances."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.num import divisors
from rooflinecli.engine import extrapolation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.fleet.assignment import AllocationProgram, Assignment, InstanceOption, ServiceDemand
from rooflinecli.questions.fleet.fleet_question import DeviceGroup, Fleet, FleetService
from rooflinecli.questions.plan.serving import ServingInstance, instance
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.question import InstanceLayout, InstanceSizes
from rooflinecli.questions.search.search_request import LARGEST_INSTANCE, asked
from rooflinecli.questions.search.serving import serving_grid

RATE = "decode.tokens_per_s"


class InstanceOptions:
    """Instances of a model on a group by their size; `why` where there are none. `domain`: devices of the group's fast domain."""

    def __init__(self, found: list[ServingInstance], why: str, domain: int, layouts: int):
        self.found, self.why, self.domain, self.layouts = found, why, domain, layouts


def offers(task: tuple[FleetService, DeviceGroup, str]) -> InstanceOptions:
    """The offers of one group to one model, its rate and limits at one bound."""
    service, group, hold = task
    options = service.on(group)
    try:
        question = asked(
            {**options, "n": str(group.devices), "hold": hold},
            "throughput",
            list(service.where),
            service.limits,
        )
        found = serving_grid(question, "a model of a fleet answers requests")
        keep, _, worst = found.weigh()
    except UsageError as error:
        if error.option == "where":  # whatever the chip
            raise DataError(f"{service.line}: {service.name}: where: {error}") from None
        return InstanceOptions([], str(error), 1, 0)
    domain, tried = _domain(found.ctx), int(found.one.legal.sum())
    if not keep.any():
        closest = found.nearest(worst).lacks
        return InstanceOptions([], f"no instance meets the SLO; the closest is short by {closest}", domain, tried)
    rates = np.where(keep, found.at_bound(RATE, less=False), 0.0)
    chosen = (_layout(found.one, rates, rows) for rows in _by_size(found.one.layouts))
    return InstanceOptions([instance(options, layout) for layout in chosen if layout], "", domain, tried)


def _domain(ctx: EstimateContext) -> int:
    """Devices that fast links join; of a slice beyond any instance, the largest part that an instance may fill."""
    size = int(extrapolation.scale_up_domain_sizes(ctx.chip)[0])
    fitting = [part for part in divisors(size) if part <= LARGEST_INSTANCE]
    return size if size <= 2 * LARGEST_INSTANCE else max(fitting)


def _by_size(layouts: list[InstanceSizes]) -> list[list[int]]:
    """Places of the layouts of each number of devices, the smallest first."""
    sizes: dict[int, list[int]] = {}
    for place, layout in enumerate(layouts):
        sizes.setdefault(layout.ranks, []).append(place)
    return [sizes[size] for size in sorted(sizes)]


def _layout(grid: instances.InstanceGrid, rates: np.ndarray, rows: list[int]) -> InstanceLayout | None:
    """The layout and batch with the highest rate among instances of one size; the plainest among equals, None where none keeps to the limits."""
    replicas = np.array([grid.layouts[i].dp for i in rows]).reshape(-1, 1)
    all_of = rates[rows]
    if not all_of.max() > 0:
        return None
    ties = np.flatnonzero(all_of.reshape(-1) >= all_of.max() * (1 - 1e-12))
    width = int(all_of.shape[1])
    pick = min(map(int, ties), key=lambda t: (int(replicas[t // width, 0]), t))
    i, j = rows[pick // width], pick % width
    return grid.layouts[i].at_batch(float(grid.batches[j]))


def taken(size: int, domain: int, rounding: str) -> int:
    """Devices that an instance of `size` takes: its own, or with what it leaves idle of a fast domain.

    rounding: none; divisors: a part that divides the domain, or whole domains; chain: only parts of which each divides
    the next, so that any mix whose parts do not exceed the devices goes in.
    """
    if rounding == "none":
        return size
    if size > domain:
        return math.ceil(size / domain) * domain
    return min(part for part in (links(domain) if rounding == "chain" else divisors(domain)) if part >= size)


def links(domain: int) -> list[int]:
    """Parts of a domain, each a divisor of the next: by its smallest primes first, 1, 2, 4, 8, 24, 72."""
    found = [1]
    while found[-1] < domain:
        rest = domain // found[-1]
        found.append(found[-1] * next(p for p in divisors(rest) if p > 1))
    return found


def pack(parts: Iterable[tuple[int, int]], devices: int, domain: int) -> bool:
    """Whether (part, how many) instances go into whole domains and what is left of one, the largest first into the fullest that holds it."""
    whole, rest = divmod(devices, domain)
    rooms = {domain: whole}
    rooms[rest] = rooms.get(rest, 0) + 1
    for part, count in sorted(parts, reverse=True):
        if part >= domain:
            rooms[domain] -= count * (part // domain)
            if rooms[domain] < 0:
                return False
            part %= domain
        if not part:
            continue
        for room in sorted(rooms):
            most = min(rooms[room] * (room // part), count)
            if most <= 0:
                continue
            full, over = divmod(most, room // part)
            rooms[room] -= full + bool(over)
            left = room - room // part * part
            rooms[left] = rooms.get(left, 0) + full
            if over:
                rooms[room - over * part] = rooms.get(room - over * part, 0) + 1
            count -= most
        if count:
            return False
    return True


@dataclass(frozen=True)
class Placement:
    """The programme of a question; `rounding` as in `taken`."""

    question: Fleet
    found: dict[tuple[str, str], InstanceOptions]
    rounding: str = "divisors"

    @cached_property
    def able(self) -> list[FleetService]:
        """Services that have an instance somewhere."""
        return [s for s in self.question.services if any(self.instances(s, g) for g in self.question.groups)]

    def domain(self, group: DeviceGroup) -> int:
        """Devices of a group's fast domain."""
        return max((o.domain for (_, name), o in self.found.items() if name == group.name), default=1)

    def instances(self, service: FleetService, group: DeviceGroup) -> list[tuple[InstanceOption, ServingInstance]]:
        """What a group offers, with what each takes of it."""
        there = self.found.get((service.name, group.name))
        if there is None:
            return []
        pairs = [
            (InstanceOption(taken(one.devices, there.domain, self.rounding), self.rate(one)), one)
            for one in there.found
        ]
        return [(offer, one) for offer, one in pairs if offer.size <= group.devices]

    def rate(self, one: ServingInstance) -> float:
        """Requests per second at the end held."""
        return float(one.rate.at(self.question.hold, less=False))

    @cached_property
    def programme(self) -> AllocationProgram:
        groups = self.question.groups
        demands = tuple(
            ServiceDemand(s.qps, tuple(tuple(o for o, _ in self.instances(s, g)) for g in groups)) for s in self.able
        )
        free = self.question.objective == "devices"
        weights = tuple(1.0 if free else float(g.usd_per_device_hour or 0.0) for g in groups)
        return AllocationProgram(demands, tuple(g.devices for g in groups), weights)

    def solve(self) -> Assignment | None:
        """The assignment that carries all traffic, every model on one group where that is possible or asked; None where none does."""
        together = None if self.question.split else replace(self.programme, whole=True).solve(1.0)
        return together or self.programme.solve(1.0)

    def chosen(
        self, service: FleetService, group: DeviceGroup, devices: int
    ) -> tuple[InstanceOption, ServingInstance, int]:
        """The layout on a number of devices, and how many instances of it."""
        pairs = dict(self.instances(service, group))
        demand = self.programme.demands[self.able.index(service)]
        offer = demand.best(self.question.groups.index(group), devices)
        assert offer is not None  # devices are given where an instance takes them
        return offer, pairs[offer], devices // offer.size

    def fits_in_domains(self, given: Assignment) -> bool:
        """Whether the instances go whole into every group's domains."""
        for k, group in enumerate(self.question.groups):
            taken_ = [(s, row[k]) for s, row in zip(self.able, given.devices, strict=True) if row[k]]
            parts = [(o.size, count) for o, _, count in (self.chosen(s, group, n) for s, n in taken_)]
            if not pack(parts, group.devices, self.domain(group)):
                return False
        return True
