"""The plan of a service on one chip: the fewest devices that carry a rate inside latency limits, all held at one end."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import plural
from rooflinecli.engine import build_request
from rooflinecli.formulas import capacity, cost
from rooflinecli.questions.estimate.answer import scene_of
from rooflinecli.questions.plan.instance import conditions, instance
from rooflinecli.questions.plan.targets import ServingPlanQuestion
from rooflinecli.questions.search.answer_types import ServingRow
from rooflinecli.questions.search.serving import search
from rooflinecli.specs.hardware import load_hardware

Row = dict[str, Any]
_LAYOUTS = 64  # instance layouts whose pessimistic rate is looked at
_SPLIT = ("tp", "pp", "ep")


def answer(asked: ServingPlanQuestion, name: str) -> tuple[Row, int]:
    """The chip's row, or why it has none; and how many layouts were looked at."""
    options = asked.each[name]
    where = [*asked.where, *conditions(asked.limits, asked.hold)]
    limits: dict[str, str | None] = {"qps": f"{asked.qps!r}", "ttft": None, "itl": None}
    try:
        scene_of(
            build_request.request(
                {**{k: v for k, v in options.items() if k not in ("batch", *_SPLIT)}, "phase": ["decode"]}
            )
        )  # an encoder decodes nothing
        found = search(options, "devices", where, limits, _LAYOUTS)
    except UsageError as error:
        return _none(name, str(error)), 0
    if not found.results:
        short = found.nearest_miss.lacks if found.nearest_miss else "room"
        return _none(name, f"no instance meets the SLO; the closest is short by {short}"), found.layouts
    rows = [_row(asked, name, result) for result in found.results]
    best = min(rows, key=lambda row: (row["devices"], row["held_usd"] or 0.0, row["interval_itl_s"][1]))
    if asked.most is not None and best["devices"] > asked.most:
        return _none(
            name, f"the rate takes {plural(best['devices'], 'device')}, and -n {asked.most:,} is the most to have"
        ), found.layouts
    return _affordable(asked, name, best), found.layouts


def _row(asked: ServingPlanQuestion, name: str, result: ServingRow) -> Row:
    """A layout with as many instances as carry the rate at the end that is held; each number is what its command prints."""
    one = instance(asked.each[name], result.layout)
    count = int(capacity.instances_for_rate(asked.qps, one.rate.at(asked.hold, less=False)))
    fleet = one.times(count)
    hourly = fleet["usd_per_hour"]
    bill = float(cost.run_cost(asked.period, hourly)) if hourly is not None and asked.period is not None else None
    return {
        "chip": name,
        "hardware": one.hardware,
        "feasible": True,
        "why": "",
        **fleet,
        "bill_usd": bill,
        "held_usd": hourly,
        "held_s": fleet["interval_itl_s"][1],
        "usd_per_device_hour": one.price,
        "price": None if one.price is None else "given" if "price" in asked.each[name] else "file",
        "command": one.command,
    }


def _affordable(asked: ServingPlanQuestion, name: str, row: Row) -> Row:
    """The row, unless its bill over the time to serve is above the budget."""
    if asked.budget is None or asked.period is None:
        return row
    if row["bill_usd"] is None:
        return row | {
            "feasible": False,
            "why": f"no price is known for it, so no budget can be held; add --price {name}=USD",
        }
    if row["bill_usd"] <= asked.budget:
        return row
    return row | {
        "feasible": False,
        "why": f"the bill is {row['bill_usd'] / asked.budget:.3g} times the budget on {plural(row['devices'], 'device')}, the fewest that carry the rate",
    }


def _none(name: str, why: str) -> Row:
    return {"chip": name, "hardware": load_hardware(name).name, "feasible": False, "why": why}
