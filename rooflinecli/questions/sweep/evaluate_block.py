"""One choice of structure over a box of sizes: `estimate`'s own arithmetic on arrays.

Each size that varies gets an array dimension of its own, so a term that depends on few sizes costs few operations and the
results broadcast only at the end. The longest axis is laid out last, where numpy is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request, explicit_layout, legality, option_conflicts
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as engine_answer
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.engine.phase_answer import PhaseAnswer, TrainAnswer
from rooflinecli.engine.serving_load import BEHIND, arrivals
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.price import overrides
from rooflinecli.questions.estimate.answer import cost
from rooflinecli.questions.estimate.answer_types import Cost
from rooflinecli.questions.goodput.question import with_failures
from rooflinecli.questions.sweep.axes import Axis
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import SIZES, Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import Request

Box = tuple[tuple[int, int], ...]  # [start, stop) on every axis


def shard(points: int, text: str | None) -> tuple[int, int]:
    """[start, stop) of shard `i/n`, i from 1; all of it without one. Raises UsageError for anything else."""
    if text is None:
        return 0, points
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit()) or not 1 <= int(index) <= int(count):
        raise UsageError(f"--shard {text}: write i/n with i from 1 to n, for example --shard 3/16")
    i, n = int(index), int(count)
    return points * (i - 1) // n, points * i // n


def boxes(shape: tuple[int, ...], start: int, stop: int, limit: int) -> Iterator[Box]:
    """Cut points [start, stop) of a grid into boxes of at most `limit` points, in order."""
    if not shape:
        yield from [()] if start < stop else []
        return
    inner = math.prod(shape[1:])
    whole = tuple((0, size) for size in shape[1:])
    while start < stop:
        row, offset = divmod(start, inner)
        rows = 0 if offset else min(stop - start, limit) // inner
        if rows:
            yield ((row, row + rows), *whole)
        else:  # a part of a row, or a row beyond the limit
            rows = 1
            for box in boxes(shape[1:], offset, min(stop - row * inner, inner), limit):
                yield ((row, row + 1), *box)
        start = (row + rows) * inner


Fit = tuple[str, Number]  # `decode.memory`, and where it is enough


Choice = dict[str, Number]  # structure axis -> its value


@dataclass
class SweepBlock:
    """What `estimate` says of every point of a box, as numbers and arrays that broadcast to `shape`."""

    phases: dict[str, PhaseAnswer]
    layout: dict[str, Number]
    cost: Cost
    rules: list[LegalityRule]
    fits: list[Fit]
    shape: tuple[int, ...]
    order: tuple[int, ...]
    axes: dict[str, Number]
    roofs: dict[str, Number]

    def flat(self, value: Number) -> np.ndarray:
        """One value per point, in the order of points."""
        return np.broadcast_to(value, self.shape).transpose(self.order).reshape(-1)

    @property
    def points(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def request_of(choice: Choice, phases: tuple[str, ...]) -> Request:
    """The question of one choice of structure, sizes left open."""
    words = {OPTIONS[k].field: v for k, v in choice.items() if k not in ("model", "hw")}
    return Request(load_model(choice["model"]), load_hardware(choice["hw"]), phases=phases, **words)


def lay_out(
    axes: tuple[Axis, ...], box: Box, request: Request
) -> tuple[dict[str, Number], tuple[int, ...], tuple[int, ...]]:
    """Values of every axis inside the box, the shape they broadcast to, and the transpose back to the order of points."""
    lengths = [stop - start for start, stop in box]
    places = sorted(range(len(box)), key=lambda i: lengths[i])  # place -> axis
    shape = tuple(lengths[i] for i in places)
    found: dict[str, Number] = {}
    for i, (axis, (start, stop)) in enumerate(zip(axes, box, strict=True)):
        scale = overrides.figure(request.hardware, axis.name).si if axis.relative else 1.0
        if len(axis.values) == 1:
            found[axis.name] = axis.values[0] * scale if axis.relative else axis.values[0]
            continue
        dims = [1] * len(box)
        dims[places.index(i)] = stop - start
        found[axis.name] = np.array(axis.values[start:stop], dtype=np.float64).reshape(dims) * scale
    order = tuple(places.index(i) for i in range(len(box)))
    return found, shape, order


def answer(request: Request, axes: tuple[Axis, ...], box: Box) -> SweepBlock:
    """Evaluate a box. Raises UsageError for a structure that does not exist (a dtype the chip lacks)."""
    sizes, shape, order = lay_out(axes, box, request)
    question, override, fields = question_of(request, axes, sizes)
    with np.errstate(all="ignore"):
        ctx = EstimateContext(question, override=override)
        option_conflicts.check_autoregressive(ctx)
        plans = {phase: plan_of(question, phase, fields) for phase in option_conflicts.supported_phases(ctx)}
        results = {phase: engine_answer(ctx, plan, phase) for phase, plan in plans.items()}
        bill = cost(ctx, results, plans)
        if isinstance(train := results.get("train"), TrainAnswer) and train.run_s is not None:
            with_failures(train, plans["train"].devices, float(parameters(question.model).total))
        rules = [rule for phase, plan in plans.items() for rule in legality.rules(ctx, plan, phase)]
    fits = [(f"{phase}.memory", found.memory.fits) for phase, found in results.items()]
    if question.qps is not None:
        with np.errstate(all="ignore"):
            for plan in plans.values():
                rules.append(_rule("prompts leave time to decode", arrivals(ctx, plan)[2] < 1))
            if "decode" in results:
                needed = question.qps * ctx.output * (1 - 2 * BEHIND)
                rules.append(_rule("replicas keep up with the rate", results["decode"].tokens_per_s >= needed))
    plan = next(iter(plans.values()))
    shown = {name: getattr(plan, name) for name in ("devices", *SIZES)}
    roofs = {"peak": ctx.chip.peak(ctx.formats.compute), "bandwidth": ctx.chip.bandwidth}
    return SweepBlock(results, shown, bill, rules, fits, shape, order, sizes, roofs)


def _rule(name: str, holds: Number) -> LegalityRule:
    return LegalityRule(name, (), holds, lambda: name)


def question_of(
    request: Request, axes: tuple[Axis, ...], sizes: dict[str, Number]
) -> tuple[Request, dict[str, Number], dict[str, Number]]:
    """The request with its workload filled in, the hardware figures overridden, and every size by its field."""
    override = {a.name: sizes[a.name] for a in axes if a.kind == "figure"}
    fields = {OPTIONS[a.name].field: sizes[a.name] for a in axes if a.kind == "number"}
    if any(a.name == "batch" and a.tokens for a in axes):
        fields["batch"] = build_request.whole_sequences(fields["batch"], fields.get("seq"), request.model)
    return replace(request, **{k: v for k, v in fields.items() if k not in (*SIZES, "devices")}), override, fields


def missing(request: Request, axes: tuple[Axis, ...], box: Box, why: str) -> SweepBlock:
    """A box of points whose structure does not exist on this chip: every one infeasible, for the reason given."""
    sizes, shape, order = lay_out(axes, box, request)
    return SweepBlock({}, {}, Cost(), [_rule(why, np.bool_(False))], [], shape, order, sizes, {})


def plan_of(request: Request, phase: str, sizes: dict[str, Number]) -> Layout:
    """The plan given: sizes default to 1 (dp to what -n leaves), ZeRO to 1, recomputation to none, as the help says."""
    given = {name: sizes[name] for name in SIZES if name in sizes}
    if "devices" in sizes and "dp" not in given:
        given["dp"] = sizes["devices"] / (given.get("tp", 1.0) * given.get("pp", 1.0) * given.get("cp", 1.0))
    parallel = request.sequence_parallel
    if phase != "train":
        if request.attention_dp:
            ranks = explicit_layout.attention_dp_sizes(
                request, given.get("tp", 1.0), given.get("dp", 1.0), given.get("ep")
            )
            given |= dict(zip(("tp", "dp", "ep"), ranks, strict=True))
        return Layout(
            **given,
            zero=0,
            sequence_parallel=bool(parallel),
            flash=request.flash,
            **explicit_layout.layout_fields(request, phase),
        )
    if parallel is None:  # at tp = 1 it changes nothing, so a block may decide it once
        parallel = bool(np.any(np.greater(given.get("tp", 1.0), 1)))
    return Layout(
        **given,
        zero=1 if request.zero is None else request.zero,
        sequence_parallel=parallel,
        recompute=request.recompute or "none",
        flash=request.flash,
        **explicit_layout.layout_fields(request, phase),
    )
