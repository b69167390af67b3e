"""Measured kernels as operations: which rows, under which library, counted like everything else and priced like everything else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
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
    """Measured rows of one class on one chip under one library. `ops` make up one measurement;

    `core` marks the shapes of models; `scored` what tables hold: decode attention on a cache that fits into L2 is left out,
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


def _matmul(chip: str, library: str, dtype: str) -> Kernels | None:
    table = aiconfigurator_tables.columns(chip, "gemm", library, "gemm_perf.parquet")
    if table is None:
        return None
    written = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"}[dtype]
    keep = (table["gemm_dtype"] == written) & (table["latency"] > 0) & (table["n"] >= 512) & (table["k"] >= 512)
    if not keep.any():
        return None
    (m, n, k), seconds = aiconfigurator_tables.median_rows(
        [table[c][keep] for c in ("m", "n", "k")], table["latency"][keep] * 1e-3
    )
    x = {"bf16": 2.0, "fp8": 1.0, "fp4": 4.5 / 8}[dtype]
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
    return Kernels(
        f"matmul {dtype}",
        chip,
        library,
        str(table["version"]),
        [op],
        seconds,
        half(m, n, k),
        like,
        even(m, like),
        m > 0,
    )


def _attention(chip: str, library: str, decode: bool) -> Kernels | None:
    file = "generation_attention_perf.parquet" if decode else "context_attention_perf.parquet"
    table = aiconfigurator_tables.columns(chip, "attention", library, file)
    if table is None:
        return None
    keep = (table["attn_dtype"] == "bfloat16") & (table["kv_cache_dtype"] == "bfloat16") & (table["latency"] > 0)
    keep &= table["head_dim"] <= 128
    if not decode:
        keep &= (table["step"] == 0) & (table["isl"] >= 64)
    kv = np.where(table["num_key_value_heads"] == 0, table["num_heads"], table["num_key_value_heads"])
    length = table["isl"] + table["step"] if decode else table["isl"]
    keys = [
        table["batch_size"],
        length,
        table["num_heads"],
        kv,
        table["head_dim"],
        table.get("window_size", 0 * length),
    ]
    (b, s, h, g, d, w), seconds = aiconfigurator_tables.median_rows(
        [c[keep] for c in keys], table["latency"][keep] * 1e-3
    )
    window = np.where(w == 0, INF, w)
    fitted = half(b, s, h, g, d, w)
    if decode:
        op = _decode_op(b, s, h, g, d, window)
        cached = b * np.minimum(s, window) * g * d * 4
        core = scored = cached > 1.5 * L2[chip]
        weight = np.where(core, 3.0, np.where(cached < 0.1 * L2[chip], 1.0, 0.0))
    else:
        op = _prefill_op(b, s, h, g, d, window)
        core = (d == 128) & (w == 0) & (s >= 256) & np.isin(h, [4, 8, 16, 32, 64]) & np.isin(g, [1, 2, 4, 8])
        weight, scored = np.where(core, 2.0, 1.0), s > 0
    return Kernels(
        "decode attention" if decode else "prefill attention",
        chip,
        library,
        str(table["version"]),
        [op],
        seconds,
        fitted,
        core,
        weight,
        scored,
    )


def _prefill_op(b: Array, s: Array, h: Array, g: Array, d: Array, window: Array) -> Op:
    pairs = attention.causal_pairs(s, window)
    flops = attention.attention_core_flops(b, h, pairs, d, d)
    moved = attention.flash_attention_bytes(b, s, s, h, g, d, d, 2.0, 2.0)
    return Op(
        name="attention",
        kind="prefill_attention",
        dtype="bf16",
        flops=flops,
        bytes=moved,
        k=np.minimum(s, window + TILE),
        n=d,
        quantised=2 * b * s * g * d,
        ramp=s / pairs,
        items=b * h * s / TILE,
    )


def _decode_op(b: Array, s: Array, h: Array, g: Array, d: Array, window: Array) -> Op:
    keys = attention.visible_keys(s, window)
    moved = counts.bytes_of(b * keys * 2 * g * d, 2.0) + counts.bytes_of(b * h * 2 * d, 2.0)
    return Op(
        name="attention",
        kind="decode_attention",
        dtype="bf16",
        flops=attention.attention_core_flops(b, h, keys, d, d),
        bytes=moved,
        k=keys,
        n=d,
        items=b * g,
    )


def _latent(chip: str, library: str) -> Kernels | None:
    """DeepSeek's latent attention in decode: 512 + 64 wide latents in bf16."""
    table = aiconfigurator_tables.columns(chip, "mla", library, "generation_mla_perf.parquet")
    if table is None:
        return None
    keep = (table["mla_dtype"] == "bfloat16") & (table["kv_cache_dtype"] == "bfloat16") & (table["latency"] > 0)
    (b, s, h), seconds = aiconfigurator_tables.median_rows(
        [c[keep] for c in (table["batch_size"], table["isl"] + table["step"], table["num_heads"])],
        table["latency"][keep] * 1e-3,
    )
    flops = attention.attention_core_flops(b, h, s, 576.0, 512.0)
    moved = counts.bytes_of(b * s * 576, 2.0) + counts.bytes_of(b * h * 1088, 2.0)
    op = Op(
        name="attention",
        kind="latent_attention",
        dtype="bf16",
        flops=flops,
        bytes=moved,
        k=s,
        n=544.0 + 0 * s,
        items=b * np.ceil(h / LATENT_HEADS),
    )
    return Kernels(
        "latent attention",
        chip,
        library,
        str(table["version"]),
        [op],
        seconds,
        half(b, s, h),
        s * b > 0,
        np.ones(len(s)),
        s * b > 0,
    )


def _latent_prompts(chip: str, library: str) -> Kernels | None:
    """Latent attention over prompts, priced as heads 192 wide against values 128 wide, in bf16."""
    table = aiconfigurator_tables.columns(chip, "mla", library, "context_mla_perf.parquet")
    if table is None or not Chip(load_hardware(aiconfigurator_tables.CHIPS[chip])).has_constants(
        "prefill_attention", f"latent@{library}"
    ):
        return None
    keep = (table["mla_dtype"] == "bfloat16") & (table["kv_cache_dtype"] == "bfloat16") & (table["latency"] > 0)
    keep &= (table["step"] == 0) & (table["isl"] >= 64)
    columns = [table[c][keep] for c in ("batch_size", "isl", "num_heads")]
    (b, s, h), seconds = aiconfigurator_tables.median_rows(columns, table["latency"][keep] * 1e-3)
    pairs = attention.causal_pairs(s, INF)
    op = Op(
        name="attention",
        kind="prefill_attention",
        dtype="bf16",
        flops=attention.attention_core_flops(b, h, pairs, 192.0, 128.0),
        bytes=attention.flash_attention_bytes(b, s, s, h, h, 192.0, 128.0, 2.0, 2.0),
        k=s,
        n=160.0 + 0 * s,
        quantised=b * s * 576,
        ramp=s / pairs,
        items=b * h * s / TILE,
        variant=f"latent@{library}",
    )
    every = s > 0
    return Kernels(
        "latent attention of prompts",
        chip,
        library,
        str(table["version"]),
        [op],
        seconds,
        half(b, s, h),
        every,
        np.ones(len(s)),
        every,
    )


@lru_cache(maxsize=512)
def load(name: str, chip: str, library: str) -> Kernels | None:
    """Measured rows of a class, or None where there are none (or the chip's file gives no peak for the dtype)."""
    if name.startswith("matmul"):
        dtype = name.split()[1]
        return _matmul(chip, library, dtype) if dtype in load_hardware(aiconfigurator_tables.CHIPS[chip]).peak else None
    if name.endswith("prompts"):
        return _latent_prompts(chip, library)
    if name.endswith("attention") and not name.startswith("latent"):
        return _attention(chip, library, name.startswith("decode"))
    return _latent(chip, library)


def every(names: tuple[str, ...] = CLASSES) -> Iterator[Kernels]:
    """All measured rows, class by class."""
    for name in names:
        for chip in aiconfigurator_tables.CHIPS:
            for library in LIBRARIES:
                if (name, chip, library) in UNUSABLE:
                    continue
                found: Any = load(name, chip, library)
                if found is not None:
                    yield found
