"""Choosing a plan: the sizes a user left open, the smallest device count that holds the model, and the nearest that works."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rooflinecli import memory
from rooflinecli.engine.legal import check as check
from rooflinecli.engine.legal import heads, layout, no_layout
from rooflinecli.engine.scene import Scene
from rooflinecli.errors import Infeasible, UsageError
from rooflinecli.formulas import schedule
from rooflinecli.num import Number
from rooflinecli.specs.plan import Plan
from rooflinecli.units import si

LARGEST = 65536
MOST = 128  # largest size of one axis that is tried


@dataclass(frozen=True)
class Choice:
    """A plan, whether the device count was given, and one sentence on why it is this one."""

    plan: Plan
    chosen: bool
    reason: str
    fits: bool


def training_bytes(scene: Scene, plan: Plan) -> Number:
    """Bytes resident per device while training under `plan`."""
    params = memory.device_parameters(scene.book, plan, scene.lift)
    count = schedule.microbatch_count(scene.train_batch, plan.dp, plan.micro_batch)
    trained = memory.trained(scene.book, plan, params, scene.lift)
    state = memory.training_state(params, trained, plan, scene.formats, scene.gradient_bytes, scene.optimizer_bytes)
    return sum(state.values()) + memory.training_activations(
        scene.book, plan, scene.formats, scene.seq, count, scene.lift, scene.logit_bytes(plan)
    )


def serving_bytes(scene: Scene, plan: Plan) -> Number:
    """Bytes resident per device while serving the batch at its longest context."""
    params = memory.device_parameters(scene.book, plan, scene.lift)
    cache = memory.kv_cache(scene.book, plan, scene.formats, scene.batch, scene.prompt + scene.output, scene.lift)
    work = memory.inference_activations(scene.book, plan, scene.formats, 1.0, scene.prompt, scene.lift)
    return memory.weights(params, scene.formats, 1.0) + cache + work


def choose(scene: Scene, phase: str, seconds: Callable[[Plan], Number]) -> Choice:
    """The fastest legal plan that fits on the devices given, or on the fewest that hold the model.

    `seconds` prices a plan. Raises UsageError when the sizes asked for cannot be laid out at all, Infeasible when no count holds them.
    """
    given = scene.request.devices
    need = training_bytes if phase == "train" else serving_bytes
    capacity = scene.chip.capacity
    for devices in [int(given)] if given is not None else _counts(scene):
        candidates = list(candidates_for(scene, phase, devices))
        if given is not None and not candidates:
            raise UsageError(no_layout(scene, devices))
        needed = [(plan, need(scene, plan)) for plan in candidates]
        fitting = [(plan, size) for plan, size in needed if size <= capacity]
        if fitting:
            plan, size = (
                fitting[0] if len(fitting) == 1 else min(fitting, key=lambda pair: _rank(pair[0], phase, seconds))
            )
            return Choice(plan, given is None, _reason(scene, plan, size, given is None), True)
        if given is not None:
            plan = min(needed, key=lambda pair: pair[1])[0]
            return Choice(plan, False, f"nothing fits on {devices}; shown is the layout that needs least memory", False)
    raise Infeasible(
        f"{scene.spec.name} does not fit on {LARGEST} x {scene.chip.spec.name} with the sizes given; lower --batch or --seq, or free --tp/--pp"
    )


def _rank(plan: Plan, phase: str, seconds: Callable[[Plan], Number]) -> tuple[Number, ...]:
    """Training takes the fastest step. Serving takes stages only where memory asks for them: replicas serve more users."""
    return (seconds(plan), plan.pp, plan.tp) if phase == "train" else (plan.pp, seconds(plan), plan.tp)


def nearest(scene: Scene, phase: str) -> Choice | None:
    """The plan on the fewest devices that works, all layout sizes free; None when there is none."""
    free = Scene(replace(scene.request, devices=None, tp=None, pp=None, dp=None, cp=None, ep=None))
    try:
        return choose(free, phase, lambda plan: 0.0)
    except (UsageError, Infeasible):
        return None


def _counts(scene: Scene) -> Iterator[int]:
    """Device counts to try: powers of two inside a host, then whole hosts doubling; at least what the sizes given multiply to."""
    r = scene.request
    least = math.prod(int(x) for x in (r.tp, r.pp, r.dp, r.cp) if x is not None)
    fixed = all(x is not None for x in (r.tp, r.pp, r.dp))
    if fixed:
        yield least
        return
    limit = 1 if not scene.chip.levels else scene.chip.levels[-1].size
    count = least
    while count <= min(LARGEST, limit):
        yield count
        count *= 2


def candidates_for(scene: Scene, phase: str, devices: int) -> Iterator[Plan]:
    """Every legal layout of the open sizes on so many devices."""
    r, split = scene.request, heads(scene)
    training = phase == "train"
    for tp in _options(r.tp, devices):
        if any(h % tp for h in split) or (r.tp is None and tp > _inner(scene)):
            continue
        for cp in [int(r.cp or 1)]:
            for pp in _options(
                r.pp if r.stages is None else float(str(r.stages).count(",") + 1), devices // max(tp * cp, 1)
            ):
                dp, rest = divmod(devices, tp * cp * pp)
                if rest or dp < 1 or pp > scene.book.n_layers or (r.dp is not None and dp != int(r.dp)):
                    continue
                if dp % int(r.ep or 1) or (training and dp % int(r.shard or 1)):
                    continue
                if not training and r.dp is None and dp > int(r.ep or 1) and r.devices is None:
                    continue
                if (
                    r.pp is None
                    and not training
                    and pp > 1
                    and tp < min(_inner(scene), devices)
                    and _splits(split, min(_inner(scene), devices))
                ):
                    continue
                base = Plan(
                    tp=float(tp),
                    pp=float(pp),
                    dp=float(dp),
                    cp=float(cp),
                    ep=float(r.ep or 1),
                    micro_batch=float(r.micro_batch or 1),
                    virtual_stages=float(r.virtual_stages or 1),
                    sequence_parallel=bool(r.sequence_parallel),
                    zero=1 if training else 0,
                    flash=r.flash,
                    **layout(r),
                )
                yield from _training_variants(scene, base) if training else [base]


def _training_variants(scene: Scene, base: Plan) -> Iterator[Plan]:
    """ZeRO stages, recomputation and microbatches left open. A global batch must give every replica at least one microbatch.

    Larger microbatches are tried on a given device count only: the fewest devices that hold a model hold it with one sequence.
    """
    r = scene.request
    sizes = [base.micro_batch] if r.micro_batch is not None or r.devices is None else [1.0, 2.0, 4.0]
    for micro in sizes:
        if base.dp * micro > scene.train_batch:
            return
        for zero in [r.zero] if r.zero is not None else ([1, 3] if base.dp > 1 else [0]):
            for recompute in [r.recompute] if r.recompute else ["none", "full"]:
                parallel = base.tp > 1 if r.sequence_parallel is None else r.sequence_parallel
                yield replace(base, micro_batch=micro, zero=zero, recompute=recompute, sequence_parallel=parallel)


def _options(given: Number | None, devices: int) -> list[int]:
    if given is not None:
        return [int(given)]
    return [size for size in range(1, min(devices, MOST) + 1) if devices % size == 0]


def _splits(counts: list[int], tp: int) -> bool:
    return not any(h % tp for h in counts)


def _inner(scene: Scene) -> int:
    """The largest tensor-parallel group tried: the innermost network domain, at most 16."""
    if not scene.chip.levels:
        return 1
    return int(min(scene.chip.levels[0].size, 16 if scene.chip.levels[0].level.kind == "torus" else 8))


def _reason(scene: Scene, plan: Plan, needed: Number, chosen: bool) -> str:
    """Why this plan, in one line."""
    if not chosen:
        return "the fastest layout that fits on the devices given"
    smaller = plan.devices / 2
    capacity = si(float(scene.request.hardware.memory.capacity.si), "B")
    per = si(float(needed), "B")
    if smaller < 1:
        return f"one device holds it: {per} of {capacity}"
    return f"fewest that hold it (counts double): {per} of {capacity} on each; half as many would not fit"
