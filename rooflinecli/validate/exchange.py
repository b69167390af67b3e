"""Measured all-to-alls of experts (DeepEP, NVLink) and custom all-reduces of the wheel: half of the shapes held out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from rooflinecli.formulas import roofline
from rooflinecli.ledger.ops import ExpertAllToAll
from rooflinecli.parallel.expert import SCALED_FP8
from rooflinecli.price import custom_all_reduce
from rooflinecli.price.chip import Chip
from rooflinecli.price.moe_all2all import price_exchange
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.validate import aiconfigurator_tables
from rooflinecli.validate.stats import Array, Points, half

PHASES = ("dispatch", "combine")
RANKS = {"gb200": 4.0, "gb300": 4.0}  # of one host in SGLang's tables
SMS = 20  # of DeepEP's normal kernels: the setting that the constants are for
UNUSABLE_NODES = 8  # normal mode on so many: transmit and notify trade places
COPIED = "h200_sxm"  # whose several-node files are H100's numbers again
SGLANG = {"deepep-low-latency": "wideep_deepep_ll_perf.parquet", "deepep": "wideep_deepep_normal_perf.parquet"}
VLLM = {"deepep-low-latency": "deepep_ll", "deepep": "deepep_ht"}
NVLINK = {"nvlink": "NVLinkTwoSided", "nvlink-one-sided": "NVLinkOneSided"}
SENT = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 4.5 / 8}
LIBRARIES = ("trtllm", "vllm", "sglang")
VERSIONS = 4
_KEYS = ("num_token", "num_topk", "hidden_size")


@lru_cache(maxsize=1)
def _chips() -> dict[str, Chip]:
    return {name: Chip(load_hardware(ours)) for name, ours in aiconfigurator_tables.CHIPS.items()}


def exchanges() -> Iterator[Points]:
    """Rows not fitted, a group per chip, kernels, phase and number of nodes."""
    for chip in aiconfigurator_tables.CHIPS:
        for phase in PHASES:
            yield from _sglang(chip, phase)
            yield from _vllm(chip, phase)
            yield from _nvlink(chip, phase)


def _sglang(chip: str, phase: str) -> Iterator[Points]:
    """One host from the newest file; several from the older one that has them."""
    for mode, file in SGLANG.items():
        for behind in range(VERSIONS):
            table = aiconfigurator_tables.columns(chip, "comm", "sglang", file, behind)
            if table is None:
                break
            for nodes in np.unique(table["node_num"]):
                several = bool(nodes > 1)
                if several == (behind == 0) or (several and chip == COPIED):
                    continue
                if mode == "deepep" and nodes >= UNUSABLE_NODES:
                    continue
                keep = table["node_num"] == nodes
                if mode == "deepep":
                    keep &= table[f"{phase}_sms"] == SMS
                    times = table[f"{phase}_transmit_us"] + table[f"{phase}_notify_us"]
                else:
                    times = table[f"{phase}_avg_t_us"]
                if keep.any():
                    shapes, seconds = aiconfigurator_tables.median_rows(
                        [table[c][keep] for c in _KEYS], times[keep] * 1e-6
                    )
                    n = RANKS.get(chip, 8.0) * float(nodes)
                    yield _points(
                        chip, mode, phase, (*shapes, n + 0 * seconds), seconds, "", f", {nodes} nodes" * several
                    )


def _vllm(chip: str, phase: str) -> Iterator[Points]:
    table = aiconfigurator_tables.columns(chip, "comm", "vllm", "moe_a2a_perf.parquet")
    for mode, name in VLLM.items() if table is not None else ():
        keep = (table["comm_backend"] == name) & (table["phase"] == phase)  # type: ignore[index]
        if keep.any():
            columns = [table[c][keep] for c in ("num_tokens", "topk", "hidden_size", "ep_size")]  # type: ignore[index]
            shapes, seconds = aiconfigurator_tables.median_rows(columns, table["latency"][keep] * 1e-6)  # type: ignore[index]
            yield _points(chip, mode, phase, tuple(shapes), seconds, "vllm", " (vLLM)")


def _nvlink(chip: str, phase: str) -> Iterator[Points]:
    table = aiconfigurator_tables.columns(chip, "comm", "trtllm", "trtllm_alltoall_perf.parquet")
    for mode, name in NVLINK.items() if table is not None else ():
        for written, size in SENT.items():
            keep = (table["kernel_source"] == name) & (table["moe_dtype"] == written)  # type: ignore[index]
            keep &= table["op_name"] == f"alltoall_{phase}"  # type: ignore[index]
            if keep.any():
                columns = [table[c][keep] for c in ("num_tokens", "topk", "hidden_size", "moe_ep_size")]  # type: ignore[index]
                shapes, seconds = aiconfigurator_tables.median_rows(columns, table["latency"][keep] * 1e-3)  # type: ignore[index]
                yield _points(chip, mode, phase, tuple(shapes), seconds, "", "", size)


def _points(
    chip: str,
    mode: str,
    phase: str,
    shapes: tuple[Array, ...],
    seconds: Array,
    variant: str,
    what: str,
    size: float = SCALED_FP8,
) -> Points:
    """Held-out rows of one table; `size` is what a value takes on the way out, results come back in 16 bits."""
    tokens, top_k, d, n = shapes
    held = ~half(tokens, top_k, d, n)
    e = ExpertAllToAll(
        mode, mode, phase, tokens, top_k, d, size if phase == "dispatch" else 2.0, "ep", n, 1.0, variant=variant
    )
    return _against(
        f"{aiconfigurator_tables.CHIPS[chip]} {mode} {phase}{what}", price_exchange(e, _chips()[chip]), seconds, held
    )


def all_reduces() -> Iterator[Points]:
    """Rows not fitted of custom all-reduces under CUDA graphs, a group per chip and library."""
    for chip in aiconfigurator_tables.CHIPS:
        for library in LIBRARIES:
            table = aiconfigurator_tables.columns(chip, "comm", library, "custom_allreduce_perf.parquet")
            if table is None or not custom_all_reduce.is_benchmarked(_chips()[chip], library):
                continue
            keep = (table["latency"] > 0) & (table["num_gpus"] <= custom_all_reduce.MOST)
            if "backend" in table:
                keep &= np.char.find(table["backend"].astype(str), "eager") < 0
            columns = [table["num_gpus"][keep], table["message_size"][keep]]
            (n, elements), seconds = aiconfigurator_tables.median_rows(columns, table["latency"][keep] * 1e-3)
            priced = custom_all_reduce.all_reduce(2 * elements, n, _chips()[chip], library)
            yield _against(f"{aiconfigurator_tables.CHIPS[chip]} {library}", priced, seconds, ~half(n, elements))


def _against(group: str, priced: Any, seconds: Array, held: Array) -> Points:
    low = roofline.interval_low(priced.expected, priced.error, priced.floor)
    high = roofline.interval_high(priced.expected, priced.error)
    expected, floor, low, high = (
        np.broadcast_to(x, seconds.shape)[held] for x in (priced.expected, priced.floor, low, high)
    )
    return Points(group, seconds[held], expected, floor, low, high)
