"""Fits of given constants, and the constants of a fit."""

from __future__ import annotations

import math

from rooflinecli.measure.fit import Constants, Fit


def fit_of(dtype: str, c: Constants, median: float = 0.05, roofline: float = 0.3) -> Fit:
    """A fit of matmuls to 20 shapes, ten held out."""
    return Fit(
        regime="kernel",
        kind="matmul",
        dtype=dtype,
        compute_flops_per_s=c.compute,
        memory_bytes_per_s=c.memory,
        overhead_s=c.overhead,
        p=None if math.isinf(c.p) else c.p,
        k0=c.k0,
        tau_s=c.tau,
        shapes_fitted=20,
        shapes_held_out=10,
        held_out_median=median,
        held_out_p90=2 * median,
        roofline_median=roofline,
        worse_than_roofline=not median <= roofline,
        error=0.08,
        groups={},
    )


def constants_of(f: Fit) -> Constants:
    p = math.inf if f.p is None else f.p
    return Constants(f.compute_flops_per_s, f.memory_bytes_per_s, f.overhead_s, p, f.k0, f.tau_s)
