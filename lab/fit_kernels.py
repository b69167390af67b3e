"""Refit of the constants of a kernel class on half of the shapes; the other half, and each chip left out, are shown.

Per chip a few constants are free (FREE); what a class shares over all chips (exponents, filling, k-loop latency) is taken from the
chip's file. `python -m lab.fit_kernels`, with the extra `validate`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lab.fit import Array, Constant, Values, fit
from lab.show import show
from rooflinecli.price.chip import Chip
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.validate import aiconfigurator_tables, kernels
from rooflinecli.validate.kernels import Kernels
from rooflinecli.validate.stats import Table, summary

MICRO = 1e-6
FRACTION, OVERHEAD, ITEM = Constant(0.05, 1.0), Constant(0.05 * MICRO, 80 * MICRO), Constant(1e-10, 3e-7)
FREE: dict[str, dict[str, Constant]] = {
    "matmul bf16": {"compute": FRACTION, "memory": FRACTION, "overhead": OVERHEAD},
    "matmul fp8": {"compute": FRACTION, "memory": FRACTION, "overhead": OVERHEAD, "quant_memory": FRACTION},
    "matmul fp4": {"compute": FRACTION, "memory": FRACTION, "overhead": OVERHEAD, "quant_memory": FRACTION},
    "prefill attention": {"compute": FRACTION, "memory": FRACTION, "overhead": OVERHEAD, "per_item": ITEM},
    "decode attention": {"memory": FRACTION, "overhead": OVERHEAD, "per_item": ITEM},
    "latent attention of prompts": {"compute": FRACTION, "overhead": OVERHEAD, "per_item": ITEM},
    "latent attention": {
        "compute": FRACTION,
        "memory": FRACTION,
        "overhead": OVERHEAD,
        "per_item": ITEM,
        "tau": Constant(1e-13, 1e-8),
    },
}
ROWS = 3000  # of a chip and class at most


def weights(k: Kernels) -> Array:
    """How much each row counts: of matmuls short, middle and long inputs the same and model-like shapes twice, of prefill common heads twice,
    of decode caches that L2 holds little or nothing."""
    if k.op.kind == "matmul":
        m = k.op.quantized / k.op.k
        band = np.where(m <= 64, 0, np.where(m <= 1024, 1, 2))
        return np.where(k.core, 2.0, 1.0) / np.maximum(np.bincount(band, minlength=3)[band], 1)
    if k.op.kind == "decode_attention":
        return np.where(k.core, 3.0, np.where(kernels.cached_bytes(k.op) < 0.1 * kernels.l2(k.chip), 1.0, 0.0))
    return np.where(k.core, 2.0, 1.0) if k.name == "prefill attention" else np.ones(len(k.measured))


def fitted(k: Kernels) -> Values:
    """Constants of one chip from the fitted half of its rows, without rows that physics forbids."""
    possible = k.points("", np.ones(len(k.measured), dtype=bool)).possible()
    weight = weights(k)
    chosen = np.flatnonzero(k.fitted & possible & (weight > 0))
    rows = chosen[:: max(1, len(chosen) // ROWS)]

    def residuals(values: Values) -> Array:
        p = k.points("", rows, with_constants(k, values))
        return np.log(p.expected / p.measured)

    free = FREE[k.name]
    middle = {name: np.sqrt(c.low * c.high) for name, c in free.items()}
    starts = [
        {name: middle[name] * (c.high / c.low) ** share for name, c in free.items()} for share in (0, 0.23, -0.23)
    ]
    return fit(free, residuals, weight[rows] / weight[rows].sum(), starts=starts)


def with_constants(k: Kernels, constants: Values) -> Chip:
    """The chip with these constants in place of its own."""
    kind = k.op.kind
    tied = {"quant_memory": constants["memory"]} if kind == "prefill_attention" and "memory" in constants else {}
    override = {f"efficiency.{kind}.{name}": value for name, value in {**constants, **tied}.items()}
    return Chip(load_hardware(aiconfigurator_tables.CHIPS[k.chip]), override=override)


def reference_library(name: str, chip: str) -> str:
    """The library whose kernels give a class its constants."""
    small = chip in ("l40s", "rtx_pro_6000_server")
    if name in ("decode attention", "latent attention"):
        return "sglang" if small else "vllm" if name.startswith("decode") else "trtllm"
    return "vllm" if name == "matmul bf16" and small else "trtllm"


def tables() -> list[Table]:
    """Per class and chip: errors of the refit and of the shipped constants on the half not fitted, and with the chip left out.

    Raises UsageError when the wheel with the measurements is not installed.
    """
    aiconfigurator_tables.systems()
    note = (
        "refitted and shipped: mean error on the half not fitted; left out: all rows of the chip, with the medians of the other "
        "chips' constants."
    )
    found = []
    for name in kernels.CLASSES:
        chips = [k for k in kernels.all_kernels((name,)) if k.library == reference_library(name, k.chip)]
        constants = {k.chip: fitted(k) for k in chips}
        found.append(Table(f"refit: {name}", [_row(k, constants) for k in chips], [note]))
    return found


def _row(k: Kernels, constants: dict[str, Values]) -> dict[str, Any]:
    held_out, own = ~k.fitted & k.scored, constants[k.chip]
    others = [values for chip, values in constants.items() if chip != k.chip]
    median = {key: float(np.median([values[key] for values in others])) for key in own}
    return {
        "group": f"{aiconfigurator_tables.CHIPS[k.chip]} {k.library}",
        "rows": int(held_out.sum()),
        "fitted": summary(k.points("", held_out, with_constants(k, own)))["mean"],
        "shipped": summary(k.points("", held_out))["mean"],
        "left_out": summary(k.points("", k.scored, with_constants(k, median)))["mean"],
        **{key: float(f"{value:.3g}") for key, value in own.items()},
    }


if __name__ == "__main__":
    show(tables())
