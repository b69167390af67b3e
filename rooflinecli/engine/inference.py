"""Prefill and decode: one forward pass over the prompt, and one over a single token with the cache behind it."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import Number
from rooflinecli.engine import closed_loop, cuda_graphs, pipelined_decode, residency, speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import (
    REGIME,
    PricedPass,
    engine_constant,
    prefill_pass,
    uncaptured_launch_s,
)
from rooflinecli.engine.phase_answer import (
    DecodeAnswer,
    PrefillAnswer,
    Residency,
    Resources,
    TiersAnswer,
    rate_interval,
)
from rooflinecli.engine.serving_load import ReplicaLoad, load
from rooflinecli.formulas import roofline, serving, training
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import MOST

FIRST, ALONE = "first token of a closed loop", "a prompt alone"
RELOAD_ERROR = 0.3  # of bringing a cache back, at the rate that its owner gives for the link


def prefill(ctx: EstimateContext, layout: Layout) -> PrefillAnswer:
    """Time to first token: of one prompt on an idle replica, or under the load asked for; and the rate at which prompts go in."""
    step = prefill_pass(ctx, layout)
    seconds = step.seconds
    ctx.memoized(layout, ALONE, lambda: seconds)
    # A pipeline works on pp prompts at once, so the fleet's rate is pp times what one prompt's latency says.
    at_once = 1.0 if ctx.engine.splits_layers else layout.pp
    one = ctx.requests_per_pass.__class__ is float and ctx.requests_per_pass == 1.0
    sequences = at_once if one else serving.sequences_together(at_once, ctx.requests_per_pass)
    rate = serving.prefill_throughput(sequences, ctx.given, step.seconds, layout.dp)
    scored = ctx.logit_positions(ctx.prompt)
    flops = ctx.model_flops(
        ctx.sequences_per_pass, ctx.read, ctx.prompt, scored, decode=False, cached=ctx.cached_prompt_tokens
    )
    flops = flops if ctx.spec.denoising is None else serving.over_steps(flops, ctx.steps)
    idle = layout.pp if ctx.engine.splits_layers else 1.0  # stages of which one works at a time
    mfu = training.model_flops_utilization(
        flops, step.seconds, layout.tp * layout.cp * idle, ctx.chip.peak(ctx.formats.compute)
    )
    flops = serving.flops_of_all(flops, at_once, layout.dp)
    error = _error(ctx, step, "prefill")
    span = rate_interval(rate, error, step.seconds, _floor(step))
    loaded = ctx.request.concurrency is not None or ctx.request.qps is not None
    if loaded:
        step = _first_token(ctx, layout, step)
        error = 0.0 if ctx.chip.ideal else engine_constant(ctx, "ttft_error", "1")
    waits = _waits(ctx, layout)
    if waits is not None and ctx.cached_prompt_tokens is not None:
        step.costs.add_time("reload", waits.reload_s, "step", RELOAD_ERROR)
        step = PricedPass(step.costs, label(step.seconds + waits.reload_s, "t_ttft"))
    shared = _shared(step, residency.resident_memory(ctx, layout, "prefill"), error)
    return PrefillAnswer(**shared, tokens_per_s=rate, tokens_per_s_interval=span, mfu=mfu, flops=flops, sessions=waits)


def _waits(ctx: EstimateContext, layout: Layout) -> TiersAnswer | None:
    """What idle sessions wait for in tiers behind the device; None where there are none."""
    if ctx.request.kv_tier is None:
        return None
    from rooflinecli.engine import kv_tiers

    return kv_tiers.answer(ctx, layout, load(ctx, layout))


def _first_token(ctx: EstimateContext, layout: Layout, step: PricedPass) -> PricedPass:
    """The pass with the wait in front of it charged to its bill."""
    busy = load(ctx, layout)
    if busy.kind == "open":
        under_way = speculation.engine_step_time(ctx, decode_seconds(ctx, layout, busy))
        meets = serving.busy_probability(busy.batch)
        front = closed_loop.frontend_latency(ctx, meets)
        beside = busy.prefill_interference_s + uncaptured_launch_s(
            ctx
        )  # a step that takes a prompt in is not replayed either
        seconds = serving.open_loop_ttft(
            step.seconds, under_way, meets, busy.share, beside, busy.prefill_interference_s, front
        )
    else:
        seconds = _closed(ctx, layout, busy, token(ctx, layout, busy).seconds)
    step.costs.add_time("waiting", seconds - step.seconds, "step", 1.0)
    return PricedPass(step.costs, label(seconds, "t_ttft"))


def _closed(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, itl: Number) -> Number:
    """Time to first token in a closed loop: the same for prefill and for a rate, worked out for whichever comes first."""

    def found() -> Number:
        step = decode_seconds(ctx, layout, busy)
        alone = ctx.memoized(layout, ALONE, lambda: prefill_pass(ctx, layout).seconds)
        return closed_loop.mean_closed_loop_ttft(ctx, layout, busy, alone, itl, step)

    return ctx.memoized(layout, FIRST, found)


def throughput(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, itl: Number) -> Number:
    """Output tokens per second of all replicas: of the steps alone, or in a closed loop of whole requests, first tokens included.

    As many requests as memory holds are queued behind those under way, so that every slot is always taken.
    """
    if busy.kind != "closed":
        return serving.decode_throughput(busy.batch, itl, layout.dp)
    bound = serving.prompt_bound_throughput(ctx.output, busy.prefill_interference_s, layout.pp, layout.dp)
    if num.value(ctx.request.concurrency) is MOST:  # what waits is queued outside, so that no slot is ever idle
        return num.minimum(serving.decode_throughput(busy.batch, itl, layout.dp), bound)
    first = _closed(ctx, layout, busy, itl)
    rate = serving.closed_loop_throughput(busy.batch, ctx.output, first, itl, layout.dp)
    return num.minimum(rate, bound)


def decode(ctx: EstimateContext, layout: Layout) -> DecodeAnswer:
    """Inter-token latency in the middle of the answer, with the sequences of the load at once on each replica."""
    busy = load(ctx, layout)
    step = token(ctx, layout, busy)
    context = serving.mean_context(ctx.prompt, ctx.output)
    flops = ctx.model_flops(busy.batch, 1.0, context, 1.0, decode=True)
    error, of_rate = _decode_errors(ctx, step, busy)
    rate = throughput(ctx, layout, busy, step.seconds)
    held = residency.resident_memory(ctx, layout, "decode")
    devices = layout.tp * layout.cp * layout.pp
    return DecodeAnswer(
        **_shared(step, held, error),
        flops=serving.flops_of_all(flops, 1.0, layout.dp),
        batch=busy.batch,
        max_batch=busy.largest,
        load_kind=busy.kind,
        tokens_per_s=rate,
        tokens_per_s_interval=rate_interval(rate, of_rate, step.seconds, _floor(step)),
        tokens_per_s_per_user=serving.tokens_per_user(step.seconds),
        mbu=training.memory_bandwidth_utilization(step.costs.bytes, step.seconds, ctx.chip.bandwidth),
        mfu=training.model_flops_utilization(flops, step.seconds, devices, ctx.chip.peak(ctx.formats.compute)),
        speculation=speculation.answer(ctx, layout, pipelined_decode.sequences_per_stage(layout, busy.batch)),
    )


def _decode_step(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> PricedPass:
    """One token for every sequence under way, in the middle of the answer."""
    context = serving.mean_context(ctx.prompt, ctx.output)
    batch = pipelined_decode.sequences_per_stage(layout, busy.batch)
    step = speculation.token_step(ctx, layout, batch, context)
    step = cuda_graphs.padded_to_graph(ctx, layout, step, batch, context, prompts=busy.kind != "static")
    return pipelined_decode.pipeline_wait(ctx, layout, step, busy.batch, context)


def decode_seconds(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> Number:
    """Seconds of that step."""
    return ctx.memoized(layout, "decode step", lambda: _decode_step(ctx, layout, busy).seconds)


def token(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> PricedPass:
    """Inter-token latency: a decode step, and what the prompts of other requests add to it."""
    return ctx.memoized(layout, "token", lambda: _token(ctx, layout, busy))


def _token(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> PricedPass:
    step = _decode_step(ctx, layout, busy)
    ctx.memoized(layout, "decode step", lambda: step.seconds)
    if busy.kind == "static":
        return step
    if busy.kind == "closed":
        form = serving.lockstep_interference if closed_loop.is_lockstep(ctx) else serving.prefill_interference
        added = form(pipelined_decode.sequences_per_stage(layout, busy.batch), ctx.output, busy.prefill_interference_s)
        seconds = step.seconds + added
    else:
        seconds = serving.open_loop_itl(step.seconds, busy.share)
        added = seconds - step.seconds
    step.costs.add_time("prefill_interference", added, "prefill_attention", 0.0)
    return PricedPass(step.costs, label(seconds, "t_itl"))


def _floor(step: PricedPass) -> Number:
    """The slowest resource at its peak, perfect overlap between them."""
    costs = step.costs
    return label(
        roofline.floor_time(roofline.floor_time(costs.t_compute, costs.t_memory), costs.t_communication), "t_floor"
    )


def _shared(step: PricedPass, held: Residency, error: Number) -> dict[str, Any]:
    """The parts that prefill and decode share: time, floor, interval, resources, breakdown, memory."""
    costs, floor = step.costs, _floor(step)
    return {
        "time_s": step.seconds,
        "floor_s": floor,
        "interval_s": (roofline.interval_low(step.seconds, error, floor), roofline.interval_high(step.seconds, error)),
        "bytes_per_device": costs.bytes,
        "resources_s": Resources(compute=costs.t_compute, memory=costs.t_memory, communication=costs.t_communication),
        "breakdown_s": dict(costs.groups),
        "communication_s": dict(costs.by_axis),
        "communication_bytes": dict(costs.volumes),
        "memory": held,
    }


def _decode_errors(ctx: EstimateContext, step: PricedPass, busy: ReplicaLoad) -> tuple[Number, Number]:
    """80% relative errors of an inter-token latency and of the rate of whole requests."""
    suffix = "-moe" if any(group.moe for group in ctx.ledger.layers) else ""
    unnamed = ctx.formats.variant == "int4-weights" and not ctx.engine.efficiency
    named = "decode-int4" if unnamed else f"decode{suffix}"
    error = _error(ctx, step, named)
    if busy.kind != "static":
        return error, _error(ctx, step, named if unnamed else f"throughput{suffix}")
    if ctx.engine.backends:  # whose errors are those of one stream
        return error, error
    alone = num.where(busy.batch <= 1, num.maximum(error, _error(ctx, step, "decode-alone")), error)
    return alone, alone


def _error(ctx: EstimateContext, step: PricedPass, name: str) -> Number:
    """80% relative error of a phase: its own where runs gave one, else composed from the classes of its operations (docs/adr)."""
    if ctx.chip.ideal:
        return 0.0
    whole = ctx.chip.constants(REGIME, "phase", name)
    if ctx.host is not None:  # two machines' kernels: what each takes of the time says how sure the sum is
        return step.costs.relative_error(step.seconds)
    return whole.error if whole.known else step.costs.relative_error(step.seconds)
