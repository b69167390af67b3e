"""Measured collectives: NCCL inside a node from the wheel, nccl-tests rows and TPU gathers from published_runs/collectives.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflinecli.questions.collective.answer import along_axes, collective
from rooflinecli.questions.shard.notation import mesh as axis_sizes
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.published_runs import published
from rooflinecli.validate import aiconfigurator_tables
from rooflinecli.validate.stats import Points

OPS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}


@dataclass
class Measured:
    """One timed collective."""

    group: str
    op: str
    hardware: str
    devices: float
    size: float
    seconds: float
    table: str
    mesh: str = ""


def published_rows() -> list[Measured]:
    """Rows of published_runs/collectives.yaml."""
    return [
        Measured(
            r["group"],
            r["op"],
            r["hw"],
            float(r["devices"]),
            float(r["bytes"]),
            r["time_us"] * 1e-6,
            "published",
            r.get("mesh", ""),
        )
        for r in published("collectives")["rows"]
    ]


def wheel_rows() -> list[Measured]:
    """NCCL timings of the wheel in 16 bits (sizes there count elements), one row per chip, operation, size and group."""
    rows = []
    for chip, ours in aiconfigurator_tables.CHIPS.items():
        table = aiconfigurator_tables.columns(chip, "comm", "nccl", "nccl_perf.parquet")
        if table is None:
            continue
        for op, name in OPS.items():
            keep = (table["op_name"] == op) & (table["nccl_dtype"] == "half") & (table["latency"] > 0)
            if not keep.any():
                continue
            (size, n), seconds = aiconfigurator_tables.median_rows(
                [2 * table["message_size"][keep], table["num_gpus"][keep]], table["latency"][keep] * 1e-3
            )
            rows += [
                Measured(chip, name, ours, float(g), float(s), float(t), f"NCCL {name}")
                for s, g, t in zip(size, n, seconds, strict=True)
            ]
    return rows


def _answer(r: Measured) -> Any:
    """The collective of a row, along the axes of a torus where the row says which."""
    hardware = load_hardware(r.hardware)
    along = along_axes(hardware, axis_sizes(r.mesh)) if r.mesh else None
    return collective(r.op, r.size, hardware, r.devices, mesh=along)


def points(rows: list[Measured], group: str) -> Points:
    """Predictions and timings of some rows."""
    answers = [_answer(r) for r in rows]
    return Points.of(
        group, [(r.seconds, a["time_s"], a["floor_s"], *a["interval_s"]) for r, a in zip(rows, answers, strict=True)]
    )
