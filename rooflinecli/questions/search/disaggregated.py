"""Prefill and decode pools apart: the best instances of each, how many of each, on one chip or each on its own.

Every request passes both pools, so the slower one sets the rate. For each pool only the fastest instance of every size
can be part of an optimum; pairs of those are tried with every split of the devices. The transfer of the cache between
the pools is not charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import capacity, cost
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.command_line import estimate_command
from rooflinecli.specs.quantities import COST

if TYPE_CHECKING:
    from rooflinecli.questions.search.serving_question import ServingSearchQuestion

SIDES = ("prefill", "decode")
LATENCY = {"prefill": "ttft_s", "decode": "itl_s"}
Option = dict[str, Any]  # layout, batch, devices and rate of one instance, its latency, its chip
MOST = 4096


@dataclass(frozen=True)
class DisaggregatedPools:
    """What one chip offers to either pool: the options of its question, and the instances worth looking at."""

    options: dict[str, Any]
    ctx: EstimateContext
    prefill: list[Option]
    decode: list[Option]


def offered(
    options: dict[str, Any],
    ctx: EstimateContext,
    asked: ServingSearchQuestion,
    layouts: list[dict[str, int]],
    batches: np.ndarray,
) -> DisaggregatedPools:
    """The instances of one chip that meet the limits of their pool."""
    grid = instances.evaluate(asked.request, layouts, batches, apart=True)
    fits = [grid.legal & grid.whole(grid.phases[phase].memory.fits) for phase in ("prefill", "decode")]
    prefill = _options(grid, fits[0], "prefill_requests_per_s", "ttft_s", asked.ttft)
    decode = _options(grid, fits[1], "decode_requests_per_s", "itl_s", asked.itl)
    return DisaggregatedPools(options, ctx, prefill, decode)


def ranked(asked: ServingSearchQuestion, chips: Iterable[DisaggregatedPools], top: int) -> list[dict[str, Any]]:
    """Pairs of pools on the chips, each pool on any of them, the best first; empty when no pool can meet its limit.

    The fewest devices (or dollars) for the rate asked for, else the highest rate on the devices given, or per device. Each pool has
    the `roofline estimate` command of one of its instances.
    """
    every = list(chips)
    found = [
        _priced(pair, one, other)
        for one in every
        for other in every
        for p in one.prefill
        for d in other.decode
        if (pair := _pair(asked, p, d)) is not None
    ]
    found.sort(key=lambda pair: _key(asked, pair, len(every) > 1))
    rows = [_alone(pair) for pair in found[:top]]
    for pair in rows:
        pair["apart"] = _sentence(pair)
        for phase in SIDES:
            options = pair["sides"][phase].options
            pair[phase] |= {
                "chip": options["hw"],
                "estimate": estimate_command(options, _command(pair[phase]), True, (phase,)),
            }
    return [{k: v for k, v in pair.items() if k != "sides"} for pair in rows]


def _alone(pair: dict[str, Any]) -> dict[str, Any]:
    """The pair with the numbers that its commands print: one of an array may differ from a scalar's in the last digit."""
    halves = list[Option]()
    for phase, side in pair["sides"].items():
        option = pair[phase]
        sizes: dict[str, Any] = {axis: float(option["layout"][axis]) for axis in ("tp", "pp", "dp", "ep")}
        asks = replace(side.ctx.request, phases=(phase,), batch=option["batch"], devices=option["devices"], **sizes)
        found = estimate(asks)
        tokens = found.workload.prompt if phase == "prefill" else found.workload.output
        rate = float(capacity.request_rate(found.phases[phase].tokens_per_s, tokens))
        halves.append({**option, "rate": rate, LATENCY[phase]: float(found.phases[phase].time_s)})
    prefill, decode = halves
    return _priced(_joined(prefill, decode, prefill["instances"], decode["instances"]), *pair["sides"].values())


def _key(asked: ServingSearchQuestion, pair: dict[str, Any], several: bool) -> tuple[float, ...]:
    """What a smaller one of is better: what the objective says, else devices; devices of several chips are alike in dollars only."""
    first = asked.objectives[0].quantity.rpartition(".")[2]
    usd, devices = pair["usd_per_hour"], pair["devices"]
    paid = first == COST["decode"] or several
    bill = usd if paid and usd is not None else float("inf") if paid and first == COST["decode"] else devices
    return (bill if asked.qps is not None else bill / pair["requests_per_s"], devices)


def _priced(pair: dict[str, Any], one: DisaggregatedPools, other: DisaggregatedPools) -> dict[str, Any]:
    """The pair with what both pools cost and draw, where prices and powers are known."""
    sides = (("prefill", one), ("decode", other))
    devices = {phase: pair[phase]["instances"] * pair[phase]["devices"] for phase, _ in sides}
    tokens = pair["requests_per_s"] * float(one.ctx.output)
    prices, watts = [side.ctx.price for _, side in sides], [side.ctx.chip.power for _, side in sides]
    hourly = (
        sum(
            float(cost.fleet_price(devices[phase], price))
            for (phase, _), price in zip(sides, prices, strict=True)
            if price is not None
        )
        if None not in prices
        else None
    )
    found: dict[str, Any] = {
        **pair,
        "usd_per_hour": hourly,
        "sides": {"prefill": one, "decode": other},
    }
    if hourly is not None:
        found[COST["decode"]] = float(cost.usd_per_million_tokens(hourly, tokens, one.ctx.utilization))
    if None not in watts:
        each = (
            capacity.joules_per_token(devices[phase], w, tokens)
            for (phase, _), w in zip(sides, watts, strict=True)
            if w is not None
        )
        found["joules_per_token"] = float(sum(each))
    return found


def _command(option: Option) -> str:
    """The `roofline estimate` options of one instance."""
    layout = option["layout"]
    ep = f" --ep {layout['ep']}" if layout["ep"] > 1 else ""
    return f"-n {option['devices']:g} --tp {layout['tp']} --pp {layout['pp']} --dp {layout['dp']}{ep} --batch {option['batch']:g}"


def _options(
    grid: instances.InstanceGrid, fits: np.ndarray, rate: str, latency: str, limit: float | None
) -> list[Option]:
    """The fastest instance of every size that meets the limit and is not beaten by a smaller one."""
    ok = fits & (grid.serve[latency] <= (np.inf if limit is None else limit))
    rates = np.where(ok, grid.serve[rate], -1.0)
    found: dict[float, Option] = {}
    for i, layout in enumerate(grid.layouts):
        j = int(np.argmax(rates[i]))
        size = float(grid.serve["instance_devices"][i, j])
        if rates[i, j] > found.get(size, {"rate": 0.0})["rate"]:
            found[size] = {
                "layout": layout,
                "batch": float(grid.batches[j]),
                "devices": size,
                "rate": float(rates[i, j]),
                latency: float(grid.serve[latency][i, j]),
            }
    return list(found.values())


def _pair(asked: ServingSearchQuestion, p: Option, d: Option) -> dict[str, Any] | None:
    """How many instances of each, or None when they do not fit on the devices."""
    if asked.qps is not None:
        a, b = (float(capacity.instances_for_rate(asked.qps, o["rate"])) for o in (p, d))
        devices = a * p["devices"] + b * d["devices"]
        return None if asked.devices is not None and devices > asked.devices else _joined(p, d, a, b)
    budget = asked.devices or MOST
    counts = np.arange(1.0, budget // p["devices"] + 1)
    others = capacity.whole_instances(budget - counts * p["devices"], d["devices"])
    counts, others = counts[others >= 1], others[others >= 1]
    if not len(counts):
        return None
    if asked.devices is None:  # the fewest instances whose rate per device is within 1 % of the best ratio
        needed = capacity.instances_for_rate(counts * p["rate"], d["rate"])
        devices = counts * p["devices"] + needed * d["devices"]
        per = np.where(devices <= budget, capacity.pooled_rate(counts, p["rate"], needed, d["rate"]) / devices, 0.0)
        i = int(np.argmax(per >= 0.99 * per.max()))
        return _joined(p, d, float(counts[i]), float(needed[i]))
    i = int(np.argmax(capacity.pooled_rate(counts, p["rate"], others, d["rate"])))
    return _joined(p, d, float(counts[i]), float(others[i]))


def _joined(p: Option, d: Option, a: float, b: float) -> dict[str, Any]:
    rate = float(capacity.pooled_rate(a, p["rate"], b, d["rate"]))
    return {
        "prefill": {**p, "instances": a},
        "decode": {**d, "instances": b},
        "devices": a * p["devices"] + b * d["devices"],
        "requests_per_s": rate,
    }


def _sentence(chosen: dict[str, Any]) -> str:
    p, d = chosen["prefill"], chosen["decode"]
    chips = {phase: side.options["hw"] for phase, side in chosen["sides"].items()}
    on = {phase: f" of {chip}" if len(set(chips.values())) > 1 else "" for phase, chip in chips.items()}
    name = [" ".join(f"{k}{v}" for k, v in o["layout"].items() if v > 1) or "one device" for o in (p, d)]
    usd = f", ${chosen[COST['decode']]:.3g} per million output tokens" if COST["decode"] in chosen else ""
    return (
        f"{p['instances']:g} x {name[0]}{on['prefill']} for prefill ({1e3 * p['ttft_s']:.3g} ms), {d['instances']:g} x {name[1]}{on['decode']} "
        f"at batch {d['batch']:g} for decode ({1e3 * d['itl_s']:.3g} ms): {chosen['devices']:g} devices carry "
        f"{chosen['requests_per_s']:.3g} requests/s{usd}"
    )
