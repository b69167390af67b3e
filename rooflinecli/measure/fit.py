"""Constants from timings: asymptotic FLOP/s, byte/s, overhead and the exponent that joins them, per class and dtype.

The forms are the engine's own (formulas/roofline.py), evaluated on arrays. Three numbers are fitted by robust least
squares on log(predicted / measured), on two thirds of the shapes; the exponent (and, on accelerators, the matmul
fill and k-loop terms) is picked from a short list by the same loss. Errors are those of the held-out third.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.core.num import quantile
from rooflinecli.core.record import Record
from rooflinecli.formulas import roofline
from rooflinecli.measure.cases import Record as LogRecord
from rooflinecli.price.kernels import join

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

LEAST = 4  # shapes below which three constants mean nothing
LONG = 100e-6  # seconds; matmuls shorter than this are reported apart
SKINNY = 64
DISTURBED = 1.2  # slowdown of the reference kernel beyond which a timing reflects other programs
STREAMS = ("elementwise", "gather", "optimizer")  # no FLOPs worth counting: a bandwidth and an overhead
# (p, k0 elements, tau seconds per k): plain joins everywhere; fills and k-loop latency as fitted on NVIDIA chips
JOINS = ((1.0, 0, 0.0), (1.3, 0, 0.0), (2.0, 0, 0.0), (3.0, 0, 0.0), (math.inf, 0, 0.0))
MATMUL_JOINS = ((3.0, 64, 0.3e-9), (1.7, 64, 0.1e-9))
_SCALE = 0.1  # residuals beyond about 10 % count linearly: one slow shape does not bend the fit
_PRIOR = 0.02  # weak pull to the start, so that an unidentifiable constant stays sane


@dataclass(frozen=True)
class Constants:
    """compute FLOP/s and memory byte/s reached asymptotically; overhead s; p, k0, tau as in specs.hardware.Efficiency."""

    compute: float
    memory: float
    overhead: float
    p: float = math.inf
    k0: float = 0.0
    tau: float = 0.0


class GroupErrors(Record):
    """Errors on the held-out shapes of a group."""

    shapes: int
    median: float
    p90: float


class Fit(Record):
    """The constants of a class of kernels in one dtype, and their relative errors on held-out shapes; `error` covers 80% of them, and
    `roofline_median` is that of the bare roofline. `p` is None for a maximum."""

    regime: str
    kind: str
    dtype: str
    compute_flops_per_s: float
    memory_bytes_per_s: float
    overhead_s: float
    p: float | None
    k0: float
    tau_s: float
    shapes_fitted: int
    shapes_held_out: int
    held_out_median: float
    held_out_p90: float
    roofline_median: float
    worse_than_roofline: bool
    error: float
    groups: dict[str, GroupErrors]


def sizes_of(records: Iterable[LogRecord]) -> tuple[Array, Array, Array, Array, Array]:
    """flops, bytes, contracted width (1 where there is none), launches and measured seconds, as arrays."""
    import numpy as np

    rows = list(records)
    return (
        np.array([float(r["flops"]) for r in rows]), np.array([float(r["bytes"]) for r in rows]),
        np.array([float(r["sizes"].get("k", 1)) for r in rows]), np.array([float(r.get("launches", 1)) for r in rows]),
        np.array([float(r["time_s"]) for r in rows]),
    )  # fmt: skip


def predict(c: Constants, flops: Array, moved: Array, k: Array, launches: Array) -> Array:
    """Seconds, by the engine's formulas: rates are absolute, so their efficiency is one."""
    t_c = roofline.filled_compute_time(flops, 1 / k, c.k0, c.compute, 1.0)
    t_m = roofline.effective_memory_time(moved, c.memory, 1.0)
    return join(t_c, t_m, c, launches * roofline.matmul_overhead(c.overhead, c.tau, k))


def _solve(records: list[LogRecord], p: float, k0: float, tau: float) -> tuple[float, Constants]:
    """The robust loss and the constants of one join. Needs LEAST records."""
    import numpy as np
    from scipy.optimize import least_squares

    flops, moved, k, launches, seconds = sizes_of(records)
    start = np.log(
        [max(float(np.max(flops / seconds)), 1.0), float(np.max(moved / seconds)), 0.2 * float(np.min(seconds))]
    )

    def constants(x: Array) -> Constants:
        compute, memory, overhead = (float(v) for v in np.exp(x))
        return Constants(compute, memory, overhead, p, k0, tau)

    def residuals(x: Array) -> Array:
        return np.concatenate(
            [np.log(predict(constants(x), flops, moved, k, launches) / seconds) / _SCALE, _PRIOR * (x - start)]
        )

    wide = np.array([7.0, 7.0, 14.0])
    low, high = start - wide, start + wide
    low[2], high[2] = math.log(1e-9), math.log(float(np.min(seconds)))
    start[2] = min(max(start[2], low[2]), high[2] - 1e-6)
    found = least_squares(residuals, start, bounds=(low, high), loss="soft_l1")
    return float(found.cost), constants(found.x)


def best_records(records: Iterable[LogRecord]) -> dict[tuple[str, str, str], list[LogRecord]]:
    """Records by (regime, kind, dtype), one per shape: the quickest of XLA's own engines (XLA or the cuDNN call it offers)."""
    best: dict[tuple[str, str, str], dict[str, LogRecord]] = {}
    for r in records:
        if not r["kind"] or r["engine"] not in ("xla", "cudnn") or r["suite"] == "collectives":
            continue
        shapes = best.setdefault((r.get("regime", "kernel"), r["kind"], r["dtype"]), {})
        name = f"{r['op']}{r['sizes']}"
        if name not in shapes or r["time_s"] < shapes[name]["time_s"]:
            shapes[name] = r
    result = {}
    for group, shapes in best.items():
        # without those timed while other programs had the cores, where enough others remain
        calm = [r for r in shapes.values() if r.get("busy", 1.0) <= DISTURBED]
        result[group] = calm if len(calm) >= max(2 * LEAST, len(shapes) // 2) else list(shapes.values())
    return result


def fit_class(
    regime: str, kind: str, dtype: str, records: list[LogRecord], peak: float, bandwidth: float, platform: str
) -> Fit | None:
    """Fit one class; None when there are too few shapes. peak and bandwidth (FLOP/s, B/s) give the bare roofline."""
    seen = [r for r in records if not r["held_out"]]
    held = [r for r in records if r["held_out"]]
    if len(seen) < LEAST:
        seen, held = list(records), []  # too few to hold any out: the errors are in-sample, and n_held is 0
    if len(seen) < (2 if kind in STREAMS else LEAST):
        return None
    joins = JOINS + (MATMUL_JOINS if (regime, kind, platform == "cpu") == ("kernel", "matmul", False) else ())
    if kind in STREAMS:
        joins = ((math.inf, 0, 0.0),)
    constants = min((_solve(seen, *join) for join in joins), key=lambda found: found[0])[1]
    tested = held or seen
    off = _relative_errors(constants, tested)
    median, raw = quantile(off, 0.5), quantile(_relative_errors(Constants(peak, bandwidth, 0.0), tested), 0.5)
    named: dict[str, list[LogRecord]] = {}  # matmuls apart: long ones, skinny ones, short ones
    for r in tested:
        if r["op"] == "matmul":
            name = "skinny" if r["sizes"]["m"] <= SKINNY else "long" if r["time_s"] > LONG else "short"
            named.setdefault(name, []).append(r)
    apart = {name: _relative_errors(constants, rows) for name, rows in sorted(named.items())}
    return Fit(
        regime=regime, kind=kind, dtype=dtype, compute_flops_per_s=constants.compute, memory_bytes_per_s=constants.memory,
        overhead_s=constants.overhead, p=None if math.isinf(constants.p) else constants.p, k0=constants.k0, tau_s=constants.tau,
        shapes_fitted=len(seen), shapes_held_out=len(held), held_out_median=median, held_out_p90=quantile(off, 0.9), roofline_median=raw,
        worse_than_roofline=not median <= raw, error=quantile(off, 0.8),
        groups={n: GroupErrors(shapes=len(e), median=quantile(e, 0.5), p90=quantile(e, 0.9)) for n, e in apart.items()},
    )  # fmt: skip


def _relative_errors(c: Constants, records: list[LogRecord]) -> list[float]:
    """|predicted / measured - 1| of each record, in order."""
    *sizes, seconds = sizes_of(records)
    return sorted(float(e) for e in abs(predict(c, *sizes) / seconds - 1))


def fit_all(records: Iterable[LogRecord], peaks: dict[str, float], bandwidth: float, platform: str) -> list[Fit]:
    """Every class that has enough shapes."""
    result = []
    for (regime, kind, dtype), rows in sorted(best_records(records).items()):
        found = fit_class(regime, kind, dtype, rows, peaks.get(dtype, math.inf), bandwidth, platform)
        if found is not None:
            result.append(found)
    return result
