"""Refitting the constants of training that were fitted to published steps: on half of the rows, and with a family left out.

Each constant belongs to the rows it can move, so it is fitted to those alone, one after the other, until they settle; the
other constants of the chips stay as shipped. Loss: mean |log(predicted / measured)|; search: golden section on the logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rooflinecli.engine.training import train
from rooflinecli.validate import published
from rooflinecli.validate.published import family
from rooflinecli.validate.published import timed as rows
from rooflinecli.validate.stats import Table, half_by_name

Row = dict[str, Any]
Constants = dict[str, float]
ROUNDS, NARROWINGS = 2, 12
GOLDEN = (math.sqrt(5) - 1) / 2
EAGER, FSDP = ("llm-foundry", "pytorch", "deepspeed"), ("llm-foundry", "pytorch", "torchtitan", "deepspeed")
UNSEEN = ("korthikanti_t5",)  # in no fit, here or in what ships


def _software(*names: str) -> Callable[[Row], bool]:
    return lambda row: row["plan"].get("software", "any") in names


def _moe(row: Row) -> bool:
    return row.get("group") == "mbridge_moe"


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


FREE = {
    "eager_traffic": Free("framework", "traffic", _software(*EAGER), 1, 6, 1),
    "nemo_traffic": Free("framework", "traffic", _software("nemo-2024"), 1, 6, 1),
    "accumulation_bytes": Free("framework", "accumulate", _software(*FSDP), 4, 120, 12),
    "misaligned_scores": Free("scores", "compute", _misaligned, 0.01, 0.5, 0.5),
    "host_per_moe_layer": Free("step", "per_moe_layer", lambda r: _moe(r) and _software("any")(r), 1e-4, 2e-2, 1e-3),
    "host_in_one_graph": Free(
        "step", "per_moe_layer", lambda r: _moe(r) and _software("megatron-2026")(r), 1e-5, 1e-2, 1e-3
    ),
    "expert_matmul": Free("grouped_matmul", "compute", _moe, 0.05, 1.0, 0.5),
    "flash_2": Free(
        "prefill_attention", "compute", lambda r: _hopper(r) and _software("torchtitan", "pytorch")(r), 0.05, 1.0, 0.45
    ),
    "triton_hopper": Free(
        "prefill_attention", "compute", lambda r: _hopper(r) and _software("llm-foundry")(r), 0.05, 1.0, 0.45
    ),
    "blackwell_attention": Free("prefill_attention", "compute", lambda r: "b200" in r["hardware"], 0.05, 1.0, 0.45),
}


def _hopper(row: Row) -> bool:
    return bool(row["hardware"].startswith(("h100", "h200")))


def fitted(row: Row) -> bool:
    """The half that a fit sees."""
    return half_by_name(row["id"])


def error(row: Row, constants: Constants) -> float:
    """Signed error of the engine with some constants replaced."""
    override = {
        f"efficiency.{free.kind}.{free.field}": constants[name]
        for name, free in FREE.items()
        if name in constants and free.moves(row)
    }
    return float(train(published.scene(row, override), published.plan(row)).time_s) / float(row["step_s"]) - 1


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
    """Golden section search of one constant, the others fixed."""

    def loss(x: float) -> float:
        given = {**constants, name: math.exp(x)}
        return fmean(abs(math.log1p(error(row, given))) for row in concerned)

    low, high = math.log(FREE[name].low), math.log(FREE[name].high)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f_left, f_right = loss(left), loss(right)
    for _ in range(NARROWINGS):
        if f_left < f_right:
            high, right, f_right = right, left, f_left
            left = high - GOLDEN * (high - low)
            f_left = loss(left)
        else:
            low, left, f_left = left, right, f_right
            right = low + GOLDEN * (high - low)
            f_right = loss(right)
    return math.exp((low + high) / 2)


def refitted() -> list[Table]:
    """By family: the shipped constants and those fitted to the other half of all rows, on the half not fitted; and with the family left out."""
    constants = fit([row for row in rows() if fitted(row)])
    groups: dict[str, list[Row]] = {}
    for row in rows():
        groups.setdefault(family(row), []).append(row)
    found = [_line(name, members, constants) for name, members in groups.items()]
    whole = {key: fmean(line[key] for line in found for _ in range(line["rows"])) for key in ("fitted", "shipped")} | {
        "left_out": fmean(line["left_out"] for line in found for _ in groups[line["group"]])
    }
    total = {"group": "all", "rows": sum(line["rows"] for line in found), **whole}
    notes = [
        "refitted and shipped: mean error on the half not fitted; left out: all rows of the family, with the constants it uses fitted to the "
        "other families, or at the value of an unknown framework or chip where no other uses them.",
        "Fitted to half: " + ", ".join(f"{name} {value:.3g}" for name, value in constants.items()) + ".",
    ]
    return [Table("refit: training", [*found, total], notes)]


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
    }
