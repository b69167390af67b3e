"""Dollars of phases: per million tokens, and of a whole run when its tokens are given."""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.cost import prefill_share_under_load, token_prices
from rooflinecli.engine.derived import derive
from rooflinecli.engine.evaluate import priced
from rooflinecli.engine.phase_answer import PhaseAnswer, TrainAnswer
from rooflinecli.formulas import capacity, energy, training
from rooflinecli.formulas import cost as money
from rooflinecli.questions.estimate.answer_types import Cost
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import BLENDED, COST


def cost(ctx: EstimateContext, phases: dict[str, PhaseAnswer], plans: dict[str, Layout]) -> Cost:
    """Return the cost of the phases under their layouts at the context's price; sets the steps and time of a run on the training answer."""
    train, price = phases.get("train"), ctx.price
    if isinstance(train, TrainAnswer) and ctx.request.tokens is not None:
        tokens = ctx.from_flag("T", ctx.request.tokens, "tokens", "--tokens")
        train.steps = training.training_steps(tokens, ctx.train_batch, ctx.seq)
        train.run_s = train.steps * train.time_s
        derive(ctx, ctx.lifted(plans["train"]), "train", train)
    _joules_per_request(ctx, phases)
    if price is None:
        return Cost()
    usd: dict[str, Number] = {}
    for phase, answer in phases.items():
        hourly = money.fleet_price(ctx.lifted(plans[phase]).devices, price)
        if phase != "train" and (ctx.request.concurrency is not None or ctx.request.qps is not None):
            prices = _under_load(ctx, ctx.lifted(plans[phase]), hourly)
            usd |= {COST[phase]: prices[COST[phase]], BLENDED: prices[BLENDED]}
        else:
            usd[COST[phase]] = money.usd_per_million_tokens(hourly, answer.tokens_per_s, ctx.utilization)
        if isinstance(answer, TrainAnswer) and answer.run_s is not None:
            usd["training_usd"] = money.run_cost(answer.run_s, hourly)
    if BLENDED not in usd and {"prefill", "decode"} <= set(phases):
        usd[BLENDED] = money.blended_price(usd[COST["prefill"]], usd[COST["decode"]], ctx.request_tokens, ctx.output)
    return Cost(**usd, usd_per_device_hour=price)


def _joules_per_request(ctx: EstimateContext, phases: dict[str, PhaseAnswer]) -> None:
    """Set the energy of a request whose prompt and output tokens run apart, as a batch does."""
    prefill, decode = phases.get("prefill"), phases.get("decode")
    if prefill is None or decode is None or "joules_per_request" in decode.derived:
        return
    if "joules_per_token" in prefill.derived and "joules_per_token" in decode.derived:
        prompt = prefill.derived["joules_per_token"] * ctx.request_tokens
        each = decode.derived["joules_per_token"]
        decode.derived["joules_per_request"] = energy.joules_per_request(prompt, each, ctx.output)


def _under_load(ctx: EstimateContext, layout: Layout, hourly: Number) -> dict[str, Number]:
    """Token prices of a server that prefills and decodes at once."""
    output_rate = priced(ctx, layout, "decode").tokens_per_s
    input_rate = capacity.request_rate(output_rate, ctx.output) * ctx.request_tokens
    return token_prices(hourly, input_rate, output_rate, prefill_share_under_load(ctx, layout), ctx.utilization)
