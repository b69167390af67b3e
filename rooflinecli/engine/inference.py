"""Prefill and decode: one forward pass over the prompt, and one over a single token with the KV cache."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import Infeasible
from rooflinecli.core.num import Number
from rooflinecli.engine import counted_loop, residency, serving_load, speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import REGIME, PricedPass, engine_constant, lone_prefill_s, prefill_pass
from rooflinecli.engine.phase_answer import DecodeAnswer, PrefillAnswer, Resources, TiersAnswer, rate_interval
from rooflinecli.engine.serving_load import ReplicaLoad, load, open_itl, prompt_factor
from rooflinecli.formulas import closed_loop, roofline, serving, training
from rooflinecli.specs.layout import Layout

RELOAD_ERROR = 0.3  # of reloading a cache, at the rate that its owner gives for the link


def prefill(ctx: EstimateContext, layout: Layout) -> PrefillAnswer:
    """TTFT of a lone prompt, or under the load asked for; and the rate at which prompts are prefilled."""
    step = prefill_pass(ctx, layout)
    ctx.memoized(layout, "lone prefill", lambda: step.seconds)
    # A pipeline works on pp prompts at once, so the rate of all replicas is pp times what one prompt's latency says.
    at_once = 1.0 if ctx.engine.splits_layers else layout.pp
    lone = ctx.requests_per_pass.__class__ is float and ctx.requests_per_pass == 1.0
    sequences = at_once if lone else at_once * ctx.requests_per_pass
    rate = serving.prefill_throughput(sequences, ctx.request_tokens, step.seconds, layout.dp)
    logits, cached = ctx.logit_positions, ctx.cached_prompt_tokens
    flops = ctx.model_flops(
        ctx.sequences_per_pass, ctx.uncached_prompt, ctx.prompt, logits, decode=False, cached=cached
    )
    flops = flops if ctx.spec.denoising is None else flops * ctx.steps
    idle = layout.pp if ctx.engine.splits_layers else 1.0  # stages of which one works at a time
    mfu = training.model_flops_utilization(
        flops, step.seconds, layout.tp * layout.cp * idle, ctx.chip.peak(ctx.formats.compute)
    )
    error = _error(ctx, step, "prefill")
    rate_bounds = rate_interval(rate, error, step.seconds, _floor(step))
    if ctx.request.concurrency is not None or ctx.request.qps is not None:
        step = _ttft_under_load(ctx, layout, step)
        with_flags = ctx.request.scheduler is not None and ctx.engine.ttft_error_with_flags is not None
        name = "ttft_error_with_flags" if with_flags else "ttft_error"
        error = 0.0 if ctx.chip.ideal else engine_constant(ctx, name, "1")
    tiers = _kv_tiers(ctx, layout)
    if tiers is not None and cached is not None:
        step.costs.add_time("reload", tiers.reload_s, "step", RELOAD_ERROR)
        step = PricedPass(step.costs, label(step.seconds + tiers.reload_s, "t_ttft"))
    return PrefillAnswer(
        **_common(ctx, layout, "prefill", step, error),
        tokens_per_s=rate,
        tokens_per_s_interval=rate_bounds,
        mfu=mfu,
        flops=flops * at_once * layout.dp,
        sessions=tiers,
    )


def _kv_tiers(ctx: EstimateContext, layout: Layout) -> TiersAnswer | None:
    """Where the caches of idle sessions are, and what reloading them costs; None without KV offload tiers."""
    if ctx.request.kv_tier is None:
        return None
    from rooflinecli.engine import kv_tiers

    recompute: Number = 0.0
    if ctx.cached_prompt_tokens is not None:
        cached = lone_prefill_s(ctx, layout)
        recompute = num.maximum(prefill_pass(ctx.without_prefix_cache(), layout).seconds - cached, 0)
    return kv_tiers.answer(ctx, layout, load(ctx, layout), recompute)


def _ttft_under_load(ctx: EstimateContext, layout: Layout, step: PricedPass) -> PricedPass:
    """The prefill with its queue time."""
    busy = load(ctx, layout)
    if busy.kind == "open":
        without_prompts = decode_seconds(ctx, layout, busy)
        itl = open_itl(ctx, layout, without_prompts, busy.share)
        taken, entered, wait = 0.0, step.seconds, 0.0
        if num.present(queues := serving_load.may_queue(ctx, layout, busy)):
            request, share, _, entered = full_slots(ctx, layout)
            taken, wait = (num.where(queues, x, 0.0) for x in serving_load.slot_wait(ctx, layout, request, share))
        times = step.seconds, itl, without_prompts
        seconds = wait + serving_load.mean_open_loop_ttft(ctx, layout, busy, *times, taken, entered)
        if (loop := counted_loop.counted(ctx, layout, busy)) is not None:
            seconds = loop.instead_of(loop.first, seconds)
    else:
        seconds = _closed_loop_ttft(ctx, layout, busy, token(ctx, layout, busy).seconds)
    step.costs.add_time("waiting", seconds - step.seconds, "step", 1.0)
    return PricedPass(step.costs, label(seconds, "t_ttft"))


def _closed_loop_ttft(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, itl: Number) -> Number:
    """Mean TTFT of a closed loop: for prefill and for the throughput of decode, computed once."""

    def ttft() -> Number:
        loop, mean, step = counted_loop.counted(ctx, layout, busy), itl, decode_seconds(ctx, layout, busy)
        if loop is None or not (num.plain(loop.here) and loop.here):
            mean = serving_load.mean_closed_loop_ttft(ctx, layout, busy, itl, step)
        if loop is not None:
            late = engine_constant(ctx, "late_tokens", "1") * speculation.engine_step_time(ctx, itl)
            mean = loop.instead_of(loop.first + late, mean)
        if num.one(busy.requests_per_slot):
            return mean
        first, written = _first_in_slot(ctx, layout, busy, itl), num.maximum(ctx.output - 1, 0) * itl
        waiting = busy.requests_per_slot / (1 + busy.evicted)
        queued = closed_loop.queued_ttft(waiting, first, written, ctx.requests_per_client, mean)
        return num.where(waiting > 1, queued, mean)

    return ctx.memoized(layout, "closed-loop TTFT", ttft)


def _first_in_slot(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, itl: Number) -> Number:
    """Seconds to the first token of a request that waited for another to end, from there."""
    first = serving_load.turn(ctx, layout, busy, itl, decode_seconds(ctx, layout, busy), queued=True)
    loop = counted_loop.counted(ctx, layout, busy)
    return first if loop is None else loop.instead_of(loop.first, first)


def full_slots(ctx: EstimateContext, layout: Layout) -> tuple[Number, Number, Number, Number]:
    """Seconds of a request in a slot where all that a replica runs at once are taken and others wait, the requests per second that come over
    those that end then, the ITL, and the first token from there. Raises Infeasible for an open loop that brings more."""

    def full() -> tuple[Number, Number, Number, Number]:
        slots, rate = serving_load.slots(ctx, layout), serving_load.arrivals(ctx, layout)[0]
        loaded = ctx.in_closed_loop(2 * slots)
        busy = load(loaded, layout)
        itl = token(loaded, layout, busy).seconds
        first = _first_in_slot(loaded, layout, busy, itl)
        request = serving.e2e_latency(first, itl, ctx.output)
        return request, label(rate * request / slots, "u"), itl, first

    found = ctx.memoized(layout, "full slots", full)
    if num.plain(found[1]) and num.value(found[1]) >= 1:
        raise Infeasible(_unsustained(ctx, layout, *map(num.value, found[:2])))
    return found


def _unsustained(ctx: EstimateContext, layout: Layout, request: Number, share: Number) -> str:
    """What an answer says of a request rate that is `share` times what full slots answer, in which requests take `request` seconds."""
    slots, enough = num.value(serving_load.slots(ctx, layout)), int(layout.dp * share) + 1
    by_memory, prompts = slots < num.value(residency.max_sequences(ctx)), float(serving_load.arrivals(ctx, layout)[2])
    evicts = " and evicts some" if num.present(load(ctx.in_closed_loop(2 * slots), layout).evicted) else ""
    why = f"whose cache holds {slots:,.0f} requests{evicts}" if by_memory else f"with --max-num-seqs {slots:g}"
    why = f"a replica {why} answers {float(slots / request):.3g} requests/s"
    if prompts >= 1:
        why = f"prompts alone are {prompts:,.3g} times what each replica can process"
    more = "" if by_memory or prompts >= 1 else ", a larger --max-num-seqs"
    count = "" if ctx.request.devices is None else f"-n {enough * layout.devices / layout.dp:.0f} "
    return f"--qps {ctx.request.qps:g} cannot be sustained: {why}; use {count}--dp {enough}{more} or a lower rate"


def throughput(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, itl: Number) -> Number:
    """Output tokens per second of all replicas: of decode steps alone, as asked for in an open loop, in a closed one of whole requests, TTFT included."""
    if busy.kind == "static":
        return serving.decode_throughput(busy.batch, itl, layout.dp)
    if busy.kind == "open":  # what arrives ends
        return serving_load.arrivals(ctx, layout)[0] * ctx.output * layout.dp  # as many requests end as arrive
    bound = serving.prompt_bound_throughput(ctx.output, busy.prefill_interference_s, layout.pp, layout.dp)
    request = serving.e2e_latency(_closed_loop_ttft(ctx, layout, busy, itl), itl, ctx.output)
    rate = serving.closed_loop_throughput(busy.batch * busy.requests_per_slot, ctx.output, request, layout.dp)
    if not num.one(busy.requests_per_slot):
        request = serving.e2e_latency(_first_in_slot(ctx, layout, busy, itl), itl, ctx.output)
        slots = serving.closed_loop_throughput(busy.batch * (1 + busy.evicted), ctx.output, request, layout.dp)
        rate = num.where(busy.requests_per_slot > 1, num.minimum(rate, slots), rate)
    return num.minimum(rate, bound)


def decode(ctx: EstimateContext, layout: Layout) -> DecodeAnswer:
    """ITL in the middle of the output, with as many running sequences on each replica as the load brings."""
    busy = load(ctx, layout)
    step = token(ctx, layout, busy)
    if busy.kind == "open" and (loop := counted_loop.counted(ctx, layout, busy)) is not None:
        rate = serving_load.arrivals(ctx, layout)[0]
        in_flight = num.where(loop.here, serving.sequences_in_flight(rate, ctx.output, step.seconds), busy.batch)
        busy = ReplicaLoad("open", in_flight, busy.max_batch, busy.prefill_interference_s, busy.share)
    context = serving.mean_context(ctx.prompt, ctx.output)
    flops = ctx.model_flops(busy.batch, 1.0, context, 1.0, decode=True)
    error, rate_error = _decode_errors(ctx, layout, step, busy)
    rate = throughput(ctx, layout, busy, step.seconds)
    devices = layout.tp * layout.cp * layout.pp
    # a batch of which the decode step alone is asked for has one, even where the prefill writes all of a request
    served = busy.kind != "static" or "prefill" in ctx.request.phases
    return DecodeAnswer(
        **_common(ctx, layout, "decode", step, error), flops=flops * layout.dp, batch=busy.batch, max_batch=busy.max_batch,
        load_kind=busy.kind, tokens_per_s=rate, tokens_per_s_interval=rate_interval(rate, rate_error, step.seconds, _floor(step)),
        tokens_per_s_per_user=serving.tokens_per_user(step.seconds),
        mbu=training.memory_bandwidth_utilization(step.costs.bytes, step.seconds, ctx.chip.bandwidth),
        mfu=training.model_flops_utilization(flops, step.seconds, devices, ctx.chip.peak(ctx.formats.compute)),
        speculation=speculation.answer(ctx, layout, serving_load.sequences_per_stage(layout, busy.batch)),
        single_token=served and num.plain(ctx.output) and bool(num.value(ctx.output) <= 1),
    )  # fmt: skip


def decode_pass(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> PricedPass:
    """One token for every running sequence, in the middle of the output."""
    context = serving.mean_context(ctx.prompt, ctx.output)
    sequences = num.minimum(busy.batch + 1, serving_load.slots(ctx, layout)) if busy.kind == "open" else busy.batch
    batch = serving_load.sequences_per_stage(layout, sequences)
    step = speculation.token_step(ctx, layout, batch, context)
    step = serving_load.padded_to_graph(ctx, layout, step, batch, context, prompts=busy.kind != "static")
    return serving_load.pipeline_wait(ctx, layout, step, sequences, context)


def decode_seconds(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> Number:
    """Seconds of a decode step, without the prefills of other requests."""
    return ctx.memoized(layout, "decode step", lambda: _decode_step(ctx, layout, busy).seconds)


def _decode_step(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> PricedPass:
    """A decode step of the sequences that decode at once: all in flight, or as many as were counted."""
    loop = counted_loop.counted(ctx, layout, busy)
    if loop is not None:
        sequences = busy.batch + 1 if busy.kind == "open" else busy.batch
        busy = ReplicaLoad("closed", loop.instead_of(loop.decoding, sequences), busy.max_batch)
    return decode_pass(ctx, layout, busy)


def token(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> PricedPass:
    """ITL: a decode step, and what the prefills of other requests add to it."""

    def priced() -> PricedPass:
        step = _decode_step(ctx, layout, busy)
        ctx.memoized(layout, "decode step", lambda: step.seconds)
        if busy.kind == "static":
            return step
        if busy.kind == "closed":
            batch, cost = serving_load.sequences_per_stage(layout, busy.batch), busy.prefill_interference_s
            if ctx.engine.prompts_first:  # passes of prompts alone stall decodes
                cost = prompt_factor(ctx) * cost
            added = serving.prefill_interference(batch, ctx.output, cost)
            seconds = step.seconds + added
        else:
            seconds = open_itl(ctx, layout, step.seconds, busy.share)
            if num.present(queues := serving_load.may_queue(ctx, layout, busy)):
                seconds = num.where(queues, num.minimum(seconds, full_slots(ctx, layout)[2]), seconds)
            added = seconds - step.seconds
        if (loop := counted_loop.counted(ctx, layout, busy)) is not None:
            added = loop.instead_of(num.maximum(loop.itl - step.seconds, 0) * (ctx.output > 1), added)
            seconds = step.seconds + added
        if num.present(busy.evicted):
            added = added + seconds * busy.evicted
            seconds = step.seconds + added
        step.costs.add_time("prefill_interference", added, "prefill_attention", 0.0)
        return PricedPass(step.costs, label(seconds, "t_itl"))

    return ctx.memoized(layout, "token", priced)


def _floor(step: PricedPass) -> Number:
    """The slowest resource at its peak, perfect overlap between them."""
    costs = step.costs
    return label(
        roofline.floor_time(roofline.floor_time(costs.t_compute, costs.t_memory), costs.t_communication), "t_floor"
    )


def _common(ctx: EstimateContext, layout: Layout, phase: str, step: PricedPass, error: Number) -> dict[str, Any]:
    """The fields that prefill and decode share."""
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
        "memory": residency.resident_memory(ctx, layout, phase),
    }


def _decode_errors(ctx: EstimateContext, layout: Layout, step: PricedPass, busy: ReplicaLoad) -> tuple[Number, Number]:
    """80% relative errors of ITL and of the throughput of whole requests."""
    suffix = "-moe" if ctx.is_moe else ""
    unknown_int4_kernels = ctx.formats.variant == "int4-weights" and not ctx.engine.efficiency
    name = "decode-int4" if unknown_int4_kernels else f"decode{suffix}"
    error = _error(ctx, step, name)
    if busy.kind != "static":
        if (loop := counted_loop.counted(ctx, layout, busy)) is not None:
            error = num.maximum(error, num.where(loop.here, loop.error, 0.0))
        return error, _error(ctx, step, name if unknown_int4_kernels else f"throughput{suffix}")
    phases = [table["phase"] for table in ctx.engine.backends.values() if "phase" in table]
    if phases and not any("decode-alone" in phase for phase in phases):  # errors that were fitted on single streams
        return error, error
    alone = num.where(busy.batch <= 1, num.maximum(error, _error(ctx, step, "decode-alone")), error)
    return alone, alone


def _error(ctx: EstimateContext, step: PricedPass, name: str) -> Number:
    """80% relative error of a phase: its own where measured runs gave one, else composed from the classes of its operations."""
    if ctx.chip.ideal:
        return 0.0
    phase = ctx.chip.constants(REGIME, "phase", name)
    if phase.known and ctx.host is None:  # with a host CPU, the sum of two machines' kernels has the composed error
        return phase.error
    return step.costs.relative_error(step.seconds)
