"""A replica under load: how many sequences it decodes at once, and what other requests' prompts add to the times of one.

Three ways to say the load. `--batch b`: b sequences decode, no prompt arrives (static). `--concurrency b`: a closed loop,
each finished request is followed by a new one. `--qps r`: an open loop, requests arrive at a rate over the whole deployment.
"""

from __future__ import annotations

from typing import Any

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import Infeasible
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.solve import solved_value
from rooflinecli.engine import lora_serving, pipelined_decode
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import computed_tokens, engine_constant, forward_step
from rooflinecli.engine.host_offload import on_device
from rooflinecli.engine.speculation import draft_bytes
from rooflinecli.formulas import offload, serving
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import MOST

MANY = 1048576.0  # prompts in one pass, so that weights and starts are shared among enough of them to vanish
ROUNDS = 8
BEHIND = 1e-3  # of the sequences in flight: a rate missed by more is not carried
LEAST = 1e-12  # sequences in flight: a rate may be as low as one likes


@dataclass(slots=True, eq=False, repr=False)
class ReplicaLoad:
    """Sequences decoding at once on a replica, and what a further prompt costs it (0 when none arrives)."""

    kind: str
    batch: Number
    largest: Number
    prefill_interference_s: Number = 0.0
    share: Number = 0.0


def load(ctx: EstimateContext, layout: Layout) -> ReplicaLoad:
    """The load that the request asks for, on one replica."""
    return ctx.memoized(layout, "load", lambda: _load(ctx, layout))


def _load(ctx: EstimateContext, layout: Layout) -> ReplicaLoad:
    r, largest = ctx.request, largest_batch(ctx, layout)
    if r.qps is not None:
        return _open(ctx, layout, largest)
    if r.concurrency is None:
        return ReplicaLoad("static", ctx.batch, largest)
    batch = num.maximum(largest, 1) if r.concurrency is MOST else ctx.batch
    return ReplicaLoad("closed", batch, largest, prefill_interference_s(ctx, layout))


def sequences(ctx: EstimateContext, layout: Layout) -> Number:
    """Sequences under way on a replica, without what else the load comes to."""
    r = ctx.request
    return ctx.batch if r.qps is None and r.concurrency is None else load(ctx, layout).batch


def largest_batch(ctx: EstimateContext, layout: Layout) -> Number:
    """Most sequences of full length whose cache a replica holds beside the weights, as the engine shares memory out."""
    resident, one, reserve = memory_split(ctx, layout, ctx.prompt + ctx.output)
    fraction, most = engine_constant(ctx, "kv_fraction", "1"), engine_constant(ctx, "max_sequences", "1")
    return serving.largest_served(ctx.chip.capacity, resident, reserve, fraction, num.maximum(one, 1.0), most)


def memory_split(ctx: EstimateContext, layout: Layout, length: Number) -> tuple[Number, Number, Number]:
    """Bytes on a device of weights, of the cache of a sequence of `length` tokens, and of what the engine keeps free beside both."""
    resident = memory.weights(on_device(ctx.parameters(layout), ctx.host), ctx.formats, 1.0)
    one = memory.kv_cache(ctx.ledger, layout, ctx.formats, 1.0, length, ctx.lift)
    one = one if ctx.host is None else offload.on_device(one, ctx.host.layers)
    draft, beside = draft_bytes(ctx, layout, 1.0, length)
    reserve = engine_constant(ctx, "reserve_bytes", "B")
    if ctx.engine.reserve_experts_bytes and any(group.moe for group in ctx.ledger.layers):
        gathered = engine_constant(ctx, "reserve_experts_bytes", "B")
        reserve = serving.reserve_beside(reserve, gathered, layout.ep)
    return resident + draft + lora_serving.adapter_bytes(ctx, layout), one + beside, reserve


def prefill_interference_s(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds that one more prompt adds to a busy replica: its pass without weights to stream or kernels to start."""
    read, keys = computed_tokens(ctx)
    step = forward_step(ctx, layout, MANY, read, keys, decode=False, engine=False)
    return label(step.seconds / MANY, "t_pre")


def arrivals(ctx: EstimateContext, layout: Layout) -> tuple[Number, Number, Number]:
    """Requests per second on a replica, what a prompt costs it, and the share of its time they take: 1 and more is too much."""
    rate = ctx.from_flag("qps", ctx.request.qps, "1/s", "--qps") / layout.dp
    cost = prefill_interference_s(ctx, layout)
    return rate, cost, serving.prefill_load(rate, cost)


def _open(ctx: EstimateContext, layout: Layout, largest: Number) -> ReplicaLoad:
    """Sequences in flight follow from the rate and the inter-token latency they cause: the crossing, by secants."""
    rate, cost, share = arrivals(ctx, layout)
    if num.plain(share) and num.value(share) >= 1:
        raise Infeasible(
            f"--qps {num.value(ctx.request.qps):g}: prompts alone would keep each replica busy {float(num.value(share)):.0%} "
            "of the time; use more replicas (--dp) or a lower rate"
        )
    plain = ctx if not ctx.lift.traced else EstimateContext(ctx.request)
    bare = Layout(**{key: num.value(value) for key, value in layout.__dict__.items()})
    context = serving.mean_context(plain.prompt, plain.output)
    left, per_second = 1 - num.value(share), num.value(rate)

    def excess(batch: Number) -> Number:
        itl = pipelined_decode.token_step(plain, bare, batch, context).seconds / left
        return serving.sequences_in_flight(per_second, plain.output, itl) - batch

    batch = _crossing(excess, num.value(largest))
    if num.plain(batch) and is_unstable(excess(batch), batch):
        raise Infeasible(
            f"--qps {num.value(ctx.request.qps):g}: a replica falls behind, with {float(batch):,.0f} sequences in flight it makes fewer tokens "
            "than are asked for; use more replicas (--dp) or a lower rate"
        )
    return ReplicaLoad("open", solved_value(batch, rate, "b", "sequences", "b = qps S_o ITL(b)"), largest, cost, share)


def is_unstable(excess: Number, batch: Number) -> bool:
    """Whether a rate leaves more sequences under way than a replica follows with `batch` of them, by more than a search for it errs."""
    return bool(excess > BEHIND * batch)


def _crossing(excess: Any, most: Number) -> Number:
    """Where a convex, falling function of the batch crosses zero; `most` when it does not before."""
    before, farthest = 0.0 * most + 1.0, 4 * num.maximum(most, 1.0)
    now = num.maximum(before + excess(before), LEAST)
    f_before = excess(before)
    for _ in range(ROUNDS):
        f_now = excess(now)
        slope = (f_now - f_before) / num.where(now == before, 1.0, now - before)
        behind = num.where(f_now > 0, farthest, now)  # more in flight only adds to what is asked for
        following = num.where(slope < 0, now - f_now / num.where(slope < 0, slope, -1.0), behind)
        before, f_before, now = now, f_now, num.minimum(num.maximum(following, LEAST), farthest)
    return now
