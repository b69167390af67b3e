"""Closed loops whose clients move in bunches that no mean describes: those of short answers and of equal lengths are counted step by step."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from rooflinecli.core import num
from rooflinecli.core.derivation import solved_value
from rooflinecli.core.num import Number
from rooflinecli.engine import speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import (
    computed_tokens,
    engine_constant,
    forward_step,
    length_spread,
    lone_prefill_s,
    token_budget,
    uncaptured_launch_s,
)
from rooflinecli.engine.serving_load import (
    ReplicaLoad,
    arrivals,
    frontend_latency,
    lone_token_s,
    prefill_interference_s,
    prompt_factor,
    slots,
    token_step,
)
from rooflinecli.formulas import serving
from rooflinecli.formulas.counted_loop import DECODES, PASSES, SHARED, LoopPrices, loop_means
from rooflinecli.specs.layout import Layout

SHORT = 8  # idle first tokens: where an answer is written in less, clients move in bunches
BRIEF_ANSWER = 32.0  # tokens of an answer: of fewer each differs
SATURATED, SATURATED_ERROR = 0.6, 0.5  # share of time beyond which means of a few thousand requests differ by as much
EVICTED = 0.02  # sequences that wait for their cache again for each that runs: of more a count knows nothing
BRIEF = 512  # tokens of a prompt: many shorter ones take less than four tell
DIGITS = 7  # of prices, so that an array counts what a scalar does


class CountedMeans(NamedTuple):
    """Means of loops that were counted, `here`: first token, time of a further one, sequences in its step, relative error of both times."""

    here: Number
    first: Number
    itl: Number
    decoding: Number
    error: Number

    def instead_of(self, counted: Number, mean: Number) -> Number:
        """A counted number where the loop was counted, else the mean of a formula."""
        solved = solved_value(num.value(counted), mean, "n_loop", "s", "counted step by step: docs/simulate.md")
        return num.where(self.here, solved, mean)


def counted(ctx: EstimateContext, layout: Layout, load: ReplicaLoad) -> CountedMeans | None:
    """Of loops whose answers have at most BRIEF_ANSWER tokens, or take less than SHORT idle first tokens to write, and of closed ones of equal lengths;
    None of other loads and of schedulers that wait for more requests."""
    rules = ctx.engine.scheduler
    if (
        load.kind == "static"
        or rules.policy == "static"
        or rules.hold_steps
        or rules.poll_steps > 1
        or (ctx.engine.splits_layers and not num.one(layout.pp))
    ):
        return None
    means, (plain, bare) = _closed if load.kind == "closed" else _open, ctx.without_trace(layout)
    busy = (load.batch, load.requests_per_slot, load.evicted) if load.kind == "closed" else (load.share,)
    return ctx.memoized(layout, "counted", lambda: means(plain, bare, *map(num.value, busy)), arrays=True)


def _closed(
    ctx: EstimateContext, layout: Layout, batch: Number, per_slot: Number, evicted: Number
) -> CountedMeans | None:
    here = (ctx.request.equal_lengths | _is_brief(ctx, layout)) & (batch > 1) & (evicted < EVICTED)
    if not num.present(here):
        return None
    most = num.where(per_slot > 1, batch, num.INF)
    first, itl, decoding, longer = _count(ctx, layout, here, batch * per_slot, 0.0, most)
    return CountedMeans(here, first, itl, decoding, num.maximum(longer - 1, 0))


def _open(ctx: EstimateContext, layout: Layout, share: Number) -> CountedMeans | None:
    here = (share > 0) & (ctx.output > 1) & _is_brief(ctx, layout)
    if not num.present(here):
        return None
    first, itl, decoding, _ = _count(ctx, layout, here, 0.0, arrivals(ctx, layout)[0], slots(ctx, layout))
    return CountedMeans(here, first, itl, decoding, SATURATED_ERROR * (share > SATURATED))


def _is_brief(ctx: EstimateContext, layout: Layout) -> Number:
    """Whether answers are of few tokens, or written in little time."""
    written = num.maximum(ctx.output - 1, 0) * lone_token_s(ctx, layout)
    return (ctx.output <= BRIEF_ANSWER) | (written < SHORT * _lone(ctx, layout))


def _lone(ctx: EstimateContext, layout: Layout) -> Number:
    return lone_prefill_s(ctx, layout) + frontend_latency(ctx) + engine_constant(ctx, "per_stream", "s")


def _prices(ctx: EstimateContext, layout: Layout, rate: Number, most: Number, accepted: Number) -> tuple[Number, ...]:
    """The numbers of LoopPrices, one after the other."""
    per_token, per_stream = (engine_constant(ctx, name, "s") for name in ("per_token", "per_stream"))
    prompt, budget, rules, starts, launches = ctx.uncached_prompt, token_budget(ctx), ctx.engine.scheduler, 0.0, 0.0
    room, adds, attention = float(rules.graph_tokens), 0.0, 0.0
    spread, context = length_spread(ctx), serving.mean_context(ctx.prompt, ctx.output)
    if rules.launch and not ctx.chip.ideal:
        launches, starts = ctx.ledger.operations * engine_constant(ctx, "launch", "s"), uncaptured_launch_s(ctx)
    if rules.one_pass:
        room, adds = num.INF, uncaptured_launch_s(ctx)
    front, pieces = frontend_latency(ctx) - per_token * ctx.prompt, serving.prompt_passes(budget, prompt)
    steps = 1 + num.maximum(ctx.output - 1, 0) / accepted
    replica = front, per_token, per_stream, prompt, steps, spread, budget, pieces, layout.pp
    policy = rules.look_ahead, rules.policy == "trtllm", rules.mixed or rules.policy != "sglang", room, adds
    decodes = [lone_token_s(ctx, layout), *(token_step(ctx, layout, size, context).seconds for size in DECODES[1:])]
    shared: list[Number] = [0.0] * len(SHARED)
    if num.present(prompt * (1 - spread) < room):
        priced = [size for size in SHARED if size <= room]
        passes = [forward_step(ctx, layout, 1.0, size, size, decode=False) for size in (*priced, prompt)]
        attended = [step.costs.groups.get("attention", 0.0) for step in passes]
        shared[: len(priced)] = [step.seconds - part for step, part in zip(passes, attended, strict=True)][:-1]
        attention = attended[-1]
    power = 0.5 if ctx.ledger.moe_layers else 1.0  # of experts neither the number nor its logarithm is a line
    return (
        *replica, prompt_factor(ctx), *policy, attention, starts, launches, power, _lone(ctx, layout), ctx.requests_per_client, rate, most,
        *(step * accepted for step in decodes), *_passes(ctx, layout), *shared,
    )  # fmt: skip


def _passes(ctx: EstimateContext, layout: Layout) -> list[Number]:
    """Seconds of passes of as many prompts as PASSES says."""
    further, prompt = prefill_interference_s(ctx, layout), ctx.uncached_prompt
    found = [lone_prefill_s(ctx, layout)]
    for size, before, priced in zip(PASSES[1:], PASSES, (prompt <= token_budget(ctx), prompt < BRIEF), strict=False):
        several = found[-1] + (size - before) * further
        if num.present(priced):
            step = forward_step(ctx, layout, size, *computed_tokens(ctx), decode=False)
            several = num.where(priced, step.seconds, several)
        found.append(several)
    return found


@lru_cache(maxsize=512)  # points of a search share the prices of their layout
def _rounded(prices: tuple[float, ...]) -> LoopPrices:
    rounded: list[Any] = [float(f"{price:.{DIGITS}g}") for price in prices]
    ends = -len(SHARED) - len(PASSES) - len(DECODES), -len(SHARED) - len(PASSES), -len(SHARED), None
    return LoopPrices(*rounded[: ends[0]], *(tuple(rounded[slice(*pair)]) for pair in pairwise(ends)))


def _count(
    ctx: EstimateContext, layout: Layout, here: Number, batch: Number, rate: Number, most: Number
) -> tuple[Number, ...]:
    """First token, time of a further one, sequences in its step and how much longer both may be: of a loop, or of an array of them."""
    accepted = speculation.engine_step_time(ctx, 1.0)  # tokens of a step
    prices = _prices(ctx, layout, rate, most, accepted)

    def means(here: bool, batch: float, *prices: float) -> tuple[float, ...]:
        if not here:
            return 0.0, 0.0, 1.0, 1.0
        return loop_means(_rounded(prices), float(batch))

    found: tuple[Number, ...]
    if all(map(num.plain, (here, batch, *prices))):
        found = means(here, batch, *prices)
    else:
        import numpy as np

        found = np.vectorize(means, otypes=[float] * 4)(here, batch, *prices)
    return found[0], found[1] / accepted, *found[2:]
