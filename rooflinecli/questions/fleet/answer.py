"""The answer of `fleet`: which model on which devices with what layout, what is unused, how far traffic may grow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from rooflinecli.core import num
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.num import divisors
from rooflinecli.core.parallel_map import Workers
from rooflinecli.engine import extrapolation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import cost
from rooflinecli.questions.fleet.assignment import AllocationProgram, Assignment, InstanceOption, ServiceDemand
from rooflinecli.questions.fleet.fleet_question import DeviceGroup, Fleet, FleetService, asked
from rooflinecli.questions.fleet.question import FleetAnswer, PlacedService, RefusedGroup, ServedModel, UsedGroup
from rooflinecli.questions.plan.answer import ServingInstance, instance
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.question import InstanceLayout
from rooflinecli.questions.search.search_request import LARGEST_INSTANCE, serving_question
from rooflinecli.questions.search.serving import serving_grid, sustained_rates
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model

RATE = "decode.tokens_per_s"
NO_ROOM = "no instance that meets the SLO fits on these devices"


@dataclass
class InstanceOptions:
    """Instances of a model on a group by their size; `infeasible_reason` where there are none. `domain`: devices of the group's fast domain."""

    found: list[ServingInstance]
    infeasible_reason: str
    domain: int
    layouts: int


def offers(task: tuple[FleetService, DeviceGroup, str]) -> InstanceOptions:
    """The offers of one group to one model, its rate and limits at one bound."""
    service, group, bound = task
    options = service.on(group)
    try:
        question = serving_question(
            {**options, "n": str(group.devices), "bound": bound}, "throughput", list(service.where), service.limits
        )
        found = serving_grid(
            question,
            "a model of a fleet writes tokens; `roofline estimate --batch` says how many inputs a second one device takes",
        )
        keep, _, worst = found.weigh()
    except UsageError as error:
        if error.option == "where":  # whatever the chip
            raise DataError(f"{service.line}: {service.name}: where: {error}") from None
        return InstanceOptions([], str(error), 1, 0)
    domain, tried = _domain(found.ctx), int(found.one.legal.sum())
    if not keep.any():
        closest = found.nearest(worst).shortfall
        return InstanceOptions([], f"no instance meets the SLO; the closest misses it: {closest}", domain, tried)
    chosen = _fastest_by_size(found.one, np.where(keep, found.at_bound(RATE, less=False), 0.0))
    sustained_rates(question, found.one, [found.one.place(layout) for layout in chosen])
    return InstanceOptions(
        [instance(options, layout, found.one.rate_limit(layout)) for layout in chosen], "", domain, tried
    )


def _domain(ctx: EstimateContext) -> int:
    """Devices that fast links join; of a slice beyond any instance, the largest part that an instance may fill."""
    size = int(extrapolation.scale_up_domain_sizes(ctx.chip)[0])
    return size if size <= 2 * LARGEST_INSTANCE else max(n for n in divisors(size) if n <= LARGEST_INSTANCE)


def _fastest_by_size(grid: instances.InstanceGrid, rates: np.ndarray) -> list[InstanceLayout]:
    """Of every number of devices the layout and batch with the highest rate, as a search ranks equals; none without a rate. rates: at the bound."""
    found, parts = [], [np.array([[layout[axis]] for layout in grid.layouts]) for axis in ("pp", "dp")]
    expected = grid.serve["decode_requests_per_s"]
    keys = [grid.whole(key) for key in (grid.batches, *parts[::-1], -num.single(expected), -num.single(rates))]
    for size in sorted({layout.ranks for layout in grid.layouts}):
        rows = [i for i, layout in enumerate(grid.layouts) if layout.ranks == size]
        i, j = divmod(int(np.lexsort([key[rows].ravel() for key in keys])[0]), len(grid.batches))
        if rates[rows[i], j] > 0:
            found.append(grid.layouts[rows[i]].at_batch(float(grid.batches[j])))
    return found


def devices_taken(size: int, domain: int, rounding: str) -> int:
    """Devices that an instance of `size` takes: its own, or with what it leaves idle of a fast domain.

    rounding: none; divisors: a part that divides the domain, or whole domains; chain: only parts of which each divides
    the next, so that any mix whose parts do not exceed the devices goes in.
    """
    if rounding == "none":
        return size
    if size > domain:
        return math.ceil(size / domain) * domain
    return min(part for part in (chained_parts(domain) if rounding == "chain" else divisors(domain)) if part >= size)


def chained_parts(domain: int) -> list[int]:
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
    """The program of a question; `rounding` as in `devices_taken`."""

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
        sizes = [(devices_taken(one.devices, there.domain, self.rounding), one) for one in there.found]
        ends = self.question.bound, "expected"
        return [(InstanceOption(size, *map(one.sustained, ends)), one) for size, one in sizes if size <= group.devices]

    @cached_property
    def program(self) -> AllocationProgram:
        groups = self.question.groups
        demands = tuple(
            ServiceDemand(s.qps, tuple(tuple(o for o, _ in self.instances(s, g)) for g in groups)) for s in self.able
        )
        free = self.question.objective == "devices"
        weights = tuple(1.0 if free else float(g.usd_per_device_hour or 0.0) for g in groups)
        return AllocationProgram(demands, tuple(g.devices for g in groups), weights)

    def solve(self) -> Assignment | None:
        """The assignment that carries all traffic, every model on one group where that is possible or asked; None where none does."""
        together = None if self.question.split else replace(self.program, whole=True).solve(1.0)
        return together or self.program.solve(1.0)

    def chosen(
        self, service: FleetService, group: DeviceGroup, devices: int
    ) -> tuple[InstanceOption, ServingInstance, int]:
        """The layout on a number of devices, and how many instances of it."""
        pairs = dict(self.instances(service, group))
        demand = self.program.demands[self.able.index(service)]
        offer = demand.best(self.question.groups.index(group), devices)
        assert offer is not None  # devices are given where an instance takes them
        return offer, pairs[offer], devices // offer.size

    def fits_in_domains(self, given: Assignment) -> bool:
        """Whether the instances go whole into every group's domains."""
        for k, group in enumerate(self.question.groups):
            placed = [(s, row[k]) for s, row in zip(self.able, given.devices, strict=True) if row[k]]
            parts = [(o.size, count) for o, _, count in (self.chosen(s, group, n) for s, n in placed)]
            if not pack(parts, group.devices, self.domain(group)):
                return False
        return True


def fleet(
    path: Path,
    bound: str | None = None,
    objective: str | None = None,
    split: bool = False,
    workers: Workers | None = None,
) -> FleetAnswer:
    """The answer of a file. Raises DataError with file:line for one that is wrong, UsageError for an objective without prices."""
    question = asked(path, bound, objective, split)
    pairs = [(s, g) for s in question.services for g in question.groups if g.name in s.groups]
    found = (workers or map)(offers, [(s, g, question.bound) for s, g in pairs])
    return report(question, {(s.name, g.name): one for (s, g), one in zip(pairs, found, strict=True)})


def report(question: Fleet, found: dict[tuple[str, str], InstanceOptions]) -> FleetAnswer:
    """The answer of the offers of every group to every service."""
    placed = Placement(question, found)
    growth, given = _given(placed)
    if given is not None and not placed.fits_in_domains(given):
        placed = replace(placed, rounding="chain")
        growth, given = _given(placed)
    alone = placed.program.growth_alone() if placed.able else []
    exact = replace(placed, rounding="none")
    tight = exact.solve() if exact.able and growth >= 1 else None
    if given and tight and tight.weight <= given.weight and exact.fits_in_domains(tight):
        placed, given = exact, tight
    fits = given is not None and growth >= 1 and len(placed.able) == len(question.services)
    rows = _rows(placed, given, min(growth, 1.0)) if given is not None else []
    services = [_service(placed, s, rows, alone, growth) for s in question.services]
    groups = [_group(placed, k, rows, fits) for k in range(len(question.groups))]
    # the model that has no instance; else that of least growth, or where not all fits of the largest share of the fleet
    room = (lambda s: s.growth or 0.0) if fits else (lambda s: -(s.load or 0.0))
    bottleneck = next((s for s in services if s.load is None), None) or min(services, key=room, default=None)
    gap = 0.0
    if given is not None and given.weight:
        gap = given.weight / given.bound - 1 if given.bound else float("inf")
    return FleetAnswer.like(
        question, layouts=sum(o.layouts for o in found.values()), feasible=fits,
        growth=growth if len(placed.able) == len(question.services) else 0.0, bottleneck=bottleneck.name if bottleneck else None,
        exact=given is None or given.bound == given.weight, optimality_gap=gap, devices=sum(g.used for g in groups),
        spare=sum(g.spare for g in groups), usd_per_hour=_total(g.usd_per_hour for g in groups), groups=groups, models=services, rows=rows,
    )  # fmt: skip


def _total(paid: Iterable[float | None]) -> float | None:
    """The sum, None where a part is not known."""
    found = list(paid)
    known = [usd for usd in found if usd is not None]
    return sum(known) if len(known) == len(found) else None


def _given(placed: Placement) -> tuple[float, Assignment | None]:
    """The common growth of those that can run, and the assignment: of their traffic, or of the share that the fleet carries."""
    if not placed.able:
        return 0.0, None
    growth, given = placed.program.growth(), placed.solve()
    return (growth, placed.program.solve(growth)) if given is None else (max(growth, 1.0), given)


def _rows(placed: Placement, given: Assignment, share: float) -> list[PlacedService]:
    """A row for every model on every group that it was given devices of."""
    found = []
    for service, row in zip(placed.able, given.devices, strict=True):
        here = [(g, *placed.chosen(service, g, n)) for g, n in zip(placed.question.groups, row, strict=True) if n]
        carried = sum(count * offer.rate for _, offer, _, count in here)
        for group, offer, one, count in here:
            devices, share_here = count * offer.size, count * offer.rate / carried
            qps = service.qps * share * share_here
            found.append(PlacedService.like(
                one, name=service.name, model=one.found.model.name, group=group.name, numbers=one.times(count, devices, qps), devices=devices,
                unused=count * (offer.size - one.devices), requests_per_s_at_bound=count * offer.rate, qps=qps, share=share_here,
                usd_per_hour=None if one.price is None else float(cost.fleet_price(devices, one.price)), usd_per_device_hour=one.price,
            ))  # fmt: skip
    return found


def _service(
    placed: Placement, service: FleetService, rows: list[PlacedService], alone: list[float | None], growth: float
) -> ServedModel:
    """What a model was given, and how far its own traffic may grow with the others' as they are."""
    mine = [row for row in rows if row.name == service.name]
    place = placed.able.index(service) if service in placed.able else None
    groups = [group for name in service.groups for group in placed.question.groups if group.name == name]
    why = {group.name: placed.found[service.name, group.name].infeasible_reason or NO_ROOM for group in groups}
    refused = [
        RefusedGroup(group=group.name, infeasible_reason=why[group.name])
        for group in groups
        if not placed.instances(service, group)
    ]
    return ServedModel.like(
        service, model=load_model(str(service.options["model"])).name, limits_s=service.limits,
        served_qps=service.qps * min(growth, 1.0) if mine else 0.0,
        requests_per_s_at_bound=sum(row.requests_per_s_at_bound for row in mine), devices=sum(row.devices for row in mine),
        usd_per_hour=_total(row.usd_per_hour for row in mine), growth=alone[place] if place is not None else None,
        load=placed.program.load(place) if place is not None else None, refused=refused,
    )  # fmt: skip


def _group(placed: Placement, place: int, rows: list[PlacedService], fits: bool) -> UsedGroup:
    """What is used of a group, and unused; where the fleet does not carry all, how many devices of it would."""
    group = placed.question.groups[place]
    used, price = sum(row.devices for row in rows if row.group == group.name), group.usd_per_device_hour
    whole = len(placed.able) == len(placed.question.services)
    return UsedGroup.like(
        group,
        hardware=load_hardware(group.chip).name,
        used=used,
        spare=group.devices - used,
        needed=None if fits or not whole else placed.program.needed(place),
        price=None if price is None else "given" if group.price is not None else "file",
        usd_per_hour=None if price is None else float(cost.fleet_price(used, price)),
    )
