"""The plan of a service on one chip: the fewest devices that carry a rate inside latency limits, all at one bound."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import plural
from rooflinecli.engine import build_request
from rooflinecli.formulas import capacity, cost
from rooflinecli.questions.estimate.answer import scene_of
from rooflinecli.questions.plan.instance import instance
from rooflinecli.questions.plan.question import PlannedChip, ServingChip
from rooflinecli.questions.plan.targets import PlanTarget, no_price
from rooflinecli.questions.search.answer_types import InstanceLayout
from rooflinecli.questions.search.serving import search
from rooflinecli.specs.hardware import load_hardware

_LAYOUTS = 64  # instance layouts whose pessimistic rate is looked at
_SPLIT = ("tp", "pp", "ep")


def plan_chip(asked: PlanTarget, name: str) -> tuple[PlannedChip, int]:
    """The chip's row, or why it has none; and how many layouts were looked at."""
    options = asked.each[name]
    assert asked.qps is not None
    try:
        scene_of(
            build_request.request(
                {**{k: v for k, v in options.items() if k not in ("batch", *_SPLIT)}, "phase": ["decode"]}
            )
        )  # an encoder decodes nothing
        found = search(
            {**options, "hold": asked.hold}, "devices", list(asked.where), {**asked.limits, "qps": asked.qps}, _LAYOUTS
        )
    except UsageError as error:
        return _none(name, str(error)), 0
    if not found.results:
        short = found.nearest_miss.lacks if found.nearest_miss else "room"
        return _none(name, f"no instance meets the SLO; the closest is short by {short}"), found.layouts
    rows = [_row(asked, name, result.layout) for result in found.results]
    best = min(rows, key=lambda row: (row.devices, row.held_usd or 0.0, row.held_s))
    most = asked.most_devices(name)
    if most is not None and best.devices > most:
        limit = "-n" if most == asked.most else "--power allows"
        return _none(
            name, f"the rate takes {plural(best['devices'], 'device')}, and {limit} {most:,} is the most to have"
        ), found.layouts
    return _affordable(asked, best), found.layouts


def _row(asked: PlanTarget, name: str, layout: InstanceLayout) -> ServingChip:
    """A layout with as many instances as carry the rate at the bound; each number is what its command prints."""
    assert asked.qps is not None
    one = instance(asked.each[name], layout)
    count = int(capacity.instances_for_rate(asked.qps, one.rate.at(asked.hold, less=False)))
    numbers, devices = one.times(count), count * one.devices
    hourly = None if one.price is None else float(cost.fleet_price(devices, one.price))
    return ServingChip(
        chip=name,
        hardware=one.hardware,
        devices=devices,
        numbers=numbers,
        usd_per_hour=hourly,
        bill_usd=None if hourly is None or asked.deadline is None else float(cost.run_cost(asked.deadline, hourly)),
        held_usd=hourly,
        held_s=numbers.interval_itl_s[1],
        usd_per_device_hour=one.price,
        price=None if one.price is None else "given" if "price" in asked.each[name] else "file",
        command=one.command,
    )


def _affordable(asked: PlanTarget, row: ServingChip) -> ServingChip:
    """The row, infeasible where its cost over the time to serve exceeds the budget."""
    if asked.budget is None or asked.deadline is None:
        return row
    if row.bill_usd is None:
        row.feasible, row.why = False, no_price(row.chip)
    elif row.bill_usd > asked.budget:
        ratio, devices = row.bill_usd / asked.budget, plural(row.devices, "device")
        row.feasible, row.why = (
            False,
            f"costs {ratio:.3g} times the budget on {devices}, the smallest number that carries the rate",
        )
    return row


def _none(name: str, why: str) -> PlannedChip:
    return PlannedChip(chip=name, hardware=load_hardware(name).name, feasible=False, why=why)
