"""Decode steps that captured graphs replay: a batch between two captured ones is padded up to the larger."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import PricedPass, forward_step, token_budget
from rooflinecli.formulas import closed_loop
from rooflinecli.specs.layout import Layout


def padded_to_graph(
    ctx: EstimateContext, layout: Layout, step: PricedPass, batch: Number, context: Number, prompts: bool
) -> PricedPass:
    """The step, and what padding adds in the mean of those with and without a prompt; `prompts` says whether any come.

    `batch` sequences on a stage. The host works on real ones alone, and so does attention. A round of speculation is not padded.
    """
    sizes = ctx.engine.graph_batches
    if not sizes or ctx.chip.ideal or ctx.request.speculate is not None:
        return step
    full = batch
    for size in reversed(sizes):
        full = closed_loop.padded_batch(batch, float(size), full)
    same = closed_loop.padded_context(context, batch, full)
    more = forward_step(ctx, layout, full, 1.0, same, decode=True, engine=False).seconds
    own = forward_step(ctx, layout, batch, 1.0, context, decode=True, engine=False).seconds
    share: Number = 0.0
    if prompts:
        share = closed_loop.share_with_prompts(batch, ctx.read, ctx.output, token_budget(ctx))
    added = closed_loop.padding_time(more, own, share, num.minimum(layout.dp, layout.ep))
    step.costs.add_time("padding", added, "step", 0.0)
    return PricedPass(step.costs, label(step.seconds + added, "t_decode"))
