"""Measured kernels of the wheel as operations, priced by the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from rooflinecli.core.num import INF
from rooflinecli.formulas import attention, counts, roofline
from rooflinecli.layers.attention.mla import HEADS as LATENT_HEADS
from rooflinecli.layers.softmax import TILE
from rooflinecli.ledger.ops import Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.validate import aiconfigurator_tables
from rooflinecli.validate.shapes import even, like_models
from rooflinecli.validate.stats import Array, Points, half

LIBRARIES = ("trtllm", "vllm", "sglang")
CLASSES = (
    "matmul bf16",
    "matmul fp8",
    "matmul fp4",
    "prefill attention",
    "decode attention",
    "latent attention",
    "latent attention of prompts",
)
# rows whose times no form here explains, with the reason given in the notes of the table
UNUSABLE = {
    ("decode attention", "a100_sxm", "trtllm"),
    ("latent attention", "a100_sxm", "trtllm"),
    ("latent attention", "l40s", "trtllm"),
    ("latent attention", "rtx_pro_6000_server", "trtllm"),
}
L2 = {
    "a100_sxm": 40e6,
    "h100_sxm": 50e6,
    "h200_sxm": 50e6,
    "b200_sxm": 126e6,
    "gb200": 126e6,
    "b300_sxm": 126e6,
    "gb300": 126e6,
    "l40s": 96e6,
    "rtx_pro_6000_server": 128e6,
}


@dataclass
class Kernels:
    """Measured rows of one class on one chip under one library. `ops` make up one measurement.

    `core` marks the shapes of models; `scored` the rows of the tables: decode attention on a cache that fits into L2 is left out,
    because the collector replays the same cache and a decode step does not.
    """

    name: str
    chip: str
    library: str
    version: str
    ops: list[Op]
    measured: Array
    fitted: Array
    core: Array
    weight: Array
    scored: Array

    def points(self, group: str, mask: Array, chip: Chip | None = None) -> Points:
        """Predictions for the rows of `mask` with the constants of `chip` (the shipped ones when omitted)."""
        chip = chip or Chip(load_hardware(aiconfigurator_tables.CHIPS[self.chip]))
        total: Any = 0.0
        floor: Any = 0.0
        error = 0.0
        for op in self.ops:
            variant = op.variant or f"{op.dtype if op.kind == 'matmul' else 'any'}@{self.library}"
            priced = price(op._replace(variant=variant), chip, "kernel")
            total = total + priced.expected
            floor = floor + roofline.floor_time(priced.t_compute, priced.t_memory)
            error = max(error, priced.error)
        high = roofline.interval_high(total, error)
        low = roofline.interval_low(total, error, floor)
        total, floor, low, high = (np.broadcast_to(x, self.measured.shape)[mask] for x in (total, floor, low, high))
        return Points(group, self.measured[mask], total, floor, low, high)


def _table(chip: str, folder: str, library: str, file: str, values: dict[str, str]) -> tuple[Any, Any] | None:
    """A table of the wheel and the mask of its timed rows whose columns have these values; None where there is none."""
    table = aiconfigurator_tables.columns(chip, folder, library, file)
    if table is None:
        return None
    keep = table["latency"] > 0
    for name, value in values.items():
        keep &= table[name] == value
    return table, keep


def _medians(table: Any, keep: Array, columns: list[Any]) -> tuple[list[Array], Array]:
    """Distinct shapes of the kept rows (columns by name or as arrays), and their median seconds."""
    arrays = [table[column] if isinstance(column, str) else column for column in columns]
    return aiconfigurator_tables.median_rows([array[keep] for array in arrays], table["latency"][keep] * 1e-3)


BF16_CACHE = {"kv_cache_dtype": "bfloat16"}


def _matmul(name: str, chip: str, library: str) -> Kernels | None:
    dtype = name.split()[1]
    written, x = {"bf16": ("bfloat16", 2.0), "fp8": ("fp8", 1.0), "fp4": ("nvfp4", 4.5 / 8)}[dtype]
    found = _table(chip, "gemm", library, "gemm_perf.parquet", {"gemm_dtype": written})
    if found is None or dtype not in load_hardware(aiconfigurator_tables.CHIPS[chip]).peak:
        return None
    table, keep = found
    keep &= (table["n"] >= 512) & (table["k"] >= 512)
    if not keep.any():
        return None
    (m, n, k), seconds = _medians(table, keep, ["m", "n", "k"])
    op = Op(
        name="matmul",
        kind="matmul",
        dtype=dtype,
        flops=counts.matmul_flops(m, k, n),
        bytes=counts.matmul_bytes(m, k, n, x, x, 2.0),
        k=k,
        n=n,
        quantised=m * k,
        ramp=1 / k,
    )
    like = like_models(n, k)
    return Kernels(name, chip, library, str(table["version"]), [op], seconds, half(m, n, k), like, even(m, like), m > 0)


def _attention(name: str, chip: str, library: str) -> Kernels | None:
    decode = name == "decode attention"
    file = "generation_attention_perf.parquet" if decode else "context_attention_perf.parquet"
    found = _table(chip, "attention", library, file, {"attn_dtype": "bfloat16", **BF16_CACHE})
    if found is None:
        return None
    table, keep = found
    keep &= table["head_dim"] <= 128
    if not decode:
        keep &= (table["step"] == 0) & (table["isl"] >= 64)
    kv = np.where(table["num_key_value_heads"] == 0, table["num_heads"], table["num_key_value_heads"])
    length = table["isl"] + table["step"] if decode else table["isl"]
    keys = ["batch_size", length, "num_heads", kv, "head_dim", table.get("window_size", 0 * length)]
    (b, s, h, g, d, w), seconds = _medians(table, keep, keys)
    window = np.where(w == 0, INF, w)
    if decode:
        keys = attention.visible_keys(s, window)
        op = Op(
            name="attention",
            kind="decode_attention",
            dtype="bf16",
            flops=attention.attention_core_flops(b, h, keys, d, d),
            bytes=counts.bytes_of(b * keys * 2 * g * d, 2.0) + counts.bytes_of(b * h * 2 * d, 2.0),
            k=keys,
            n=d,
            items=b * g,
        )
        cached = b * np.minimum(s, window) * g * d * 4
        core = scored = cached > 1.5 * L2[chip]
        weight = np.where(core, 3.0, np.where(cached < 0.1 * L2[chip], 1.0, 0.0))
    else:
        op = _prefill_op(b, s, h, (g, d, d), window, d)
        core = (d == 128) & (w == 0) & (s >= 256) & np.isin(h, [4, 8, 16, 32, 64]) & np.isin(g, [1, 2, 4, 8])
        weight, scored = np.where(core, 2.0, 1.0), s > 0
    fitted = half(b, s, h, g, d, w)
    return Kernels(name, chip, library, str(table["version"]), [op], seconds, fitted, core, weight, scored)


def _prefill_op(
    b: Array, s: Array, h: Array, heads: tuple[Any, Any, Any], window: Array, n: Array, variant: str = ""
) -> Op:
    """Causal flash attention in bf16; `heads`: KV heads, their width in scores and in values."""
    g, d, values = heads
    pairs = attention.causal_pairs(s, window)
    return Op(
        name="attention",
        kind="prefill_attention",
        dtype="bf16",
        flops=attention.attention_core_flops(b, h, pairs, d, values),
        bytes=attention.flash_attention_bytes(b, s, s, h, g, d, values, 2.0, 2.0),
        k=np.minimum(s, window + TILE),
        n=n,
        quantised=2 * b * s * g * d,
        ramp=s / pairs,
        items=b * h * s / TILE,
        variant=variant,
    )


def _latent(name: str, chip: str, library: str) -> Kernels | None:
    """DeepSeek's multi-head latent attention in bf16: decode over latents 512 + 64 wide, prompts expanded to heads 192 wide, values 128."""
    prompts = name.endswith("prompts")
    file = "context_mla_perf.parquet" if prompts else "generation_mla_perf.parquet"
    found = _table(chip, "mla", library, file, {"mla_dtype": "bfloat16", **BF16_CACHE})
    variant = f"latent@{library}"
    constants = Chip(load_hardware(aiconfigurator_tables.CHIPS[chip]))
    if found is None or (prompts and not constants.has_constants("prefill_attention", variant)):
        return None
    table, keep = found
    if prompts:
        keep &= (table["step"] == 0) & (table["isl"] >= 64)
    length = table["isl"] if prompts else table["isl"] + table["step"]
    (b, s, h), seconds = _medians(table, keep, ["batch_size", length, "num_heads"])
    if prompts:
        op = _prefill_op(b, s, h, (h, 192.0, 128.0), INF, 160.0 + 0 * s, variant)._replace(k=s, quantised=b * s * 576)
    else:
        op = Op(
            name="attention",
            kind="latent_attention",
            dtype="bf16",
            flops=attention.attention_core_flops(b, h, s, 576.0, 512.0),
            bytes=counts.bytes_of(b * s * 576, 2.0) + counts.bytes_of(b * h * 1088, 2.0),
            k=s,
            n=544.0 + 0 * s,
            items=b * np.ceil(h / LATENT_HEADS),
        )
    every = s * b > 0
    return Kernels(
        name, chip, library, str(table["version"]), [op], seconds, half(b, s, h), every, np.ones(len(s)), every
    )


@lru_cache(maxsize=512)
def load(name: str, chip: str, library: str) -> Kernels | None:
    """Measured rows of a class, or None where there are none (or the chip's file gives no peak for the dtype)."""
    build = _matmul if name.startswith("matmul") else _latent if name.startswith("latent") else _attention
    return build(name, chip, library)


def every(names: tuple[str, ...] = CLASSES) -> Iterator[Kernels]:
    """All measured rows, class by class."""
    for name, chip, library in product(names, aiconfigurator_tables.CHIPS, LIBRARIES):
        if (name, chip, library) not in UNUSABLE and (rows := load(name, chip, library)) is not None:
            yield rows
