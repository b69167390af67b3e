"""A decode step through a pipeline: several microbatches are under way, and each waits for the slowest stage."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import Number
from rooflinecli.engine import speculation
from rooflinecli.engine.context import Scene
from rooflinecli.engine.forward_step import REGIME, Step, host_time
from rooflinecli.formulas import schedule
from rooflinecli.phases.axis_sizes import outer_sizes, work_sizes
from rooflinecli.phases.forward import Pass
from rooflinecli.specs.layout import Plan


def token_step(scene: Scene, plan: Plan, batch: Number, context: Number) -> Step:
    """A decode step per token written, of `batch` sequences on the whole replica."""
    step = speculation.token_step(scene, plan, sequences_per_stage(plan, batch), context)
    return waiting(scene, plan, step, batch, context)


def sequences_per_stage(plan: Plan, batch: Number) -> Number:
    """Sequences that one pass of a pipeline stage works on: the batch of the replica over its stages, at least one."""
    return num.maximum(batch / plan.pp, 1)


def waiting(scene: Scene, plan: Plan, step: Step, batch: Number, context: Number) -> Step:
    """The step, and what its microbatch waits for the slowest stage; `batch` sequences on the whole replica.

    As many microbatches as the pipeline has stages are under way, or as there are sequences. Each time the engine forms a step of one it
    looks at all sequences, whichever it then works on. Raises nothing.
    """
    if scene.engine.splits_layers or (num.plain(plan.pp) and num.value(plan.pp) == 1):
        return step
    each, microbatches = sequences_per_stage(plan, batch), num.minimum(num.maximum(batch, 1), plan.pp)
    once = step.seconds
    if not scene.chip.ideal:
        looked = microbatches * host_time(scene, num.maximum(batch, 1)) - host_time(scene, each)
        looked = looked / speculation.round_time(scene, 1.0)
        step.bill.spend("engine", looked, "step", scene.chip.constants(REGIME, "step").error)
        once = once + looked
    head = _head(scene, plan, each, context)
    inner = once - head - step.bill.groups.get("communication", 0.0)
    cycle = schedule.pipeline_cycle(once, microbatches, _slowest(float(scene.book.n_layers), plan, inner, head))
    step.bill.spend("bubble", cycle - once, "step", 0.0)
    return Step(step.bill, label(cycle, "t_decode"))


def _slowest(layers: float, plan: Plan, inner: Number, head: Number) -> Number:
    """Seconds of the slowest stage, as engines share layers out: evenly, the last with the fewest layers and the head."""
    fullest = schedule.stage_time(schedule.layers_per_stage(layers, plan.pp), layers, inner, 0.0)
    return schedule.slowest_stage(fullest, schedule.stage_time(num.floor(layers / plan.pp), layers, inner, head))


def _head(scene: Scene, plan: Plan, batch: Number, context: Number) -> Number:
    """Seconds of what stands behind the last layer."""
    forward = Pass(scene.formats, decode=True, flash=scene.request.flash, library=scene.engine.library)
    bill = scene.bill(REGIME, plan.devices)
    work = work_sizes(batch, 1.0, context, 1.0, plan)
    bill.add(
        forward.ops(scene.book.head, outer_sizes(scene.book, work, plan, scene.book.document, scene.lift), outer=True),
        1.0,
    )
    return label(bill.total, "t_head")
