"""The plan of a service on one chip: the fewest devices that carry a rate inside latency limits, all held at one end."""

from __future__ import annotations

from typing import Any

from rooflinecli.answers.check.ends import Ends, ends
from rooflinecli.answers.contract import Estimate
from rooflinecli.answers.estimate import estimate, scene_of
from rooflinecli.answers.plan.asked import Serving
from rooflinecli.answers.search.line import estimate_line
from rooflinecli.answers.search.serve import search
from rooflinecli.errors import UsageError
from rooflinecli.formulas import money, provision
from rooflinecli.specs import ask
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.text import plural

Row = dict[str, Any]
_LAYOUTS = 64  # instance layouts whose pessimistic rate is looked at
_HELD = {"pessimistic": "interval_s.1", "expected": "time_s", "floor": "floor_s"}
_SPLIT = ("tp", "pp", "ep")
_LIMITED = {"ttft": "prefill", "itl": "decode"}
PRICE = "cost.usd_per_million_output_tokens"


def answer(asked: Serving, name: str) -> tuple[Row, int]:
    """The chip's row, or why it has none; and how many layouts were looked at."""
    options = asked.each[name]
    where = [*asked.where, *_conditions(asked)]
    limits: dict[str, str | None] = {"qps": f"{asked.qps!r}", "ttft": None, "itl": None}
    try:
        scene_of(ask.request({**{k: v for k, v in options.items() if k not in ("batch", *_SPLIT)}, "phase": ["decode"]}))  # an encoder decodes nothing
        found = search(options, "devices", where, limits, _LAYOUTS)
    except UsageError as error:
        return _none(name, str(error)), 0
    if not found["results"]:
        miss = found["nearest_miss"]
        return _none(name, f"nothing keeps to the limits; the nearest lacks {miss['lacks']}"), found["layouts"]
    rows = [_row(asked, name, result) for result in found["results"]]
    best = min(rows, key=lambda row: (row["devices"], row["held_usd"] or 0.0, row["interval_itl_s"][1]))
    if asked.most is not None and best["devices"] > asked.most:
        return _none(
            name, f"the rate takes {plural(best['devices'], 'device')}, and -n {asked.most:,} is the most to have"
        ), found["layouts"]
    return _affordable(asked, name, best), found["layouts"]


def _conditions(asked: Serving) -> list[str]:
    """The limits, held at the end asked for."""
    return [f"{_LIMITED[name]}.{_HELD[asked.hold]} <= {limit!r} s" for name, limit in asked.limits.items()]


def _row(asked: Serving, name: str, result: dict[str, Any]) -> Row:
    """A layout with as many instances as carry the rate at the end that is held; each number is what its command prints."""
    options, layout = asked.each[name], result["layout"]
    line = estimate_line({**options, "phase": []}, result["command"], True)
    found = estimate(ask.request(_asks(options, layout)))
    rate = _rates(found)
    each = {"pessimistic": rate.low, "floor": rate.high}.get(asked.hold, rate.expected)
    count = int(provision.instances_for_rate(asked.qps, each))
    devices = count * layout["devices"]
    price = found.cost.usd_per_device_hour
    hourly = float(money.fleet_price(devices, price)) if price is not None else None
    bill = float(money.run_cost(asked.period, hourly)) if hourly is not None and asked.period is not None else None
    first, other = found.phases["prefill"], found.phases["decode"]
    tokens = ends(found, PRICE) if price is not None else None
    return {
        "chip": name,
        "hardware": found.hardware.name,
        "feasible": True,
        "why": "",
        "devices": devices,
        "instances": count,
        "layout": layout,
        "batch_in_all": float(provision.batch_in_all(layout["batch"], layout["dp"], count)),
        "ttft_s": first.time_s,
        "interval_ttft_s": list(first.interval_s),
        "itl_s": other.time_s,
        "interval_itl_s": list(other.interval_s),
        "requests_per_s": count * rate.expected,
        "requests_per_s_interval": [count * rate.low, count * rate.high],
        "usd_per_million_output_tokens": tokens.expected if tokens else None,
        "usd_per_million_output_tokens_interval": [tokens.low, tokens.high] if tokens else None,
        "usd_per_hour": hourly,
        "bill_usd": bill,
        "held_usd": hourly,
        "held_s": other.interval_s[1],
        "usd_per_device_hour": price,
        "price": None if price is None else "given" if "price" in options else "file",
        "command": line,
    }


def _asks(options: dict[str, Any], layout: dict[str, Any]) -> dict[str, Any]:
    """What the row's command asks."""
    sizes = {axis: layout[axis] for axis in ("tp", "pp", "dp", "ep")}
    own = {k: v for k, v in options.items() if k not in ("n", "batch", "cp", *sizes)}
    return {**own, **sizes, "n": layout["devices"], "concurrency": layout["batch"], "phase": ["prefill", "decode"]}


def _rates(found: Estimate) -> Ends:
    """Requests per second of one instance, from its tokens per second and the length of an answer."""
    decode, output = found.phases["decode"], found.workload.output
    expected, low, high = (
        float(provision.request_rate(r, output)) for r in (decode.tokens_per_s, *decode.tokens_per_s_interval)
    )
    return Ends(expected, "decode", None, low, high)


def _affordable(asked: Serving, name: str, row: Row) -> Row:
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
