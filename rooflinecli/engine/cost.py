"""Dollars per token: what input and output tokens cost adds up to what the server costs, in every verb."""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.inference import decode_seconds
from rooflinecli.engine.serving_load import load, prefill_interference_s, prompt_factor
from rooflinecli.formulas import cost
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import BLENDED, COST


def prefill_share_under_load(ctx: EstimateContext, layout: Layout) -> Number:
    """Fraction of a replica's busy time that prefills take, under the concurrency or the request rate asked for."""
    busy = load(ctx, layout)
    return prefill_share(ctx, layout, decode_seconds(ctx, layout, busy), busy.batch, busy.kind == "open")


def prefill_share(ctx: EstimateContext, layout: Layout, step_s: Number, batch: Number, open_loop: bool) -> Number:
    """The same where `batch` sequences decode in steps of `step_s` seconds."""
    factor = prompt_factor(ctx) if open_loop else 1.0
    return cost.prefill_share(factor * prefill_interference_s(ctx, layout) / layout.pp, step_s, batch, ctx.output)


def token_prices(
    usd_per_hour: Number,
    input_tokens_per_s: Number,
    output_tokens_per_s: Number,
    prefill_share: Number,
    utilization: Number,
) -> dict[str, Number]:
    """Dollars per million input tokens, output tokens, and tokens of both kinds, of a server that does both phases.

    input price x input tokens + output price x output tokens = blended price x all tokens = server dollars.
    """
    for_input = usd_per_hour * prefill_share
    return {
        COST["prefill"]: cost.usd_per_million_tokens(for_input, input_tokens_per_s, utilization),
        COST["decode"]: cost.usd_per_million_tokens(usd_per_hour - for_input, output_tokens_per_s, utilization),
        BLENDED: cost.usd_per_million_tokens(usd_per_hour, input_tokens_per_s + output_tokens_per_s, utilization),
    }
