"""Closed loops whose clients move in bunches that no mean describes: those of short answers and of equal lengths are counted step by step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from rooflinecli.core import num
from rooflinecli.core.derivation import solved_value
from rooflinecli.core.num import INF, Number
from rooflinecli.engine import speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import (
    computed_tokens,
    engine_constant,
    forward_step,
    lone_prefill_s,
    token_budget,
    uncaptured_launch_s,
)
from rooflinecli.engine.serving_load import (
    VARIATION,
    ReplicaLoad,
    frontend_latency,
    lone_token_s,
    prefill_interference_s,
    prompt_factor,
    token_step,
)
from rooflinecli.formulas import serving
from rooflinecli.formulas.counted_loop import PRICED, LoopPrices, count
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import MOST

SHORT = 8  # idle first tokens: where an answer is written in less, clients move in bunches
FEW = 64  # tokens of an answer: of more, clients beyond those that are counted have the means that agree with measured servers
SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)  # clients that are counted; means of others lie between them
BRIEF = 512  # tokens of a prompt: many shorter ones take less than four tell
DIGITS = 7  # of prices, so that an array counts what a scalar does


class CountedMeans(NamedTuple):
    """Means of loops that were counted, `here`: bounds of the seconds of a request, those of its first token, those that prompts of others
    add to a token, and sequences in a decode step. More clients than were counted have means of formulas within the bounds."""

    here: Number
    least: Number
    most: Number
    first: Number
    added: Number
    decoding: Number

    def instead_of(self, counted: Number, mean: Number) -> Number:
        """A counted number where the loop was counted, else the mean of a formula."""
        solved = solved_value(num.value(counted), mean, "n_loop", "s", "counted step by step: docs/simulate.md")
        return num.where(self.here, solved, mean)


def counted(ctx: EstimateContext, layout: Layout, load: ReplicaLoad) -> CountedMeans | None:
    """Of a closed loop of equal lengths, or of answers that take less than SHORT idle first tokens to write; None of other loads and of
    schedulers that wait for more requests."""
    r, rules, batch = ctx.request, ctx.engine.scheduler, num.value(load.batch)
    if load.kind != "closed" or num.value(r.concurrency) is MOST or not num.present(batch > 1):
        return None
    if rules.policy == "static" or rules.hold_steps or rules.poll_steps > 1 or ctx.engine.splits_layers:
        return None
    return ctx.memoized(layout, "counted", lambda: _means(*ctx.without_trace(layout), batch), arrays=True)


def _means(ctx: EstimateContext, layout: Layout, batch: Number) -> CountedMeans | None:
    tokens, context = num.maximum(ctx.output - 1, 0), serving.mean_context(ctx.prompt, ctx.output)
    lone = lone_prefill_s(ctx, layout) + frontend_latency(ctx) + engine_constant(ctx, "per_stream", "s")
    single = lone_token_s(ctx, layout)
    short = ctx.request.equal_lengths | (tokens * single < SHORT * lone)
    if not num.present(short):
        return None
    accepted = speculation.engine_step_time(ctx, 1.0)  # tokens of a step
    decodes = (single, *(token_step(ctx, layout, size, context).seconds for size in PRICED[1:]))
    prices = (
        *_prices(ctx, layout, 1 + tokens / accepted),
        *(step * accepted for step in decodes),
        *_passes(ctx, layout),
    )
    knots: list[tuple[Number, ...]] = [(1.0, lone + tokens * single, lone, 0.0 * single, 1.0)]
    most, each = float(batch) if num.plain(batch) else float(batch.max()), ctx.requests_per_client
    for size in SIZES[1 : 2 + sum(size < most for size in SIZES[1:-1])]:
        burst, later, step, added, decoding = _count(short, size, *prices)
        first = burst / each + (1 - 1 / each) * later
        slowest = knots[-1][1] * size / knots[-1][0]  # more clients do not make fewer tokens
        request = num.minimum(first + tokens * (step + added) / accepted, slowest)
        knots.append((float(size), request, first, added / accepted, decoding))
    top, slowest = knots[-1][:2]
    short = short & (batch > 1)
    here = short & ((batch <= top) | (ctx.output <= FEW) | ctx.request.equal_lengths)
    request, *others = (_interpolated(knots, i, batch) for i in (1, 2, 3, 4))
    most = num.where(here, request, slowest * num.maximum(batch / top, 1))
    return CountedMeans(here, num.where(here, request, slowest) * short, num.where(short, most, INF), *others)


def _prices(ctx: EstimateContext, layout: Layout, steps: Number) -> tuple[Number, ...]:
    """Of LoopPrices those before the decode steps; an answer takes `steps` steps."""
    per_token, per_stream = (engine_constant(ctx, name, "s") for name in ("per_token", "per_stream"))
    prompt, budget, rules = ctx.uncached_prompt, token_budget(ctx), ctx.engine.scheduler
    spread, replayed, starts, launches = 0.0 if ctx.request.equal_lengths else VARIATION, 0.0, 0.0, 0.0
    if num.present(prompt * (1 - spread) < rules.graph_tokens):
        sizes = num.minimum(prompt, rules.graph_tokens) + 8, 8.0
        both, decodes = (forward_step(ctx, layout, 1.0, n, n, decode=False).seconds for n in sizes)
        replayed = both - decodes
    if rules.launch and not ctx.chip.ideal:
        launches, starts = ctx.ledger.operations * engine_constant(ctx, "launch", "s"), uncaptured_launch_s(ctx)
    front, pieces = frontend_latency(ctx) - per_token * ctx.prompt, serving.prompt_passes(budget, prompt)
    replica = front, per_token, per_stream, prompt, steps, spread, budget, pieces, layout.pp, prompt_factor(ctx)
    policy = rules.look_ahead, rules.policy == "trtllm", rules.mixed or rules.policy != "sglang", rules.graph_tokens
    return *replica, *policy, replayed, starts, launches


def _passes(ctx: EstimateContext, layout: Layout) -> tuple[Number, ...]:
    """Seconds of passes of as many prompts as PRICED says."""
    alone, further, prompt = lone_prefill_s(ctx, layout), prefill_interference_s(ctx, layout), ctx.uncached_prompt
    found = [alone]
    for size, before, priced in zip(PRICED[1:], PRICED, (prompt <= token_budget(ctx), prompt < BRIEF), strict=False):
        several = found[-1] + (size - before) * further
        if num.present(priced):
            step = forward_step(ctx, layout, size, *computed_tokens(ctx), decode=False)
            several = num.where(priced, step.seconds, several)
        found.append(several)
    return tuple(found)


def _count(short: Number, size: int, *prices: Number) -> tuple[Number, ...]:
    """Means of a loop, or of an array of them where answers are short."""

    def means(short: bool, *prices: float) -> tuple[float, ...]:
        rounded: list[Any] = [float(f"{price:.{DIGITS}g}") for price in prices]
        return count(LoopPrices(*rounded), size) if short else (0.0, 0.0, 0.0, 0.0, 1.0)

    if all(map(num.plain, (short, *prices))):
        return means(short, *prices)
    import numpy as np

    found: tuple[Number, ...] = np.vectorize(means, otypes=[float] * 5)(short, *prices)
    return found


def _interpolated(knots: list[tuple[Number, ...]], i: int, batch: Number) -> Number:
    """The i-th mean between those of the sizes counted; beyond the largest it grows as before it, at most in proportion."""
    low, high = knots[-2:]
    growth = num.minimum(num.maximum((high[i] - low[i]) / (high[0] - low[0]), 0), high[i] / high[0])
    found = knots[0][i] + growth * num.maximum(batch - high[0], 0)
    for low, high in pairwise(knots):
        found = found + (high[i] - low[i]) * num.minimum(num.maximum((batch - low[0]) / (high[0] - low[0]), 0), 1)
    return found
