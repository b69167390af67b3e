"""A replica under load: how many sequences it decodes at once, and the time that other requests' prefills add.

Three kinds of load. `--batch b`: b sequences decode and no prompt arrives (static). `--concurrency b`: a closed loop, in which each
request that ends is followed by a new one. `--qps r`: an open loop, requests arrive at a rate over the whole deployment.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import Infeasible
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.solve import solved_value
from rooflinecli.engine import decode_step
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import (
    computed_tokens,
    engine_constant,
    forward_step,
    prefill_pass,
    token_budget,
    uncaptured_launch_s,
)
from rooflinecli.engine.residency import max_batch
from rooflinecli.formulas import closed_loop, serving
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import MOST

MANY = 1048576.0  # prompts in one pass, among which weights and kernel launches are shared until they vanish
ROUNDS = 8
BEHIND = 1e-3  # of the sequences in flight: a request rate missed by more is not sustained
VARIATION = 0.2  # of a length given as one number
LEAST = 1e-12  # sequences in flight: a request rate may be arbitrarily low


@dataclass(slots=True, eq=False, repr=False)
class ReplicaLoad:
    """Sequences that a replica decodes at once, and in seconds what one more prompt adds (0 when none arrives); `share`: fraction of time
    that prefills take in an open loop."""

    kind: str
    batch: Number
    max_batch: Number
    prefill_interference_s: Number = 0.0
    share: Number = 0.0


def load(ctx: EstimateContext, layout: Layout) -> ReplicaLoad:
    """The load asked for, on one replica. Raises Infeasible for a request rate that it cannot sustain."""
    return ctx.memoized(layout, "load", lambda: _load(ctx, layout))


def _load(ctx: EstimateContext, layout: Layout) -> ReplicaLoad:
    r, largest = ctx.request, max_batch(ctx, layout)
    if r.qps is not None:
        return _open_loop(ctx, layout, largest)
    if r.concurrency is None:
        return ReplicaLoad("static", ctx.batch, largest)
    batch = num.maximum(largest, 1) if r.concurrency is MOST else ctx.batch
    return ReplicaLoad("closed", batch, largest, prefill_interference_s(ctx, layout))


def sequences(ctx: EstimateContext, layout: Layout) -> Number:
    """Sequences that a replica decodes at once."""
    r = ctx.request
    return ctx.batch if r.qps is None and r.concurrency is None else load(ctx, layout).batch


def prefill_interference_s(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds that one more prompt adds to a busy replica: its prefill without weights to stream or kernels to launch."""

    def seconds() -> Number:
        read, keys = computed_tokens(ctx)
        step = forward_step(ctx, layout, MANY, read, keys, decode=False, engine=False)
        return label(step.seconds / MANY, "t_pre")

    return ctx.memoized(layout, "prefill interference", seconds)


def arrivals(ctx: EstimateContext, layout: Layout) -> tuple[Number, Number, Number]:
    """Requests per second on a replica, seconds that a prompt takes, and the fraction of time that they take together."""
    rate = ctx.from_flag("qps", ctx.request.qps, "1/s", "--qps") / layout.dp
    cost = prompt_factor(ctx) * prefill_interference_s(ctx, layout)
    return rate, cost, rate * cost


def prompt_factor(ctx: EstimateContext) -> Number:
    """How much longer a prefill takes where others decode."""
    return engine_constant(ctx, "prompt_factor_moe" if ctx.ledger.moe_layers else "prompt_factor", "1")


def _open_loop(ctx: EstimateContext, layout: Layout, largest: Number) -> ReplicaLoad:
    """Sequences in flight follow from the request rate and the ITL that they cause: a fixed point, by secants."""
    rate, cost, share = arrivals(ctx, layout)
    qps = num.value(ctx.request.qps)
    if num.plain(share) and num.value(share) >= 1:
        raise Infeasible(
            f"--qps {qps:g}: prompts alone would keep each replica busy {float(num.value(share)):.0%} "
            "of the time; use more replicas (--dp) or a lower rate"
        )
    plain, bare = ctx.without_trace(layout)
    context = serving.mean_context(plain.prompt, plain.output)
    left, per_second = 1 - num.value(share), num.value(rate)

    def excess(batch: Number) -> Number:
        itl = open_itl(plain, bare, decode_step.token_step(plain, bare, batch + 1, context).seconds, 1 - left)
        return serving.sequences_in_flight(per_second, plain.output, itl) - batch

    batch = _root(excess, num.value(largest))
    if num.plain(batch) and is_unstable(excess(batch), batch):
        raise Infeasible(
            f"--qps {qps:g}: a replica falls behind, with {float(batch):,.0f} sequences in flight it makes fewer tokens "
            "than are asked for; use more replicas (--dp) or a lower rate"
        )
    return ReplicaLoad("open", solved_value(batch, rate, "b", "sequences", "b = qps S_o ITL(b)"), largest, cost, share)


def open_itl(ctx: EstimateContext, layout: Layout, step: Number, share: Number) -> Number:
    """Inter-token latency of an open loop: the decode step with the prompts that arrive while it runs."""
    rate, cost, _ = arrivals(ctx, layout)
    starts = mixed_overhead(ctx, layout, step)
    itl = serving.open_loop_itl(step, share, rate, starts)
    return itl + serving.backlog_interference(share, cost, ctx.output, rate, starts)


def mixed_overhead(ctx: EstimateContext, layout: Layout, step: Number) -> Number:
    """Seconds by which a step with one prompt is longer than its decodes and that prompt's share of a full pass."""
    factor = prompt_factor(ctx)
    if not ctx.engine.scheduler.look_ahead:
        # A compiled runtime reads weights once for prompts and decodes: open loops of TensorRT-LLM 0.14.
        return uncaptured_launch_s(ctx)
    alone = ctx.memoized(layout, "lone prefill", lambda: prefill_pass(ctx, layout).seconds)
    decode = 0.0 * step if ctx.engine.prompts_first else step  # else they stall
    passes = serving.prompt_passes(token_budget(ctx), ctx.uncached_prompt)
    mixed = mixed_in_graph(ctx, layout, 1.0, decode, factor, mixed_step_s(ctx, decode, alone, factor, passes))
    return num.maximum(mixed - passes * decode - factor * prefill_interference_s(ctx, layout), 0.0)


def restart_fraction(ctx: EstimateContext, layout: Layout, load: ReplicaLoad, step: Number) -> Number:
    """Fraction of a closed loop's decode time for kernels and weights of steps with a prompt, were each to start its own: a simulation
    has it in its steps, means leave it out."""
    a = closed_loop.arrivals_per_step(num.maximum(load.batch - 1, 0), ctx.output)
    starts = (1 - 2.718281828459045 ** (-a)) * mixed_overhead(ctx, layout, step)
    return starts / (step + a * prompt_factor(ctx) * load.prefill_interference_s + starts)


def mixed_step_s(ctx: EstimateContext, decode: Number, prefill: Number, factor: Number, passes: Number) -> Number:
    """A mixed step outside CUDA graphs: kernel launches replace what the engine adds to the start of a prefill."""
    launches: Number = 0.0
    if ctx.engine.scheduler.launch and not ctx.chip.ideal:
        launches = ctx.ledger.operations * engine_constant(ctx, "launch", "s")
        prefill = prefill - uncaptured_launch_s(ctx)
    return label(closed_loop.mixed_step(decode, prefill, factor, launches, passes), "t_mixed")


def mixed_in_graph(
    ctx: EstimateContext, layout: Layout, batch: Number, decode: Number, factor: Number, mixed: Number
) -> Number:
    """A mixed step that a captured graph has room for is one pass, in which prefill and decodes share the weights; else `mixed`."""
    room = ctx.engine.scheduler.graph_tokens
    if not room:
        return mixed
    share = closed_loop.share_that_fits(
        ctx.uncached_prompt, room - batch, 0.0 if ctx.request.equal_lengths else VARIATION
    )
    if num.plain(share) and not num.value(share):
        return mixed
    both = forward_step(ctx, layout, 1.0, ctx.uncached_prompt + batch, ctx.prompt, decode=False).seconds
    decodes = forward_step(ctx, layout, 1.0, batch, 1.0, decode=False).seconds
    in_graph = label(closed_loop.mixed_step(decode, both - decodes, factor, 0.0, 1.0), "t_mixed")
    whole = num.plain(share) and num.value(share) == 1
    return in_graph if whole else share * in_graph + (1 - share) * mixed


def is_unstable(excess: Number, batch: Number) -> bool:
    """Whether a request rate brings more sequences than `batch` of them end, beyond the error of the search for it."""
    return bool(excess > BEHIND * batch)


def _root(excess: Callable[[Number], Number], most: Number) -> Number:
    """Where a convex, falling function of the batch crosses zero; four times `most` when it does not before."""
    before, farthest = 0.0 * most + 1.0, 4 * num.maximum(most, 1.0)
    now = num.maximum(before + excess(before), LEAST)
    f_before = excess(before)
    for _ in range(ROUNDS):
        f_now = excess(now)
        slope = (f_now - f_before) / num.where(now == before, 1.0, now - before)
        flat = num.where(f_now > 0, farthest, now)  # more in flight only adds to what is asked for
        following = num.where(slope < 0, now - f_now / num.where(slope < 0, slope, -1.0), flat)
        before, f_before, now = now, f_now, num.minimum(num.maximum(following, LEAST), farthest)
    return now
