"""Refitting the constants of training that were fitted to published steps: on half of the rows, and with a family left out.

Each constant belongs to the rows it can move, so it is fitted to those alone, one after the other, until they settle; the
other constants of the chips stay as shipped. Loss: mean |log(predicted / measured)|, a family weighted by the root of its
size; search: fit.minimise, on the logarithm between the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.engine.training import train
from rooflinecli.validate import published
from rooflinecli.validate.fit import minimise
from rooflinecli.validate.published import family
from rooflinecli.validate.published import timed as rows
from rooflinecli.validate.stats import Array, Table, half_by_name

Row = dict[str, Any]
Constants = dict[str, float]
ROUNDS, STEPS = 2, 8
EAGER, FSDP = ("llm-foundry", "pytorch", "deepspeed"), ("llm-foundry", "pytorch", "torchtitan", "deepspeed")
UNSEEN = ("korthikanti_t5", "torchtune", "whole_runs")  # in no fit, here or in what ships


def _software(*names: str) -> Callable[[Row], bool]:
    """Rows of these frameworks, whatever their options."""
    return lambda row: row["plan"].get("software", "any").partition("+")[0] in names


def _moe(row: Row, chips: tuple[str, ...]) -> bool:
    return row.get("group") in ("mbridge_moe", "moezoo") and row["hardware"].startswith(chips)


def _misaligned(row: Row) -> bool:
    m = row["model"]
    return not row["plan"].get("flash", True) and bool(m["d_model"] // m["heads"] % 8)


@dataclass(frozen=True)
class Free:
    """A constant: the class and field it overrides, the rows it moves, its range, and its value when no row tells."""

    kind: str
    field: str
    moves: Callable[[Row], bool]
    low: float
    high: float
    unknown: float


HOPPER, BLACKWELL, ULTRA = ("h100", "h200"), ("b200", "gb200"), ("b300", "gb300")
X86 = ("h100", "h200", "b200", "b300")


def _chip(chips: tuple[str, ...], *software: str) -> Callable[[Row], bool]:
    return lambda row: row["hardware"].startswith(chips) and _software(*software)(row)


FREE = {
    "eager_traffic": Free("framework", "traffic", _software(*EAGER), 1, 6, 1),
    "nemo_traffic": Free("framework", "traffic", _software("nemo-2024"), 1, 6, 1),
    "accumulation_bytes": Free("framework", "accumulate", _software(*FSDP), 4, 120, 12),
    "misaligned_scores": Free("scores", "compute", _misaligned, 0.01, 0.5, 0.5),
    "host_per_moe_layer": Free(
        "step", "per_moe_layer", lambda r: _moe(r, X86) and _software("any")(r), 1e-4, 2e-2, 1e-3
    ),
    "hopper_experts": Free("grouped_matmul", "compute", lambda r: _moe(r, HOPPER), 0.05, 1.0, 0.5),
    "blackwell_experts": Free("grouped_matmul", "compute", lambda r: _moe(r, BLACKWELL), 0.05, 1.0, 0.5),
    "ultra_experts": Free("grouped_matmul", "compute", lambda r: _moe(r, ULTRA), 0.05, 1.0, 0.5),
    "hopper_attention": Free(
        "prefill_attention", "compute", _chip(HOPPER, "any", "nemo-2024", "maxtext"), 0.05, 1.0, 0.64
    ),
    "blackwell_attention": Free("prefill_attention", "compute", _chip(BLACKWELL, "any"), 0.05, 1.0, 0.64),
    "ultra_attention": Free("prefill_attention", "compute", _chip(ULTRA, "any"), 0.05, 1.0, 0.64),
    "flash_2": Free("prefill_attention", "compute", _chip(HOPPER, "torchtitan", "pytorch"), 0.05, 1.0, 0.45),
    "triton_hopper": Free("prefill_attention", "compute", _chip(HOPPER, "llm-foundry"), 0.05, 1.0, 0.45),
    "rails": Free(
        "fsdp_collective", "rails", lambda r: _software("deepspeed")(r) and r["plan"]["zero"] == 3, 0.02, 1.0, 1.0
    ),
    "async_tp": Free("tp_collective", "overlap", lambda r: "+async" in r["plan"].get("software", ""), 0.05, 1.0, 0.95),
    "internevo_traffic": Free("framework", "traffic", _software("internevo"), 1, 8, 1),
    "internevo_turns": Free("dp_collective", "per_hop", _software("internevo"), 1e-4, 1e-1, 1e-4),
    "xtuner_attention": Free("prefill_attention", "compute", _software("xtuner"), 0.05, 1.0, 0.5),
    "xla_exchange": Free("dp_collective", "overlap", _software("maxtext"), 0.01, 1.0, 1.0),
}


def fitted(row: Row) -> bool:
    """The half that a fit sees."""
    return half_by_name(row["id"])


def error(row: Row, constants: Constants) -> float:
    """Signed error of the engine with some constants replaced."""
    return float(answered(row, constants).time_s) / float(row["step_s"]) - 1


def inside(row: Row, constants: Constants) -> bool:
    """Whether the 80 % interval holds what was measured, with some constants replaced."""
    low, high = answered(row, constants).interval_s
    return bool(low <= row["step_s"] <= high)


def answered(row: Row, constants: Constants) -> TrainAnswer:
    """The engine's answer with some constants replaced."""
    override = {
        f"efficiency.{free.kind}.{free.field}": constants[name]
        for name, free in FREE.items()
        if name in constants and free.moves(row)
    }
    return train(published.scene(row, override), published.plan(row))


def fit(seen: Iterable[Row], names: Iterable[str] = FREE) -> Constants:
    """Constants that fit these rows; one that moves none of them keeps the value of a chip or framework nobody measured."""
    seen = [row for row in seen if family(row) not in UNSEEN]
    moved = {name: [row for row in seen if FREE[name].moves(row)] for name in names}
    constants = {
        name: math.sqrt(FREE[name].low * FREE[name].high) if moved[name] else FREE[name].unknown for name in moved
    }
    for _ in range(ROUNDS):
        for name, concerned in moved.items():
            if concerned:
                constants[name] = _best(name, concerned, constants)
    return constants


def _best(name: str, concerned: list[Row], constants: Constants) -> float:
    """One constant, the others fixed."""
    low, high = math.log(FREE[name].low), math.log(FREE[name].high)
    sizes: dict[str, int] = {}
    for row in concerned:
        sizes[family(row)] = sizes.get(family(row), 0) + 1
    weights = [1 / math.sqrt(sizes[family(row)]) for row in concerned]

    def value(point: Array) -> float:
        return math.exp(low + (high - low) / (1 + math.exp(-point[0])))

    def loss(point: Array) -> float:
        given = {**constants, name: value(point)}
        missed = (w * abs(math.log1p(error(row, given))) for w, row in zip(weights, concerned, strict=True))
        return sum(missed) / sum(weights)

    return value(minimise(loss, np.zeros(1), STEPS))


def refitted() -> list[Table]:
    """By family: the shipped constants and those fitted to the other half of all rows, on the half not fitted; and with the family left out."""
    constants = fit([row for row in rows() if fitted(row)])
    groups: dict[str, list[Row]] = {}
    for row in rows():
        groups.setdefault(family(row), []).append(row)
    found = [_line(name, members, constants) for name, members in groups.items()]
    whole = {key: fmean(line[key] for line in found for _ in range(line["rows"])) for key in ("fitted", "shipped")} | {
        key: fmean(line[key] for line in found for _ in groups[line["group"]])
        for key in ("left_out", "left_out_inside")
    }
    even = {"group": "every family alike", "rows": len(found)} | {
        key: fmean(line[key] for line in found) for key in ("fitted", "shipped", "left_out", "left_out_inside")
    }
    total = {"group": "all", "rows": sum(line["rows"] for line in found), **whole}
    notes = [
        "refitted and shipped: mean error on the half not fitted; left out: all rows of the family, with the constants it uses fitted to the "
        "other families, or at the value of an unknown framework or chip where no other uses them; "
        "the last column: rows of it inside the 80 % interval then. The last line gives every family the same weight.",
        "Fitted to half: " + ", ".join(f"{name} {value:.3g}" for name, value in constants.items()) + ".",
    ]
    return [Table("refit: training", [*found, total, even], notes)]


def _line(name: str, members: list[Row], constants: Constants) -> Row:
    """One family's line."""
    test = [row for row in members if not fitted(row)] or members
    others = [row for row in rows() if family(row) != name]
    used = [free for free in FREE if any(FREE[free].moves(row) for row in members)]
    without = fit(others, used)
    return {
        "group": name,
        "rows": len(test),
        "fitted": fmean(abs(error(row, constants)) for row in test),
        "shipped": fmean(abs(error(row, {})) for row in test),
        "left_out": fmean(abs(error(row, without)) for row in members),
        "left_out_inside": fmean(inside(row, without) for row in members),
    }
