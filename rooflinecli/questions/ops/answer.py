"""`roofline ops`: every operation of an estimate on the roofline: shape, FLOPs, bytes, intensity, bound, floor, expected time, share.

The lines are those that the estimate itself charged: its bills are watched, not recomputed, so that the shares of a phase
add up to its time. What is no kernel (communication, the engine, bubbles) follows as rows without intensity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rooflinecli.core.num import Number
from rooflinecli.core.record import plain
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, TrainAnswer
from rooflinecli.formulas import roofline
from rooflinecli.ledger.ops import Op
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import FUSIBLE, Priced
from rooflinecli.questions.estimate.answer import choose_plans, estimate, scene_of
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.ops import shape_text
from rooflinecli.specs.request import Request

SCHEMA = "roofline/ops/1"
NOTHING = 1e-9  # of a phase's time: below it a row is rounding


@dataclass(slots=True)
class OperationLine:
    """One operation as charged: its sizes for one launch, what that costs, how often."""

    op: Op
    flops: Number
    bytes: Number
    priced: Priced
    launches: Number


class RecordingAccumulator(StepAccumulator):
    """An accumulator that keeps its lines."""

    def __init__(self, chip: Chip, regime: str, devices: Number):
        super().__init__(chip, regime, devices)
        self.lines: list[OperationLine] = []

    def add_priced(self, ops: list[Op], prices: list[Priced], times: Number) -> None:
        self.lines += [
            OperationLine(op, op.flops, op.bytes, priced, times * op.count)
            for op, priced in zip(ops, prices, strict=True)
        ]
        super().add_priced(ops, prices, times)

    def merge(self, other: StepAccumulator, times: Number, least: Number) -> None:
        assert isinstance(other, RecordingAccumulator)
        self.lines += [replace(line, launches=line.launches * times) for line in other.lines]
        super().merge(other, times, least)


class RecordingContext(EstimateContext):
    """A context whose accumulators are kept."""

    def __init__(self, request: Request):
        self.bills: list[RecordingAccumulator] = []
        super().__init__(request)

    def accumulator(self, regime: str, devices: Number) -> StepAccumulator:
        self.bills.append(RecordingAccumulator(self.chip, regime, devices))
        return self.bills[-1]


def operations(request: Request) -> dict[str, Any]:
    """The estimate, and under each phase its `operations`. Raises what `estimate` raises."""
    result = estimate(request)
    return {
        "schema": SCHEMA,
        **{key: plain(getattr(result, key)) for key in ("model", "hardware", "workload")},
        "roofs": roofs(request),
        "phases": {
            phase: {
                "plan": plain(answer.layout),
                "time_s": answer.time_s,
                "floor_s": answer.floor_s,
                "interval_s": list(answer.interval_s),
                "operations": rows,
            }
            for (phase, answer), rows in zip(result.phases.items(), listed(request, result).values(), strict=True)
        },
        "feasible": result.feasible,
        "violations": plain(result.violations),
    }


def roofs(request: Request) -> dict[str, Any]:
    """The ceilings of the chip, for each format the model computes in."""
    ctx = EstimateContext(request)
    f = ctx.formats
    used = dict.fromkeys((f.compute, f.outer_compute, f.attention_compute))
    return {
        "bandwidth_bytes_per_s": ctx.chip.bandwidth,
        "peak_flops_per_s": {dtype: ctx.chip.peak(dtype) for dtype in used},
    }


def listed(request: Request, result: EstimateAnswer) -> dict[str, list[dict[str, Any]]]:
    """The rows of each phase of an estimate."""
    found = {}
    for phase, choice in choose_plans(scene_of(request))[0].items():
        ctx = RecordingContext(request)
        again = PHASES[phase](ctx, ctx.lifted(choice.layout))
        costs = _of_phase(ctx, phase, again)
        shape = shape_text.table(ctx, choice.layout, phase, again.batch if isinstance(again, DecodeAnswer) else None)
        found[phase] = _rows(ctx, costs, result.phases[phase], shape)
    return found


def _of_phase(ctx: RecordingContext, phase: str, answer: PhaseAnswer) -> RecordingAccumulator:
    """The bill a phase was answered from; others were opened on the way (a further prompt, uneven stages)."""
    if phase == "train":
        return ctx.bills[0]
    return next(b for b in reversed(ctx.bills) if b.groups == answer.breakdown_s)


def _rows(
    ctx: EstimateContext, costs: RecordingAccumulator, answer: PhaseAnswer, shape: dict[Any, str]
) -> list[dict[str, Any]]:
    """Kernels, equal ones together, then what is no kernel."""
    times, total = answer.microbatches if isinstance(answer, TrainAnswer) else 1.0, answer.time_s
    merged: dict[Any, dict[str, Any]] = {}
    for line in costs.lines:
        key = (line.op.name, line.flops, line.bytes)
        row = placed(ctx.chip, line, line.launches * times, total, shape_text.find(shape, line.op))
        if key in merged:
            for part in ("launches", "flops", "bytes", "floor_s", "time_s", "share"):
                merged[key][part] += row[part]
            merged[key]["interval_s"] = [
                a + b for a, b in zip(merged[key]["interval_s"], row["interval_s"], strict=True)
            ]
        else:
            merged[key] = row
    return [*merged.values(), *_others(list(merged.values()), answer, total)]


def placed(chip: Chip, line: OperationLine, launches: Number, total: Number, shape: str) -> dict[str, Any]:
    """One operation on the roofline: sums over its launches."""
    op, priced = line.op, line.priced
    spent = priced.expected * launches
    floor = roofline.floor_time(priced.t_compute, priced.t_memory) * launches
    flops, moved = line.flops * launches, line.bytes * launches
    compute = priced.t_compute > priced.t_memory
    return {
        "name": op.name,
        "group": op.group,
        "class": op.kind,
        "dtype": op.dtype,
        "shape": shape,
        "launches": launches,
        "flops": flops,
        "bytes": moved,
        "intensity_flops_per_byte": roofline.arithmetic_intensity(flops, moved) if moved else None,
        "bound": "memory" if op.kind in FUSIBLE or not compute else "compute",
        "floor_s": floor,
        "time_s": spent,
        "interval_s": [roofline.interval_low(spent, priced.error, floor), roofline.interval_high(spent, priced.error)],
        "share": spent / total,
        "achieved_flops_per_s": flops / spent if spent else None,
        "achieved_bytes_per_s": moved / spent if spent else None,
    }


def _others(kernels: list[dict[str, Any]], answer: PhaseAnswer, total: Number) -> list[dict[str, Any]]:
    """Communication by axis, and the rest of every group that kernels do not account for."""
    rest = dict(answer.breakdown_s)
    for row in kernels:
        rest[row["group"]] = rest.get(row["group"], 0.0) - row["time_s"]
    parts = [(f"communication.{axis}", "communication", seconds) for axis, seconds in answer.communication_s.items()]
    rest["communication"] = rest.get("communication", 0.0) - sum(seconds for _, _, seconds in parts)
    parts += [(group, group, seconds) for group, seconds in rest.items()]
    volumes = answer.communication_bytes
    return [
        {
            "name": name,
            "group": group,
            "class": group,
            "dtype": None,
            "shape": "",
            "launches": None,
            "flops": 0.0,
            "bytes": volumes.get(name.partition(".")[2], 0.0),
            "intensity_flops_per_byte": None,
            "bound": group,
            "floor_s": 0.0,
            "time_s": seconds,
            "interval_s": None,
            "share": seconds / total,
            "achieved_flops_per_s": None,
            "achieved_bytes_per_s": None,
        }
        for name, group, seconds in parts
        if abs(seconds) > NOTHING * total
    ]
