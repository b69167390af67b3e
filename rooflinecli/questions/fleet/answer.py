"""The answer of `fleet`: which model on which devices with what layout, what is unused, how far traffic may grow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rooflinecli.core.parallel_map import Spread, spread_over
from rooflinecli.formulas import cost
from rooflinecli.questions.fleet.assignment import Assignment
from rooflinecli.questions.fleet.fleet_question import Fleet, FleetService, asked
from rooflinecli.questions.fleet.placement import InstanceOptions, Placement, offers
from rooflinecli.questions.fleet.question import FleetAnswer, PlacedService, RefusedGroup, ServedModel, UsedGroup
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model


def fleet(
    path: Path, hold: str | None = None, objective: str | None = None, split: bool = False, over: Spread | None = None
) -> FleetAnswer:
    """The answer of a file. Raises DataError with file:line for one that is wrong, UsageError for an objective without prices."""
    question = asked(path, hold, objective, split)
    pairs = [(s, g) for s in question.services for g in question.groups if g.name in s.groups]
    found = (over or spread_over())(offers, [(s, g, question.hold) for s, g in pairs])
    return report(question, {(s.name, g.name): one for (s, g), one in zip(pairs, found, strict=True)})


def report(question: Fleet, found: dict[tuple[str, str], InstanceOptions]) -> FleetAnswer:
    """The answer of the offers of every group to every service."""
    placed = Placement(question, found)
    growth, given = _given(placed)
    if given is not None and not placed.fits_in_domains(given):
        placed = replace(placed, rounding="chain")
        growth, given = _given(placed)
    alone = placed.programme.growth_alone() if placed.able else []
    exact = replace(placed, rounding="none")
    tight = exact.solve() if exact.able and growth >= 1 else None
    if given and tight and tight.weight < given.weight and exact.fits_in_domains(tight):
        placed, given = exact, tight
    fits = given is not None and growth >= 1 and len(placed.able) == len(question.services)
    rows = _rows(placed, given, min(growth, 1.0)) if given is not None else []
    services = [_service(placed, s, rows, alone, growth) for s in question.services]
    groups = [_group(placed, k, rows, fits) for k in range(len(question.groups))]
    gap = 0.0
    if given is not None and given.weight:
        gap = given.weight / given.bound - 1 if given.bound else float("inf")
    return FleetAnswer.like(
        question,
        layouts=sum(o.layouts for o in found.values()),
        feasible=fits,
        growth=growth if len(placed.able) == len(question.services) else 0.0,
        bottleneck=_bottleneck(services, fits),
        exact=given is None or given.bound == given.weight,
        within=gap,
        devices=sum(g.used for g in groups),
        spare=sum(g.spare for g in groups),
        usd_per_hour=_total(g.usd_per_hour for g in groups),
        groups=groups,
        models=services,
        rows=rows,
    )


def _total(paid: Iterable[float | None]) -> float | None:
    """The sum, None where a part is not known."""
    found = list(paid)
    known = [usd for usd in found if usd is not None]
    return sum(known) if len(known) == len(found) else None


def _given(placed: Placement) -> tuple[float, Assignment | None]:
    """The common growth of those that can run, and the assignment: of their traffic, or of the share that the fleet carries."""
    if not placed.able:
        return 0.0, None
    growth, given = placed.programme.growth(), placed.solve()
    return (growth, placed.programme.solve(growth)) if given is None else (max(growth, 1.0), given)


def _rows(placed: Placement, given: Assignment, share: float) -> list[PlacedService]:
    """A row for every model on every group that it was given devices of."""
    found = []
    for service, row in zip(placed.able, given.devices, strict=True):
        here = [(g, *placed.chosen(service, g, n)) for g, n in zip(placed.question.groups, row, strict=True) if n]
        carried = sum(count * offer.rate for _, offer, _, count in here)
        for group, offer, one, count in here:
            devices = count * offer.size
            found.append(
                PlacedService(
                    name=service.name,
                    model=one.found.model.name,
                    group=group.name,
                    hardware=one.hardware,
                    numbers=one.times(count),
                    devices=devices,
                    unused=count * (offer.size - one.devices),
                    usd_per_hour=None if one.price is None else float(cost.fleet_price(devices, one.price)),
                    held_requests_per_s=count * offer.rate,
                    qps=service.qps * share * (count * offer.rate / carried),
                    share=count * offer.rate / carried,
                    usd_per_device_hour=one.price,
                    command=one.command,
                )
            )
    return found


def _service(
    placed: Placement, service: FleetService, rows: list[PlacedService], alone: list[float | None], growth: float
) -> ServedModel:
    """What a model was given, and how far its own traffic may grow with the others' as they are."""
    mine = [row for row in rows if row.name == service.name]
    place = placed.able.index(service) if service in placed.able else None
    refused = [RefusedGroup(group=g, why=why) for g in service.groups if (why := _why(placed, service, g))]
    return ServedModel(
        name=service.name,
        model=load_model(str(service.options["model"])).name,
        qps=service.qps,
        limits_s=service.limits,
        carried_qps=service.qps * min(growth, 1.0) if mine else 0.0,
        held_requests_per_s=sum(row.held_requests_per_s for row in mine),
        devices=sum(row.devices for row in mine),
        usd_per_hour=_total(row.usd_per_hour for row in mine),
        growth=alone[place] if place is not None else None,
        load=placed.programme.load(place) if place is not None else None,
        refused=refused,
    )


def _why(placed: Placement, service: FleetService, group: str) -> str:
    """Why a group offers a model nothing."""
    there = placed.found[service.name, group]
    if there.why or placed.instances(service, next(g for g in placed.question.groups if g.name == group)):
        return there.why
    return "no instance that meets the SLO fits on these devices"


def _group(placed: Placement, place: int, rows: list[PlacedService], fits: bool) -> UsedGroup:
    """What is used of a group, and unused; where the fleet does not carry all, how many devices of it would."""
    group = placed.question.groups[place]
    used, price = sum(row.devices for row in rows if row.group == group.name), group.usd_per_device_hour
    whole = len(placed.able) == len(placed.question.services)
    return UsedGroup(
        name=group.name,
        hardware=load_hardware(group.chip).name,
        devices=group.devices,
        used=used,
        spare=group.devices - used,
        needed=None if fits or not whole else placed.programme.needed(place),
        usd_per_device_hour=price,
        price=None if price is None else "given" if group.price is not None else "file",
        usd_per_hour=None if price is None else float(cost.fleet_price(used, price)),
    )


def _bottleneck(services: list[ServedModel], fits: bool) -> str | None:
    """The model with the least growth; where not all fits, the one that would need the largest fraction of the fleet."""
    for service in services:
        if service.load is None:
            return service.name
    if not services:
        return None
    if fits:
        return min(services, key=lambda s: s.growth or 0.0).name
    return max(services, key=lambda s: s.load or 0.0).name
