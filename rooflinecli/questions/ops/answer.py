"""`roofline ops`: every operation of an estimate on the roofline: shape, FLOPs, bytes, intensity, bound, floor, expected time, share.

The lines are those that the estimate itself charged: its accumulators are watched, not recomputed, so that the shares of a phase
add up to its time. What is no kernel (communication, the engine, bubbles) follows as rows without intensity.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record, former
from rooflinecli.core.units import count
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.engine.microbatch import Microbatch
from rooflinecli.engine.phase_answer import DecodeAnswer, LayoutAnswer, PhaseAnswer, TrainAnswer
from rooflinecli.formulas import roofline, serving
from rooflinecli.ledger.ledger import Ledger, Row, Sizes, product
from rooflinecli.ledger.ops import Op
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import FUSIBLE, Priced
from rooflinecli.questions.estimate.answer import choose_layouts, context_of, estimate, warn_of_idle
from rooflinecli.questions.estimate.answer_types import EstimateAnswer, HardwareAnswer, ModelAnswer, Violation, Workload
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import Request

SCHEMA = "roofline/ops/2"
SORTS = {"time": "time_s", "flops": "flops", "bytes": "bytes", "intensity": "intensity_flops_per_byte"}
NOTHING = 1e-9  # of a phase's time: below it a row is rounding


class Roofs(Record):
    """The ceilings of the chip, for each format that is computed in."""

    bandwidth_bytes_per_s: float
    peak_flops_per_s: dict[str, float]


class Operation(Record):
    """One operation on the roofline, summed over its launches; what is no kernel has no launches, intensity or interval."""

    name: str
    group: str
    class_: str
    dtype: str | None = None
    shape: str = ""
    launches: Number | None = None
    flops: Number = 0.0
    bytes: Number = 0.0
    intensity_flops_per_byte: Number | None = None
    bound: str
    floor_s: Number = 0.0
    time_s: Number
    interval_s: list[Number] | None = None
    share: Number
    achieved_flops_per_s: Number | None = None
    achieved_bytes_per_s: Number | None = None

    def add(self, other: Operation) -> None:
        """Add the launches of an equal operation."""
        for part in ("launches", "flops", "bytes", "floor_s", "time_s", "share"):
            setattr(self, part, getattr(self, part) + getattr(other, part))
        if self.interval_s and other.interval_s:
            self.interval_s = [a + b for a, b in zip(self.interval_s, other.interval_s, strict=True)]


class PhaseOperations(Record):
    """A phase, or a call of a compiled function, and its operations."""

    layout: LayoutAnswer | None = field(default=None, metadata=OPTIONAL | former("plan"))
    time_s: Number
    floor_s: Number
    interval_s: list[Number]
    operations: list[Operation]


class OnRoofline(Record):
    """An answer whose phases are operations on the roofline of a chip."""

    if TYPE_CHECKING:
        phases: dict[str, PhaseOperations]

    @property
    def rows(self) -> list[dict[str, object]]:
        """The operations of all phases, as CSV has them."""
        found = []
        for name, phase in self.phases.items():
            for operation in phase.operations:
                row = {"phase": name, **dict(operation.entries())}
                low, high = operation.interval_s or (None, None)
                pairs = ([("low_s", low), ("high_s", high)] if k == "interval_s" else [(k, v)] for k, v in row.items())
                found.append(dict(pair for several in pairs for pair in several))
        return found


class OpsAnswer(OnRoofline):
    """An estimate and the operations of its phases."""

    schema: str = SCHEMA
    model: ModelAnswer
    hardware: HardwareAnswer
    workload: Workload
    roofs: Roofs
    phases: dict[str, PhaseOperations]
    feasible: bool
    violations: list[Violation]


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
            OperationLine(op, op.flops, op.read_and_written, priced, times * op.count)
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
        self.accumulators: list[RecordingAccumulator] = []
        super().__init__(request)

    def accumulator(self, regime: str, devices: Number) -> StepAccumulator:
        self.accumulators.append(RecordingAccumulator(self.chip, regime, devices))
        return self.accumulators[-1]


def operations(
    request: Request, sort: str = "order", top: int | None = None, written: Collection[str] = ()
) -> OpsAnswer:
    """The estimate, and under each phase its `operations` in an order of SORTS, the first `top`; warns of options `written` that
    change nothing. Raises what `estimate` raises."""
    result = estimate(request)
    warn_of_idle(written, (EstimateContext(request), result))
    listed = phase_operations(request, result)
    if sort != "order" or top is not None:
        key = SORTS.get(sort, "time_s")
        listed = {
            phase: sorted(rows, key=lambda row: getattr(row, key) or 0.0, reverse=True)[:top]
            for phase, rows in listed.items()
        }
    return OpsAnswer.like(
        result,
        schema=SCHEMA,
        roofs=roofs(request),
        phases={
            phase: PhaseOperations.like(answer, interval_s=list(answer.interval_s), operations=listed[phase])
            for phase, answer in result.phases.items()
        },
    )


def roofs(request: Request) -> Roofs:
    """The ceilings of the chip, for each format the model computes in."""
    ctx = EstimateContext(request)
    f = ctx.formats
    used = dict.fromkeys((f.compute, f.outer_compute, f.attention_compute))
    return Roofs(
        bandwidth_bytes_per_s=ctx.chip.bandwidth, peak_flops_per_s={dtype: ctx.chip.peak(dtype) for dtype in used}
    )


def phase_operations(request: Request, result: EstimateAnswer) -> dict[str, list[Operation]]:
    """The operations of each phase of an estimate: kernels, equal ones together, then what is no kernel."""
    found = {}
    for phase, choice in choose_layouts(context_of(request))[0].items():
        ctx, answer = RecordingContext(request), result.phases[phase]
        again = PHASES[phase](ctx, ctx.lifted(choice.layout))
        shape = table(ctx, choice.layout, phase, again.batch if isinstance(again, DecodeAnswer) else None)
        # the accumulator that the phase was answered from; others are for a further prompt, or uneven stages
        costs = (
            ctx.accumulators[0]
            if phase == "train"
            else next(a for a in reversed(ctx.accumulators) if a.groups == again.breakdown_s)
        )
        times = answer.microbatches if isinstance(answer, TrainAnswer) else 1.0
        merged: dict[tuple[str, Number, Number], Operation] = {}
        for line in costs.lines:
            key = (line.op.name, line.flops, line.bytes)
            row = placed(ctx.chip, line, line.launches * times, answer.time_s, find(shape, line.op))
            if key in merged:
                merged[key].add(row)
            else:
                merged[key] = row
        found[phase] = [*merged.values(), *_others(list(merged.values()), answer)]
    return found


def placed(chip: Chip, line: OperationLine, launches: Number, total: Number, shape: str) -> Operation:
    """One operation on the roofline: sums over its launches."""
    op, priced = line.op, line.priced
    seconds = priced.expected * launches
    floor = roofline.floor_time(priced.t_compute, priced.t_memory) * launches
    flops, moved = line.flops * launches, line.bytes * launches
    compute = priced.t_compute > priced.t_memory
    return Operation(
        name=op.name, group=op.group, class_=op.kind, dtype=op.dtype, shape=shape, launches=launches, flops=flops, bytes=moved,
        intensity_flops_per_byte=roofline.arithmetic_intensity(flops, moved) if moved else None,
        bound="memory" if op.kind in FUSIBLE or not compute else "compute", floor_s=floor, time_s=seconds,
        interval_s=[roofline.interval_low(seconds, priced.error, floor), roofline.interval_high(seconds, priced.error)],
        share=seconds / total, achieved_flops_per_s=flops / seconds if seconds else None,
        achieved_bytes_per_s=moved / seconds if seconds else None,
    )  # fmt: skip


def _others(kernels: list[Operation], answer: PhaseAnswer) -> list[Operation]:
    """Communication by axis, and the rest of every group that kernels do not account for."""
    rest, total = dict(answer.breakdown_s), answer.time_s
    for row in kernels:
        rest[row.group] = rest.get(row.group, 0.0) - row.time_s
    parts = [(f"communication.{axis}", "communication", seconds) for axis, seconds in answer.communication_s.items()]
    rest["communication"] = rest.get("communication", 0.0) - sum(seconds for _, _, seconds in parts)
    parts += [(group, group, seconds) for group, seconds in rest.items()]
    return [
        Operation(
            name=name, group=group, class_=group, bytes=answer.communication_bytes.get(name.partition(".")[2], 0.0), bound=group,
            time_s=seconds, share=seconds / total,
        )
        for name, group, seconds in parts
        if abs(seconds) > NOTHING * total
    ]  # fmt: skip


Table = dict[object, str]
_SUFFIXES = (".input_gradient", ".weight_gradient", ".gradient", ".recomputed", ".again")


def table(ctx: EstimateContext, layout: Layout, phase: str, batch: Number | None) -> Table:
    """Shape of every kernel of a phase, found by name and sizes."""
    forward, work = _pass(ctx, layout, phase, batch)
    found: Table = {}
    _stack(found, ctx, layout, ctx.ledger, forward, work)
    for tower in ctx.ledger.reading if phase != "decode" else ():
        length = tower.length
        inputs = tower.inputs(work["B"])
        _stack(found, ctx, layout, tower.ledger, forward, pass_axis_sizes(inputs, length, length, length, layout))
    return found


def _stack(
    found: Table, ctx: EstimateContext, layout: Layout, ledger: Ledger, forward: ForwardPass, work: Sizes
) -> None:
    """Note the shapes of a ledger's layers and ends."""
    for group in ledger.layers:
        _note(found, forward, group.rows, layer_sizes(group, work, layout, ledger.document, ctx.lift), False)
    outer = stem_head_axis_sizes(ledger, work, layout, ledger.document, ctx.lift)
    _note(found, forward, (*ledger.stem, *ledger.head), outer, True)


def find(shapes: Table, op: Op) -> str:
    """The shape of an operation, or of the forward one it transposes or repeats."""
    name = op.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return shapes.get((name, op.k, op.n), shapes.get(name, ""))


def _pass(ctx: EstimateContext, layout: Layout, phase: str, batch: Number | None) -> tuple[ForwardPass, Sizes]:
    """The forward pass of a phase, and B, S, T, O, Z of one device's share."""
    full = ctx.request.attention_flops == "full"
    if phase == "train":
        micro = Microbatch(ctx, layout)
        return micro.forward, micro.work
    if phase == "prefill":
        return ForwardPass(ctx.formats, full_attention=full, flash=ctx.request.flash), pass_axis_sizes(
            1.0, ctx.prompt, ctx.prompt, 1.0, layout
        )
    per_stage = max((batch or ctx.batch) / layout.pp, 1)
    context = serving.mean_context(ctx.prompt, ctx.output)
    return ForwardPass(ctx.formats, decode=True, full_attention=full), pass_axis_sizes(
        per_stage, 1.0, context, 1.0, layout
    )


def _note(found: Table, forward: ForwardPass, rows: tuple[Row, ...], sizes: Sizes, outer: bool) -> None:
    for row in rows:
        for op in forward.ops([row], sizes, outer):
            found.setdefault((op.name, op.k, op.n), _text(row, sizes))
            found.setdefault(op.name, _text(row, sizes))


def _text(row: Row, sizes: Sizes) -> str:
    """The row with its axes as numbers."""
    c = row.contraction
    if c is not None:
        copies = f"{count(product(c.g, sizes))} x " if c.g else ""
        m, k, n = (count(product(axes, sizes)) for axes in (c.m, c.k, c.n))
        return f"{copies}[{m}, {k}] . [{k}, {n}]"
    if row.mixer is not None:
        return row.mixer.text(sizes)
    return " ".join(_tensors("in", row.reads, sizes) + _tensors("out", row.writes, sizes))


def _tensors(word: str, tensors: tuple[tuple[str, ...], ...], sizes: Sizes) -> list[str]:
    """'2 in [64, 8192]': tensors of one shape together."""
    shown: dict[str, int] = {}
    for axes in tensors:
        text = f"[{', '.join(count(sizes[a]) for a in axes if sizes[a] != 1)}]"
        shown[text] = shown.get(text, 0) + 1
    return [f"{word} {f'{n} x ' if n > 1 else ''}{text}" for text, n in shown.items()]
