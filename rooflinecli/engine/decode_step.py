"""A decode step of a replica: per token written, through a pipeline of stages, padded to a captured CUDA graph."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import Number
from rooflinecli.engine import speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import REGIME, PricedPass, forward_step, host_time, token_budget
from rooflinecli.formulas import closed_loop, schedule
from rooflinecli.phases.axis_sizes import pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.specs.layout import Layout


def token_step(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> PricedPass:
    """A decode step per token written, of `batch` sequences on the whole replica."""
    step = speculation.token_step(ctx, layout, sequences_per_stage(layout, batch), context)
    return pipeline_wait(ctx, layout, step, batch, context)


def sequences_per_stage(layout: Layout, batch: Number) -> Number:
    """Sequences in one pass of a pipeline stage: the batch of the replica over its stages, at least one."""
    return num.maximum(batch / layout.pp, 1)


def pipeline_wait(ctx: EstimateContext, layout: Layout, step: PricedPass, batch: Number, context: Number) -> PricedPass:
    """Add what a microbatch waits for the slowest stage; `batch` sequences on the whole replica.

    As many microbatches are in flight as the pipeline has stages, or as there are sequences. To form a step of one of them the
    engine visits all sequences, whichever it then works on.
    """
    if ctx.engine.splits_layers or (num.plain(layout.pp) and num.value(layout.pp) == 1):
        return step
    per_stage, microbatches = sequences_per_stage(layout, batch), num.minimum(num.maximum(batch, 1), layout.pp)
    seconds = step.seconds
    if not ctx.chip.ideal:
        added = microbatches * host_time(ctx, num.maximum(batch, 1)) - host_time(ctx, per_stage)
        added = added / speculation.engine_step_time(ctx, 1.0)
        step.costs.add_time("engine", added, "step", ctx.chip.constants(REGIME, "step").error)
        seconds = seconds + added
    head = _head(ctx, layout, per_stage, context)
    inner = seconds - head - step.costs.groups.get("communication", 0.0)
    # Engines split layers evenly; the last stage has the fewest, and the head.
    layers = float(ctx.ledger.n_layers)
    fullest = schedule.stage_time(schedule.layers_per_stage(layers, layout.pp), layers, inner, 0.0)
    last = schedule.stage_time(num.floor(layers / layout.pp), layers, inner, head)
    cycle = num.maximum(seconds, microbatches * schedule.slowest_stage(fullest, last))
    step.costs.add_time("bubble", cycle - seconds, "step", 0.0)
    return PricedPass(step.costs, label(cycle, "t_decode"))


def _head(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> Number:
    """Seconds of the LM head."""
    forward = ForwardPass(ctx.formats, decode=True, flash=ctx.request.flash, library=ctx.engine.library)
    costs = ctx.accumulator(REGIME, layout.devices)
    work = pass_axis_sizes(batch, 1.0, context, 1.0, layout)
    sizes = stem_head_axis_sizes(ctx.ledger, work, layout, ctx.ledger.document, ctx.lift)
    costs.add(forward.ops(ctx.ledger.head, sizes, outer=True), 1.0)
    return label(costs.total, "t_head")


def padded_to_graph(
    ctx: EstimateContext, layout: Layout, step: PricedPass, batch: Number, context: Number, prompts: bool
) -> PricedPass:
    """Add what padding to the next captured batch size costs, averaged over steps with and without a prefill chunk.

    `batch` sequences on a stage; `prompts`: whether prompts arrive at all. Host time and attention see real sequences only.
    A step of speculative decoding is not padded.
    """
    sizes = ctx.engine.scheduler.graph_batches
    if not sizes or ctx.chip.ideal or ctx.request.speculate is not None:
        return step
    padded = batch
    for size in reversed(sizes):
        padded = closed_loop.padded_batch(batch, float(size), padded)
    same = closed_loop.padded_context(context, batch, padded)
    full = forward_step(ctx, layout, padded, 1.0, same, decode=True, engine=False).seconds
    real = forward_step(ctx, layout, batch, 1.0, context, decode=True, engine=False).seconds
    mixed: Number = 0.0
    if prompts:
        mixed = closed_loop.mixed_step_fraction(batch, ctx.uncached_prompt, ctx.output, token_budget(ctx))
    added = closed_loop.padding_time(full, real, mixed, layout.expert_replicas)
    step.costs.add_time("padding", added, "step", 0.0)
    return PricedPass(step.costs, label(step.seconds + added, "t_decode"))
