"""Closed loops counted step by step, where clients move in bunches that no mean describes: short answers and equal lengths.

The rules are those of a simulated scheduler (simulate/replica, simulate/policies), with a few prices in place of tables.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise
from math import ceil
from typing import NamedTuple

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
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import MOST
from rooflinecli.specs.scheduler import Scheduler

SHORT = 8  # idle first tokens: where an answer is written in less, clients move in bunches
FEW = 64  # tokens of an answer: of more, clients beyond those that are counted have the means that agree with measured servers
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # clients that are counted; means of others lie between them
PRICED = (1.0, 4.0, 32.0)  # sequences of a decode step, and prompts of a pass
BRIEF = 512  # tokens of a prompt: many shorter ones take less than four tell
REQUESTS, EACH = 48, 12  # counted in all, and of each client, at least
GOLDEN, SILVER = 0.6180339887498949, 0.41421356237309515  # multiples modulo 1 are spread evenly: lengths without a seed
DIGITS = 7  # of prices, so that an array counts what a scalar does


class LoopPrices(NamedTuple):
    """Seconds and tokens of a replica: of a prompt in a captured graph (`replayed`), what launches replace (`starts`) and the least they
    take; steps of as many sequences (`decode_*`) or prompts (`pass_*`) as PRICED says."""

    front: float
    per_token: float
    per_stream: float
    prompt: float
    steps: float
    spread: float
    budget: float
    pieces: float
    stages: float
    factor: float
    replayed: float
    starts: float
    launches: float
    decode_1: float
    decode_4: float
    decode_32: float
    pass_1: float
    pass_4: float
    pass_32: float

    def mixed(self, tokens: float, riding: int, busy: bool, room: int) -> tuple[float, float]:
        """Seconds of a pass of prompts, where others decode or none, and the least that its launches take."""
        prompts, further = tokens / self.prompt, (self.pass_4 - self.pass_1) / (PRICED[1] - 1)
        if busy and tokens + riding <= room:
            return self.replayed * prompts * self.factor, 0.0
        if prompts > 1:
            added = between(self.pass_1, self.pass_4, self.pass_32, prompts, 1.0)
        else:
            added = self.pass_1 * prompts + (self.pass_1 - further) * (1 / self.pieces - prompts)
        if busy and self.launches:
            return max(added - self.starts, 0.0) * self.factor, self.launches
        return added * (self.factor if busy else 1.0), 0.0


def between(one: float, few: float, many: float, size: float, power: float) -> float:
    """A price of any size from those of PRICED, on straight lines over a power of the size."""
    (low, high), (before, after) = (PRICED[:2], (one, few)) if size <= PRICED[1] else (PRICED[1:], (few, many))
    return before + (after - before) * (size**power - low**power) / (high**power - low**power)


@lru_cache(maxsize=4096)
def count(p: LoopPrices, rules: Scheduler, clients: int) -> tuple[float, ...]:
    """Mean first tokens of the burst and of requests that follow another; of a token its decode step, what prompts add to it, and sequences
    in that step."""
    whole, rides = rules.policy == "trtllm", rules.mixed or rules.policy != "sglang"
    prices = (
        p.decode_1,
        p.decode_4,
        p.decode_32,
    )  # over a root: of experts neither the number nor its logarithm is a line
    decodes = [0.0, *(between(*prices, size, 0.5) for size in range(1, clients + 1))]
    shortest, longer = p.prompt * (1 - p.spread), p.prompt * 2 * p.spread
    fewest, more = p.steps * (1 - p.spread) + 0.5, p.steps * 2 * p.spread
    future: deque[tuple[float, float, int, float]] = deque()  # (seen by the scheduler at, prompt, steps, sent at)
    waiting: deque[tuple[float, float, int, float]] = deque()
    ends: list[int] = []  # counts of decode steps at which sequences end
    due = [0.0] * clients  # instants at which clients send their next requests
    now = decided = ready = burst = later = stalled = decoded = 0.0
    tick = sent = seen = written = squares = 0
    while seen < max(REQUESTS, EACH * clients):
        for place, instant in enumerate(due, clients + 1 - len(due)):
            sent += 1
            prompt = shortest + longer * (sent * GOLDEN % 1.0)
            ready = max(instant + p.front + p.per_token * prompt + p.per_stream * place, ready)
            future.append((ready, prompt, int(fewest + more * (sent * SILVER % 1.0)) or 1, instant))
        due.clear()
        batch = len(ends)
        if not batch and not waiting:
            now = decided = max(now, future[0][0])
        while future and future[0][0] <= (decided if rules.look_ahead else now):
            waiting.append(future.popleft())
        if waiting and (left := p.budget - batch * rides) > 0:
            riding, tokens, read, decided = batch * rides, 0.0, [], now
            while waiting and left > 0 and not (whole and tokens and waiting[0][1] > left):
                at, need, steps, instant = waiting.popleft()
                take = need if whole or need < left else left
                tokens, left = tokens + take, left - take
                if take < need:
                    waiting.appendleft((at, need - take, steps, instant))
                else:
                    read.append((steps, instant))
            added, least = p.mixed(tokens, riding, batch > 0, rules.graph_tokens)
            seconds = max(decodes[riding] + added / p.stages, least / p.stages)
            now, stalled = now + seconds, stalled + (seconds - decodes[riding]) * batch
            first = now + added * (
                1 - 1 / p.stages
            )  # a pipeline takes the next prompts while its last stages finish these
            for steps, instant in read:
                seen += 1
                burst, later = (burst + first - instant, later) if seen <= clients else (burst, later + first - instant)
                if steps > 1:
                    heappush(ends, tick + (riding > 0) + steps - 1)
                else:
                    due.append(first)
            steps = int(riding > 0)
        else:
            riding, steps = batch, ends[0] - tick
            if future:
                until = max(ceil((future[0][0] - now) / decodes[batch] - 1e-9), 0) + rules.look_ahead
                steps = min(steps, until) or 1
            decided, now = now + decodes[batch] * (steps - 1), now + decodes[batch] * steps
        tick += steps
        written += steps * riding
        squares += steps * riding * riding
        decoded += steps * riding * decodes[riding]
        while ends and ends[0] <= tick:
            heappop(ends)
            due.append(now)
    written = written or 1
    return burst / clients, later / (seen - clients), decoded / written, stalled / written, max(squares / written, 1.0)


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
    short = (batch > 1) & (ctx.request.equal_lengths | (tokens * single < SHORT * lone))
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
        burst, later, step, added, decoding = _count(short, size, ctx.engine.scheduler, *prices)
        first = burst / each + (1 - 1 / each) * later
        slowest = knots[-1][1] * size / knots[-1][0]  # more clients do not make fewer tokens
        request = num.minimum(first + tokens * (step + added) / accepted, slowest)
        knots.append((float(size), request, first, added / accepted, decoding))
    top, slowest = knots[-1][:2]
    here = short & ((batch <= top) | (ctx.output <= FEW) | ctx.request.equal_lengths)
    request, *others = (_interpolated(knots, i, batch) for i in (1, 2, 3, 4))
    most = num.where(here, request, slowest * num.maximum(batch / top, 1))
    return CountedMeans(here, num.where(here, request, slowest) * short, num.where(short, most, INF), *others)


def _prices(ctx: EstimateContext, layout: Layout, steps: Number) -> tuple[Number, ...]:
    """The prices before those of decode steps; an answer takes `steps` steps."""
    per_token, per_stream = (engine_constant(ctx, name, "s") for name in ("per_token", "per_stream"))
    prompt, budget, room = ctx.uncached_prompt, token_budget(ctx), ctx.engine.scheduler.graph_tokens
    spread, replayed, starts, launches = 0.0 if ctx.request.equal_lengths else VARIATION, 0.0, 0.0, 0.0
    if num.present(prompt * (1 - spread) < room):
        sizes = num.minimum(prompt, room) + 8, 8.0
        both, decodes = (forward_step(ctx, layout, 1.0, n, n, decode=False).seconds for n in sizes)
        replayed = both - decodes
    if ctx.engine.scheduler.launch and not ctx.chip.ideal:
        launches, starts = ctx.ledger.operations * engine_constant(ctx, "launch", "s"), uncaptured_launch_s(ctx)
    front, pieces = frontend_latency(ctx) - per_token * ctx.prompt, serving.prompt_passes(budget, prompt)
    replica = front, per_token, per_stream, prompt, steps, spread, budget, pieces, layout.pp
    return *replica, prompt_factor(ctx), replayed, starts, launches


def _passes(ctx: EstimateContext, layout: Layout) -> tuple[Number, ...]:
    """Seconds of passes of as many prompts as PRICED says."""
    further, prompt, (low, high) = prefill_interference_s(ctx, layout), ctx.uncached_prompt, PRICED[1:]
    alone = lone_prefill_s(ctx, layout)
    few, many = alone + (low - 1) * further, (high - low) * further
    if num.present(prompt <= token_budget(ctx)):
        several = forward_step(ctx, layout, low, *computed_tokens(ctx), decode=False).seconds
        few = num.where(prompt > token_budget(ctx), few, several)
    if num.present(prompt < BRIEF):
        several = forward_step(ctx, layout, high, *computed_tokens(ctx), decode=False).seconds
        many = num.where(prompt < BRIEF, several - few, many)
    return alone, few, few + many


def _count(short: Number, size: int, rules: Scheduler, *prices: Number) -> tuple[Number, ...]:
    """Means of a loop, or of an array of them where answers are short."""

    def means(short: bool, *prices: float) -> tuple[float, ...]:
        rounded = (float(f"{price:.{DIGITS}g}") for price in prices)
        return count(LoopPrices(*rounded), rules, size) if short else (0.0, 0.0, 0.0, 0.0, 1.0)

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
