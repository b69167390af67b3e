"""Prefill and decode pools apart: the best instance of each, and how many of each.

Every request passes both pools, so the slower one sets the rate. For each pool only the fastest instance of every size
can be part of an optimum; pairs of those are tried with every split of the devices. The transfer of the cache between
the pools is not charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rooflinecli.answers.search import instances
from rooflinecli.engine.scene import Scene
from rooflinecli.formulas import provision

if TYPE_CHECKING:
    from rooflinecli.answers.search.asked import Asked

Option = dict[str, Any]  # layout, batch, devices and rate of one instance, and its latency
MOST = 4096


def best(scene: Scene, asked: Asked, layouts: list[dict[str, int]], batches: np.ndarray) -> dict[str, Any] | None:
    """The fewest devices for the rate asked for, or the highest rate (per device) on the devices given; None when no pool can meet its limit."""
    grid = instances.evaluate(asked.request, layouts, batches, apart=True)
    fits = [grid.legal & grid.whole(grid.phases[phase].memory.fits) for phase in ("prefill", "decode")]
    prefill = _options(grid, fits[0], "prefill_requests_per_s", "ttft_s", asked.ttft)
    decode = _options(grid, fits[1], "decode_requests_per_s", "itl_s", asked.itl)
    if not prefill or not decode:
        return None
    pairs = [found for p in prefill for d in decode if (found := _pair(asked, p, d)) is not None]
    if not pairs:
        return None
    chosen = min(pairs, key=lambda f: f["devices"] / (f["requests_per_s"] if asked.qps is None else 1.0))
    tokens = chosen["requests_per_s"] * float(scene.output)
    chosen |= {k: float(v) for k, v in instances.costs(scene, chosen["devices"], tokens).items()}
    return {**chosen, "apart": _sentence(chosen)}


def _options(grid: instances.Grid, fits: np.ndarray, rate: str, latency: str, limit: float | None) -> list[Option]:
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


def _pair(asked: Asked, p: Option, d: Option) -> dict[str, Any] | None:
    """How many instances of each, or None when they do not fit on the devices."""
    if asked.qps is not None:
        a, b = (float(provision.instances_for_rate(asked.qps, o["rate"])) for o in (p, d))
        devices = a * p["devices"] + b * d["devices"]
        return None if asked.devices is not None and devices > asked.devices else _joined(p, d, a, b)
    budget = asked.devices or MOST
    counts = np.arange(1.0, budget // p["devices"] + 1)
    others = provision.whole_instances(budget - counts * p["devices"], d["devices"])
    counts, others = counts[others >= 1], others[others >= 1]
    if not len(counts):
        return None
    if asked.devices is None:  # the fewest instances whose rate per device is within 1 % of the best ratio
        needed = provision.instances_for_rate(counts * p["rate"], d["rate"])
        devices = counts * p["devices"] + needed * d["devices"]
        per = np.where(devices <= budget, provision.pooled_rate(counts, p["rate"], needed, d["rate"]) / devices, 0.0)
        i = int(np.argmax(per >= 0.99 * per.max()))
        return _joined(p, d, float(counts[i]), float(needed[i]))
    i = int(np.argmax(provision.pooled_rate(counts, p["rate"], others, d["rate"])))
    return _joined(p, d, float(counts[i]), float(others[i]))


def _joined(p: Option, d: Option, a: float, b: float) -> dict[str, Any]:
    rate = float(provision.pooled_rate(a, p["rate"], b, d["rate"]))
    return {
        "prefill": {**p, "instances": a},
        "decode": {**d, "instances": b},
        "devices": a * p["devices"] + b * d["devices"],
        "requests_per_s": rate,
    }


def _sentence(chosen: dict[str, Any]) -> str:
    p, d = chosen["prefill"], chosen["decode"]
    name = [" ".join(f"{k}{v}" for k, v in o["layout"].items() if v > 1) or "one device" for o in (p, d)]
    usd = (
        f", ${chosen['usd_per_million_output_tokens']:.3g} per million output tokens"
        if "usd_per_million_output_tokens" in chosen
        else ""
    )
    return (
        f"{p['instances']:g} x {name[0]} for prefill ({1e3 * p['ttft_s']:.3g} ms), {d['instances']:g} x {name[1]} at batch {d['batch']:g} for decode "
        f"({1e3 * d['itl_s']:.3g} ms): {chosen['devices']:g} devices carry {chosen['requests_per_s']:.3g} requests/s{usd}"
    )
