"""A decode step through a pipeline: several microbatches are under way, and each waits for the slowest stage."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import Number
from rooflinecli.engine import speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import REGIME, PricedPass, host_time
from rooflinecli.formulas import schedule
from rooflinecli.phases.axis_sizes import pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.specs.layout import Layout


def token_step(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> PricedPass:
    """A decode step per token written, of `batch` sequences on the whole replica."""
    step = speculation.token_step(ctx, layout, sequences_per_stage(layout, batch), context)
    return pipeline_wait(ctx, layout, step, batch, context)


def sequences_per_stage(layout: Layout, batch: Number) -> Number:
    """Sequences that one pass of a pipeline stage works on: the batch of the replica over its stages, at least one."""
    return num.maximum(batch / layout.pp, 1)


def pipeline_wait(ctx: EstimateContext, layout: Layout, step: PricedPass, batch: Number, context: Number) -> PricedPass:
    """The step, and what its microbatch waits for the slowest stage; `batch` sequences on the whole replica.

    As many microbatches as the pipeline has stages are under way, or as there are sequences. Each time the engine forms a step of one it
    looks at all sequences, whichever it then works on. Raises nothing.
    """
    if ctx.engine.splits_layers or (num.plain(layout.pp) and num.value(layout.pp) == 1):
        return step
    each, microbatches = sequences_per_stage(layout, batch), num.minimum(num.maximum(batch, 1), layout.pp)
    once = step.seconds
    if not ctx.chip.ideal:
        looked = microbatches * host_time(ctx, num.maximum(batch, 1)) - host_time(ctx, each)
        looked = looked / speculation.engine_step_time(ctx, 1.0)
        step.costs.add_time("engine", looked, "step", ctx.chip.constants(REGIME, "step").error)
        once = once + looked
    head = _head(ctx, layout, each, context)
    inner = once - head - step.costs.groups.get("communication", 0.0)
    cycle = schedule.pipeline_cycle(once, microbatches, _slowest(float(ctx.ledger.n_layers), layout, inner, head))
    step.costs.add_time("bubble", cycle - once, "step", 0.0)
    return PricedPass(step.costs, label(cycle, "t_decode"))


def _slowest(layers: float, layout: Layout, inner: Number, head: Number) -> Number:
    """Seconds of the slowest stage, as engines share layers out: evenly, the last with the fewest layers and the head."""
    fullest = schedule.stage_time(schedule.layers_per_stage(layers, layout.pp), layers, inner, 0.0)
    return schedule.slowest_stage(fullest, schedule.stage_time(num.floor(layers / layout.pp), layers, inner, head))


def _head(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> Number:
    """Seconds of what stands behind the last layer."""
    forward = ForwardPass(ctx.formats, decode=True, flash=ctx.request.flash, library=ctx.engine.library)
    costs = ctx.bill(REGIME, layout.devices)
    work = pass_axis_sizes(batch, 1.0, context, 1.0, layout)
    costs.add(
        forward.ops(
            ctx.ledger.head, stem_head_axis_sizes(ctx.ledger, work, layout, ctx.ledger.document, ctx.lift), outer=True
        ),
        1.0,
    )
    return label(costs.total, "t_head")
