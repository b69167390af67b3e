"""Measured communication: collectives (NCCL, nccl-tests, TPU gathers), all-to-alls of experts and custom all-reduces of engines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from rooflinecli.ledger.ops import ExpertAllToAll
from rooflinecli.parallel.expert import SCALED_FP8
from rooflinecli.price import network
from rooflinecli.price.moe_all2all import price_exchange
from rooflinecli.questions.collective.answer import along_axes, collective
from rooflinecli.questions.shard.answer import mesh as axis_sizes
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.snapshots import excluded, published
from rooflinecli.validate import aiconfigurator_tables as aiconfigurator
from rooflinecli.validate.stats import Array, Points, Row, Table, error_table, fit_half, joined, notes, score, summary

OPS = {name.replace("-", "_"): name for name in ("all-reduce", "all-gather", "reduce-scatter")} | {
    "alltoall": "all-to-all"
}
PCIE = ("l40s", "rtx_pro_6000_server")


def aiconfigurator_rows() -> Iterator[Row]:
    """aiconfigurator's NCCL timings in 16 bits (sizes there count elements), one row per chip, operation, size and group, as published rows are."""
    for (chip, ours), (op, name) in product(aiconfigurator.CHIPS.items(), OPS.items()):
        table = aiconfigurator.columns(chip, "comm", "nccl", "nccl_perf.parquet")
        if table is None:
            continue
        keep = (table["op_name"] == op) & (table["nccl_dtype"] == "half") & (table["latency"] > 0)
        sizes, groups = 2 * table["message_size"][keep], table["num_gpus"][keep]
        (size, n), seconds = aiconfigurator.median_rows([sizes, groups], table["latency"][keep] * 1e-3)
        alike = {"table": f"NCCL {name}", "group": chip, "op": name, "hw": ours}
        for s, g, t in zip(size, n, seconds, strict=True):
            yield {**alike, "devices": g, "bytes": s, "time_s": t}


def timed(row: Row) -> tuple[float, ...]:
    """Measured seconds, expected, floor, and the interval; `mesh` names the axes of a torus where its source does."""
    hardware = load_hardware(row["hw"])
    along = along_axes(hardware, axis_sizes(row["mesh"])) if "mesh" in row else None
    answer = collective(row["op"], float(row["bytes"]), hardware, float(row["devices"]), mesh=along)
    measured = row["time_s"] if "time_s" in row else row["time_us"] * 1e-6
    return float(measured), answer["time_s"], answer["floor_s"], *answer["interval_s"]


def tables() -> list[Table]:
    """NCCL inside a node, published timings, all-to-alls of experts and all-reduces by kernels of engines."""
    installed = aiconfigurator.installed()
    named: dict[str, list[tuple[list[str], tuple[float, ...]]]] = defaultdict(list)
    for row in (*published("collectives")["rows"], *(aiconfigurator_rows() if installed else ())):
        named[row.get("table", "published")].append(([row["group"]], timed(row)))
    found = []
    for name, rows in sorted(named.items()):
        why = excluded("collectives") if name == "published" else notes("NCCL")
        table = score(f"collectives: {name}", rows, why, with_all=False)
        table.points = [p for p in table.points if p.group not in PCIE]
        table.rows.append(summary(joined("all but PCIe", table.points)))
        found.append(table)
    if not installed:
        return [*found, Table("collectives: NCCL", [], [aiconfigurator.MISSING])]
    sent, reduced = list(exchanges()), list(all_reduces())
    across, inside = ([p for p in sent if ("nodes" in p.group) == many] for many in (True, False))
    totals = {"all across nodes": across, "all inside a node": inside, "all": sent}
    return [
        *found,
        error_table("collectives: MoE all-to-all", sent, notes("exchange"), totals),
        error_table("collectives: custom all-reduce", reduced, notes("custom all-reduce")),
    ]


RANKS = {"gb200": 4.0, "gb300": 4.0}  # of one host in SGLang's tables
SMS = 20  # of DeepEP's normal kernels: the setting that the constants are for
UNUSABLE_NODES = 8  # normal mode on 8 nodes and more: transmit and notify are swapped
COPIED = "h200_sxm"  # files of several nodes repeat the numbers of H100
SGLANG = {"deepep-low-latency": "wideep_deepep_ll_perf.parquet", "deepep": "wideep_deepep_normal_perf.parquet"}
VLLM = {"deepep-low-latency": "deepep_ll", "deepep": "deepep_ht"}
NVLINK = {"nvlink": "NVLinkTwoSided", "nvlink-one-sided": "NVLinkOneSided"}
SENT_BYTES = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 4.5 / 8}
VERSIONS = 4


class Exchange(NamedTuple):
    """Timed all-to-alls of one table: rows kept, their keys (tokens, top_k, width, ranks), times in seconds, and bytes of a value sent."""

    mode: str
    keep: Array
    keys: list[Array]
    seconds: Array
    label: str = ""
    variant: str = ""
    sent_bytes: float = SCALED_FP8


def exchanges() -> Iterator[Points]:
    """All-to-alls not fitted, a group per chip, kernels, phase and number of nodes. Results come back in 16 bits."""
    for chip, phase in product(aiconfigurator.CHIPS, ("dispatch", "combine")):
        for x in (*_sglang(chip, phase), *_vllm(chip, phase), *_nvlink(chip, phase)):
            if not x.keep.any():
                continue
            shape, seconds = aiconfigurator.median_rows([key[x.keep] for key in x.keys], x.seconds[x.keep])
            tokens, top_k, d, n = shape
            value_bytes = x.sent_bytes if phase == "dispatch" else 2.0
            op = ExpertAllToAll(x.mode, x.mode, phase, tokens, top_k, d, value_bytes, "ep", n, 1.0, variant=x.variant)
            priced = price_exchange(op, aiconfigurator.chip(chip))
            group = f"{aiconfigurator.CHIPS[chip]} {x.mode} {phase}{x.label}"
            yield Points.timed(group, seconds, ~fit_half(*shape), priced.expected, priced.floor, priced.error)


def _sglang(chip: str, phase: str) -> Iterator[Exchange]:
    """One host from the newest file; several from the older one that has them."""
    for mode, file in SGLANG.items():
        for behind in range(VERSIONS):
            table = aiconfigurator.columns(chip, "comm", "sglang", file, behind)
            if table is None:
                break
            for nodes in np.unique(table["node_num"]):
                several = bool(nodes > 1)
                if several == (behind == 0) or (several and chip == COPIED):
                    continue
                keep = table["node_num"] == nodes
                if mode == "deepep":
                    if nodes >= UNUSABLE_NODES:
                        continue
                    keep &= table[f"{phase}_sms"] == SMS
                    times = table[f"{phase}_transmit_us"] + table[f"{phase}_notify_us"]
                else:
                    times = table[f"{phase}_avg_t_us"]
                keys = [table[c] for c in ("num_token", "num_topk", "hidden_size")]
                ranks = np.full(len(times), RANKS.get(chip, 8.0) * float(nodes))
                yield Exchange(mode, keep, [*keys, ranks], times * 1e-6, f", {nodes} nodes" * several)


def _vllm(chip: str, phase: str) -> Iterator[Exchange]:
    if (table := aiconfigurator.columns(chip, "comm", "vllm", "moe_a2a_perf.parquet")) is not None:
        keys = [table[c] for c in ("num_tokens", "topk", "hidden_size", "ep_size")]
        for mode, name in VLLM.items():
            keep = (table["comm_backend"] == name) & (table["phase"] == phase)
            yield Exchange(mode, keep, keys, table["latency"] * 1e-6, " (vLLM)", "vllm")


def _nvlink(chip: str, phase: str) -> Iterator[Exchange]:
    if (table := aiconfigurator.columns(chip, "comm", "trtllm", "trtllm_alltoall_perf.parquet")) is not None:
        keys = [table[c] for c in ("num_tokens", "topk", "hidden_size", "moe_ep_size")]
        for (mode, name), (written, size) in product(NVLINK.items(), SENT_BYTES.items()):
            keep = (table["kernel_source"] == name) & (table["moe_dtype"] == written)
            keep &= table["op_name"] == f"alltoall_{phase}"
            yield Exchange(mode, keep, keys, table["latency"] * 1e-3, sent_bytes=size)


def all_reduces() -> Iterator[Points]:
    """Custom all-reduces under CUDA graphs that were not fitted, a group per chip and library."""
    for chip, library in product(aiconfigurator.CHIPS, ("trtllm", "vllm", "sglang")):
        table = aiconfigurator.columns(chip, "comm", library, "custom_allreduce_perf.parquet")
        if table is None or not network.has_custom_all_reduce(aiconfigurator.chip(chip), library):
            continue
        keep = (table["latency"] > 0) & (table["num_gpus"] <= network.LARGEST_CUSTOM)
        if "backend" in table:
            keep &= np.char.find(table["backend"].astype(str), "eager") < 0
        keys = [table["num_gpus"][keep], table["message_size"][keep]]
        (n, elements), seconds = aiconfigurator.median_rows(keys, table["latency"][keep] * 1e-3)
        priced = network.custom_all_reduce(2 * elements, n, aiconfigurator.chip(chip), library)
        group = f"{aiconfigurator.CHIPS[chip]} {library}"
        yield Points.timed(group, seconds, ~fit_half(n, elements), priced.expected, priced.floor, priced.error)
