"""Collectives over all devices: the cases, and their fit to the engine's alpha-beta form as one network level.

`size` is the whole, unsharded tensor as in formulas/collectives.py; bus bytes are what each device sends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from rooflinecli.core.num import Number, quantile
from rooflinecli.core.units import parse
from rooflinecli.formulas import collectives as forms
from rooflinecli.measure.cases import KernelCase, Record
from rooflinecli.measure.device import Environment
from rooflinecli.measure.fit import LEAST
from rooflinecli.measure.profile import SOURCE, MeasuredPeaks
from rooflinecli.measure.timing import errors
from rooflinecli.specs.hardware import load_hardware

if TYPE_CHECKING:
    from rooflinecli.measure.fit import Array

VOLUME: dict[str, Callable[[float, float], Number]] = {
    "all-reduce": forms.all_reduce_volume, "all-gather": forms.gather_volume, "reduce-scatter": forms.gather_volume,
    "all-to-all": forms.all_to_all_volume, "permute": forms.permute_volume,
}  # fmt: skip
_NAMES = {"cpu": "between processes of the host", "gpu": "GPU interconnect", "tpu": "ICI"}


def chosen(environment: Environment, quick: bool) -> list[KernelCase]:
    """Each collective by size, over all devices; nothing on a single device."""
    if environment.devices < 2:
        return []
    top = 22 if environment.platform == "cpu" else 28 if quick else 30
    steps = range(12, top + 1, 3 if quick else 1)
    dtype, n = "fp32" if environment.platform == "cpu" else "bf16", environment.devices
    return [
        KernelCase("collectives", op, "collective", dtype, {"bytes": 2**s, "n": n}, 0.0, float(2**s))
        for op in VOLUME
        for s in steps
    ]


def bus_bytes(record: Record) -> float:
    """Bytes each device sends: size times the ring's factor."""
    return float(VOLUME[record["op"]](float(record["sizes"]["bytes"]), float(record["sizes"]["n"])))


def fit(op: str, records: list[Record], bandwidth: float) -> tuple[Record, float, float] | None:
    """Efficiency entry of one collective with held-out median and 90th percentile; None with too few sizes.

    All sizes were run on one number of devices, so base and per-hop latency cannot be separated: all of it is base.
    """
    import numpy as np
    from scipy.optimize import least_squares

    seen = [r for r in records if not r["held_out"]]
    if len(seen) < LEAST:
        seen = records  # too few to hold any back
    if len(seen) < LEAST:
        return None
    n = float(records[0]["sizes"]["n"])

    def predicted(x: Array, rows: list[Record]) -> Array:
        volume = np.array([bus_bytes(r) for r in rows])
        base, fraction, gamma = np.exp(x)
        return forms.collective_time(volume, bandwidth, fraction, base, 0.0, gamma, n)

    seconds = np.array([r["time_s"] for r in seen])
    start = np.log([max(float(seconds.min()) * 0.8, 1e-9), 0.7, 1e-7])
    bounds = (np.log([1e-9, 1e-4, 1e-12]), np.log([10.0, 1.0, 1.0]))
    found = least_squares(lambda x: np.log(predicted(x, seen) / seconds) / 0.1, start, bounds=bounds, loss="soft_l1")
    tested = [r for r in records if r["held_out"]] or seen if seen is not records else records
    off = list(predicted(found.x, tested))
    real = [r["time_s"] for r in tested]
    median, p90 = errors(off, real)
    base, fraction, gamma = (float(v) for v in np.exp(found.x))
    error = quantile(sorted(abs(p / m - 1) for p, m in zip(off, real, strict=True)), 0.8)
    entry = {
        "memory": float(f"{fraction:.4g}"), "overhead": f"{base * 1e6:.4g} us", "gamma": f"{gamma * 1e6:.4g} us", "error": round(float(error), 3),
        "source": SOURCE, "note": f"{int(n)} devices; held-out median error {median:.1%}, p90 {p90:.1%}",
    }  # fmt: skip
    return entry, median, p90


def network(records: list[Record], limits: MeasuredPeaks, environment: Environment) -> list[Record] | None:
    """The `network` section: the known chip's levels with the measured constants, or one level as measured."""
    mine = [r for r in records if r["suite"] == "collectives"]
    if not mine:
        return None
    known: list[Record] = []  # a known chip's network levels as its file has them
    if limits.extends:
        known = [dict(level) for level in load_hardware(limits.extends).document.data.get("network", [])]
    fastest_bus = max(bus_bytes(r) / r["time_s"] for r in mine)
    bandwidth = parse(known[0]["bandwidth"]["value"], "B/s") if known else fastest_bus
    bandwidth = bandwidth if math.isfinite(bandwidth) else 1.0
    fitted = {op: found[0] for op in VOLUME if (found := fit(op, [r for r in mine if r["op"] == op], bandwidth))}
    if not fitted:
        return None
    fastest = max(fitted, key=lambda op: fitted[op]["memory"])
    rate = {"value": f"{bandwidth / 1e9:.4g} GB/s", "basis": "best bus rate seen, one way", "source": SOURCE}
    described: Record = {
        "name": _NAMES.get(environment.platform, "interconnect"), "kind": "fabric" if environment.processes > 1 else "switch",
        "size": environment.devices, "bandwidth": rate,
    }  # fmt: skip
    level = known[0] if known else described
    level["efficiency"] = {**fitted, "any": fitted.get("all-gather", fitted[fastest])}
    return [level, *known[1:]]
