"""Bytes on a device: what each phase holds, and how an engine splits memory into weights, KV cache and a reserve.

Prefill holds the weights, one prompt's cache and its activations; decode the weights, the cache of every running sequence (of a batch
at its full length, under a load at the length that the engine's pages have in the mean) and one token's activations; training the
state that ZeRO leaves on a device, and the activations of micro-batches.
"""

from __future__ import annotations

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine import host_offload, legality, lora_serving
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import engine_constant, token_budget
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.engine.speculation import draft_kv_bytes, draft_weight_bytes
from rooflinecli.formulas import memory as f
from rooflinecli.formulas import offload, schedule, serving
from rooflinecli.specs.layout import WHOLE, Layout
from rooflinecli.specs.scheduler import Scheduler

_FLOAT = frozenset((float,))


def resident_memory(ctx: EstimateContext, layout: Layout, phase: str) -> Residency:
    """Bytes on the fullest device in a phase. Raises Infeasible where a request rate leaves no time to decode."""

    def counted() -> Residency:
        if phase == "train":
            return _training(ctx, layout)
        if phase == "prefill":
            chunk = num.minimum(ctx.prompt, token_budget(ctx)) if ctx.is_autoregressive else ctx.prompt
            return _serving(ctx, layout, ctx.sequences_per_pass, ctx.prompt, chunk, prefill=True)
        from rooflinecli.engine.serving_load import sequences  # which asks for the largest batch

        return _serving(ctx, layout, sequences(ctx, layout), held_length(ctx), 1.0, prefill=False)

    return ctx.memoized(layout, f"resident in {phase}", counted)


# --- how an engine splits memory -----------------------------------------------------------------------------------------------


def engine_reserve(ctx: EstimateContext, layout: Layout) -> Number:
    """Bytes per device for activations, captured graphs and communication buffers; a bounded share of a small device's memory."""
    reserve = engine_constant(ctx, "reserve_bytes", "B")
    if ctx.engine.constant("reserve_experts_bytes") and ctx.is_moe:
        gathered = engine_constant(ctx, "reserve_experts_bytes", "B")
        reserve = serving.reserve_with_gathered_tokens(reserve, gathered, layout.ep)
    return serving.bounded_reserve(reserve, ctx.chip.capacity)


def kv_cache_room(ctx: EstimateContext, layout: Layout, scheduler: Scheduler | None = None) -> Number:
    """Bytes per device that the engine turns into KV cache; negative where the weights leave none.

    An engine whose scheduler has a `memory_share` gives weights, reserve and cache that share of memory (vLLM's gpu_memory_utilization);
    the others give the cache `kv_fraction` of what weights and reserve leave (TensorRT-LLM's free_gpu_memory_fraction). The
    question's --gpu-memory-utilization replaces either; a simulation's `scheduler` with a share of its own replaces all.
    """
    weights, reserve, capacity = weight_bytes(ctx, layout), engine_reserve(ctx, layout), ctx.chip.capacity
    asked, own = ctx.request.gpu_memory_utilization, ctx.engine.scheduler
    given = None if asked is None else ctx.from_flag("u_mem", asked, "1", "--gpu-memory-utilization")
    if scheduler is not None and scheduler.cache_share != own.cache_share:
        return serving.room_of_free(capacity, weights, reserve, scheduler.cache_share)
    if scheduler is not None and scheduler.memory_share != own.memory_share:
        return serving.room_within_share(capacity, scheduler.memory_share, weights, reserve)
    if own.memory_share:
        share = engine_constant(ctx, "memory_share", "1") if given is None else given
        return serving.room_within_share(capacity, share, weights, reserve)
    share = engine_constant(ctx, "kv_fraction", "1") if given is None else given
    return serving.room_of_free(capacity, weights, reserve, share)


def weight_bytes(ctx: EstimateContext, layout: Layout) -> Number:
    """Bytes per device of the weights: of the model, its draft and its adapters."""
    weights = memory.weights(host_offload.on_device(ctx.parameters(layout), ctx.host), ctx.formats, 1.0)
    if looked_up := host_offload.host_embedding_bytes(ctx):  # of several stages the last, with the head, is the fullest
        weights = weights - looked_up / layout.tp * (layout.pp == 1)
    return weights + draft_weight_bytes(ctx, layout) + lora_serving.adapter_bytes(ctx, layout)


def kv_bytes(ctx: EstimateContext, layout: Layout, batch: Number, length: Number) -> Number:
    """Bytes per device of the KV cache of `batch` sequences of `length` tokens, the draft's with it."""
    cache = memory.kv_cache(ctx.ledger, layout, ctx.formats, batch, length, ctx.lift)
    cache = cache if ctx.host is None else offload.on_device(cache, ctx.host.layers)
    return cache + draft_kv_bytes(ctx, layout, batch, length)


def max_sequences(ctx: EstimateContext) -> Number:
    """Most sequences that the scheduler of a replica runs at once: as asked, else the engine's."""
    asked = ctx.request.max_sequences
    if asked is None:
        return engine_constant(ctx, "max_sequences", "1")
    return ctx.from_flag("b_run", asked, "sequences", "--max-num-seqs")


def held_length(ctx: EstimateContext) -> Number:
    """Tokens of cache of a running sequence: its full length in a batch that starts together, under a load what the engine's pages hold in the mean."""
    if ctx.request.concurrency is None and ctx.request.qps is None:
        return ctx.prompt + ctx.output
    return serving.held_tokens(ctx.prompt, ctx.output, engine_constant(ctx, "reserve_share", "1"))


def cached_sequences(ctx: EstimateContext, layout: Layout) -> Number:
    """Most sequences whose cache the engine has room for at once; none where it does not hold a whole one."""
    room, whole = kv_cache_room(ctx, layout), num.maximum(kv_bytes(ctx, layout, 1.0, ctx.prompt + ctx.output), 1.0)
    held = num.maximum(kv_bytes(ctx, layout, 1.0, held_length(ctx)), 1.0)
    return num.where(room >= whole, serving.sequences_in_room(room, held), 0.0)


def max_batch(ctx: EstimateContext, layout: Layout) -> Number:
    """Most sequences whose cache the engine has room for; under a load, no more than it schedules at once."""
    fits = cached_sequences(ctx, layout)
    if ctx.request.concurrency is None and ctx.request.qps is None and ctx.request.max_sequences is None:
        return fits
    return num.minimum(fits, max_sequences(ctx))


def kv_pool_tokens(ctx: EstimateContext, layout: Layout, length: Number, scheduler: Scheduler) -> Number:
    """Tokens in the KV pool of a replica with sequences of `length`."""
    room = kv_cache_room(ctx, layout, scheduler)
    return serving.pool_tokens(room, kv_bytes(ctx, layout, 1.0, length), length)


# --- what each phase holds -----------------------------------------------------------------------------------------------------


def _serving(
    ctx: EstimateContext, layout: Layout, sequences: Number, length: Number, tokens: Number, prefill: bool
) -> Residency:
    """Weights, the cache of `sequences` of `length`, and the activations of a pass over `tokens` of each."""
    activations = memory.inference_activations(
        ctx.ledger, layout, ctx.formats, sequences, tokens, ctx.lift, prefill, ctx.logit_positions
    )
    cache, weights, kept = (
        kv_bytes(ctx, layout, sequences, length),
        weight_bytes(ctx, layout),
        engine_reserve(ctx, layout),
    )
    if ctx.is_autoregressive:
        kept = f.kept_by_engine(ctx.chip.capacity, weights, kv_cache_room(ctx, layout), kept)
    kept = num.maximum(kept - activations, 0)
    resident = _residency(ctx, weights, activations=activations, cache=cache, reserved=kept)
    resident.reserved_bytes = kept
    if ctx.host is not None:
        whole = memory.kv_cache(ctx.ledger, layout, ctx.formats, sequences, length, ctx.lift)
        resident.host_bytes = host_offload.host_bytes(ctx.parameters(layout), whole, ctx.formats, ctx.host)
    return resident


def _training_state(ctx: EstimateContext, layout: Layout) -> tuple[Number, Number, Number]:
    """Bytes of weights, gradients and optimizer."""
    params = ctx.trained_parameters(layout)
    trained = memory.trainable_parameters(ctx.ledger, layout, params, ctx.lift)
    state = memory.training_state_bytes(params, trained, layout, ctx.formats, ctx.gradient_bytes, ctx.optimizer_bytes)
    weights = state["weights_bytes"]
    if layout.zero >= 3 and num.present(ctx.training_constants("fsdp_collective", layout).host_copy):
        weights = weights + memory.host_copy(params, layout, ctx.formats, ctx.chip.devices_per_host)
    return weights, state["gradients_bytes"], state["optimizer_bytes"]


def whole_training_state(ctx: EstimateContext) -> float:
    """Bytes of weights, gradients and optimizer of the whole model, sharded or not."""
    fields = legality.layout_fields(ctx.request, "train") | {"zero": 0, "stages": None}
    return float(num.value(sum(_training_state(ctx, WHOLE.with_changes(**fields)))))


def state_exceeds_memory(ctx: EstimateContext, layout: Layout) -> bool:
    """Whether a training layout of plain numbers does not fit whatever its activations."""
    return bool(sum(_training_state(ctx, layout)) > ctx.chip.capacity)


def _training(ctx: EstimateContext, layout: Layout) -> Residency:
    count = schedule.microbatch_count(ctx.train_batch, layout.dp, layout.micro_batch)
    saved = ctx.framework_saved_tensors(layout)
    plain = not (ctx.lift.traced or ctx.ledger.towers) and _FLOAT.issuperset(map(type, (ctx.seq, *saved)))
    activations = memory.training_activations(
        ctx.ledger, layout, ctx.formats, ctx.seq, count, ctx.lift, saved, ctx.stack_activations if plain else None
    )
    resident = _residency(ctx, *_training_state(ctx, layout), activations)
    slack = ctx.training_constants("allocator", layout).slack
    resident.slack_bytes = resident.total_bytes * slack if num.present(slack) else None
    return resident


def _residency(
    ctx: EstimateContext, weights: Number, gradients: Number = 0.0, optimizer: Number = 0.0, activations: Number = 0.0,
    cache: Number = 0.0, reserved: Number = 0.0,
) -> Residency:  # fmt: skip
    total, capacity = f.total_memory(weights, gradients, optimizer, activations, cache, reserved), ctx.chip.capacity
    return Residency(
        weights_bytes=weights, gradients_bytes=gradients, optimizer_bytes=optimizer, activations_bytes=activations, kv_cache_bytes=cache,
        total_bytes=total, capacity_bytes=capacity, headroom_fraction=f.headroom(total, capacity),
    )  # fmt: skip
