"""Refitting the constants of a class on half of the shapes: anyone can check that what ships was not tuned to what is shown.

Per chip a few constants are free (FREE); what a class shares over all chips (exponents, filling, k-loop latency) is taken
from the chip's file. Loss: soft-L1 of the logarithm of predicted over measured; search: Nelder and Mead 1965.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rooflinecli.price.chip import Chip
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.validate import aiconfigurator_tables
from rooflinecli.validate.kernels import Kernels
from rooflinecli.validate.stats import Array

MICRO = 1e-6
# class -> constant -> (least, most); fractions may not exceed 1
_F, _US = (0.05, 1.0), (0.05 * MICRO, 80 * MICRO)
_ITEM = (1e-10, 3e-7)
FREE: dict[str, dict[str, tuple[float, float]]] = {
    "matmul bf16": {"compute": _F, "memory": _F, "overhead": _US},
    "matmul fp8": {"compute": _F, "memory": _F, "overhead": _US, "quant_memory": _F},
    "matmul fp4": {"compute": _F, "memory": _F, "overhead": _US, "quant_memory": _F},
    "prefill attention": {"compute": _F, "memory": _F, "overhead": _US, "per_item": _ITEM},
    "decode attention": {"memory": _F, "overhead": _US, "per_item": _ITEM},
    "latent attention of prompts": {"compute": _F, "overhead": _US, "per_item": _ITEM},
    "latent attention": {"compute": _F, "memory": _F, "overhead": _US, "per_item": _ITEM, "tau": (1e-13, 1e-8)},
}
ROWS = 3000
STARTS = (0.0, 1.0, -1.0)


def fit(rows: list[Kernels]) -> dict[str, float]:
    """Constants that fit the fitted half of these rows (one chip, or several for shared constants)."""
    bounds = FREE[rows[0].name]
    masks = [_sample(k) for k in rows]

    def loss(point: Array) -> float:
        total = 0.0
        for k, mask in zip(rows, masks, strict=True):
            p = k.points("", mask, with_constants(k, _values(point, bounds)))
            ratio = np.log(p.expected / p.measured)
            total += float((k.weight[mask] * (np.sqrt(1 + (ratio / 0.1) ** 2) - 1)).sum() / k.weight[mask].sum())
        return total

    best = min((minimize(loss, start * np.ones(len(bounds))) for start in STARTS), key=loss)
    return _values(minimize(loss, best), bounds)


def with_constants(k: Kernels, constants: dict[str, float]) -> Chip:
    """The chip with these constants in place of its own."""
    kind = k.ops[0].kind
    spec = load_hardware(aiconfigurator_tables.CHIPS[k.chip])
    tied = {"quant_memory": constants["memory"]} if kind == "prefill_attention" and "memory" in constants else {}
    return Chip(spec, override={f"efficiency.{kind}.{name}": value for name, value in {**constants, **tied}.items()})


def _sample(k: Kernels) -> Array:
    """The fitted half, without rows that physics forbids, at most ROWS of it (every n-th)."""
    possible = k.points("", np.ones(len(k.measured), dtype=bool)).possible()
    chosen = np.flatnonzero(k.fitted & possible & (k.weight > 0))
    return chosen[:: max(1, len(chosen) // ROWS)]


def _values(point: Array, bounds: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """A point of the whole real space -> constants inside their bounds (logistic in the logarithm)."""
    result = {}
    for x, (name, (low, high)) in zip(point, bounds.items(), strict=True):
        share = 1 / (1 + np.exp(-np.clip(x, -30, 30)))
        result[name] = float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))
    return result


def minimize(loss: Callable[[Array], float], start: Array, steps: int = 400) -> Array:
    """Nelder-Mead: reflect, expand, contract or shrink a simplex."""
    size = len(start)
    simplex = [start, *(start + 1.5 * np.eye(size)[i] for i in range(size))]
    values = [loss(x) for x in simplex]
    for _ in range(steps):
        order = np.argsort(values)
        simplex, values = [simplex[i] for i in order], [values[i] for i in order]
        if values[-1] - values[0] < 1e-7:
            break
        centre = np.mean(simplex[:-1], axis=0)
        candidate = centre + (centre - simplex[-1])
        value = loss(candidate)
        if value < values[0]:
            further = centre + 2 * (centre - simplex[-1])
            candidate, value = min(((candidate, value), (further, loss(further))), key=lambda pair: pair[1])
        elif value >= values[-2]:
            candidate = centre + 0.5 * (simplex[-1] - centre)
            value = loss(candidate)
            if value >= values[-1]:
                simplex = [simplex[0] + 0.5 * (x - simplex[0]) for x in simplex]
                values = [loss(x) for x in simplex]
                continue
        simplex[-1], values[-1] = candidate, value
    return simplex[int(np.argmin(values))]
