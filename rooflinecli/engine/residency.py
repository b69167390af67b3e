"""Bytes on a device: what each phase holds, and how an engine splits memory into weights, KV cache and a reserve.

Prefill holds the weights, one prompt's cache and its activations; decode the weights, the cache of every running sequence at its
full length and one token's activations; training the state that ZeRO leaves on a device, and the activations of micro-batches.
"""

from __future__ import annotations

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine import host_offload, lora_serving
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import engine_constant
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.engine.speculation import draft_kv_bytes, draft_weight_bytes
from rooflinecli.formulas import memory as f
from rooflinecli.formulas import offload, schedule, serving, simulation
from rooflinecli.specs.layout import Layout


def resident_memory(ctx: EstimateContext, layout: Layout, phase: str) -> Residency:
    """Bytes on the fullest device in a phase. Raises Infeasible where a request rate leaves no time to decode."""
    return ctx.memoized(layout, f"held in {phase}", lambda: _PHASES[phase](ctx, layout))


# --- how an engine splits memory -----------------------------------------------------------------------------------------------


def engine_reserve(ctx: EstimateContext, layout: Layout) -> Number:
    """Bytes per device that the engine keeps free of weights and cache."""
    reserve = engine_constant(ctx, "reserve_bytes", "B")
    if ctx.engine.constant("reserve_experts_bytes") and ctx.is_moe:
        gathered = engine_constant(ctx, "reserve_experts_bytes", "B")
        reserve = serving.reserve_with_gathered_tokens(reserve, gathered, layout.ep)
    return reserve


def weight_bytes(ctx: EstimateContext, layout: Layout) -> Number:
    """Bytes per device of the weights: of the model, its draft and its adapters."""
    weights = memory.weights(host_offload.on_device(ctx.parameters(layout), ctx.host), ctx.formats, 1.0)
    return weights + draft_weight_bytes(ctx, layout) + lora_serving.adapter_bytes(ctx, layout)


def kv_bytes(ctx: EstimateContext, layout: Layout, batch: Number, length: Number) -> Number:
    """Bytes per device of the KV cache of `batch` sequences of `length` tokens, the draft's with it."""
    cache = memory.kv_cache(ctx.ledger, layout, ctx.formats, batch, length, ctx.lift)
    cache = cache if ctx.host is None else offload.on_device(cache, ctx.host.layers)
    return cache + draft_kv_bytes(ctx, layout, batch, length)


def max_batch(ctx: EstimateContext, layout: Layout) -> Number:
    """Most sequences of full length whose cache the engine has room for."""
    weights, sequence = weight_bytes(ctx, layout), kv_bytes(ctx, layout, 1.0, ctx.prompt + ctx.output)
    fraction, most = engine_constant(ctx, "kv_fraction", "1"), engine_constant(ctx, "max_sequences", "1")
    reserve = engine_reserve(ctx, layout)
    return serving.largest_served(ctx.chip.capacity, weights, reserve, fraction, num.maximum(sequence, 1.0), most)


def kv_pool_tokens(
    ctx: EstimateContext, layout: Layout, length: Number, memory_share: float | None, cache_share: float | None
) -> Number:
    """Tokens in the KV pool of a replica with sequences of `length`.

    `memory_share` of memory holds weights, reserve and cache (vLLM's gpu_memory_utilization); else `cache_share` of what weights
    and reserve leave (TensorRT-LLM's free_gpu_memory_fraction), by default the engine's.
    """
    weights, sequence = weight_bytes(ctx, layout), kv_bytes(ctx, layout, 1.0, length)
    capacity, reserve = ctx.chip.capacity, engine_reserve(ctx, layout)
    if memory_share:
        return simulation.pool_within(capacity, memory_share, weights, reserve, sequence, length)
    fraction = cache_share or engine_constant(ctx, "kv_fraction", "1")
    return simulation.pool_tokens(capacity, weights, reserve, fraction, sequence, length)


# --- what each phase holds -----------------------------------------------------------------------------------------------------


def _prefill(ctx: EstimateContext, layout: Layout) -> Residency:
    sequences = ctx.sequences_per_pass
    return _serving(ctx, layout, sequences, ctx.prompt, ctx.prompt, prefill=True)


def _decode(ctx: EstimateContext, layout: Layout) -> Residency:
    from rooflinecli.engine.serving_load import sequences  # which asks for the largest batch

    return _serving(ctx, layout, sequences(ctx, layout), ctx.prompt + ctx.output, 1.0, prefill=False)


def _serving(
    ctx: EstimateContext, layout: Layout, sequences: Number, length: Number, tokens: Number, prefill: bool
) -> Residency:
    """Weights, the cache of `sequences` of `length`, and the activations of a pass over `tokens` of each."""
    activations = memory.inference_activations(
        ctx.ledger, layout, ctx.formats, sequences, tokens, ctx.lift, prefill, ctx.logit_positions(tokens)
    )
    cache = kv_bytes(ctx, layout, sequences, length)
    resident = _residency(ctx, weight_bytes(ctx, layout), activations=activations, cache=cache)
    if ctx.host is not None:
        whole = memory.kv_cache(ctx.ledger, layout, ctx.formats, sequences, length, ctx.lift)
        resident.host_bytes = host_offload.host_bytes(ctx.parameters(layout), whole, ctx.formats, ctx.host)
    return resident


def _training(ctx: EstimateContext, layout: Layout) -> Residency:
    params = ctx.trained_parameters(layout)
    trained = memory.trainable_parameters(ctx.ledger, layout, params, ctx.lift)
    count = schedule.microbatch_count(ctx.train_batch, layout.dp, layout.micro_batch)
    state = memory.training_state_bytes(params, trained, layout, ctx.formats, ctx.gradient_bytes, ctx.optimizer_bytes)
    weights = state["weights_bytes"]
    if layout.zero >= 3 and num.present(ctx.training_constants("fsdp_collective", layout).host_copy):
        weights = weights + memory.host_copy(params, layout, ctx.formats, ctx.chip.devices_per_host)
    activations = memory.training_activations(
        ctx.ledger, layout, ctx.formats, ctx.seq, count, ctx.lift, ctx.framework_saved_tensors(layout)
    )
    resident = _residency(ctx, weights, state["gradients_bytes"], state["optimizer_bytes"], activations)
    slack = ctx.training_constants("allocator", layout).slack
    resident.slack_bytes = f.allocator_slack(resident.total_bytes, slack) if num.present(slack) else None
    return resident


def _residency(
    ctx: EstimateContext,
    weights: Number,
    gradients: Number = 0.0,
    optimizer: Number = 0.0,
    activations: Number = 0.0,
    cache: Number = 0.0,
) -> Residency:
    total, capacity = f.total_memory(weights, gradients, optimizer, activations, cache, 0.0), ctx.chip.capacity
    return Residency(
        weights_bytes=weights,
        gradients_bytes=gradients,
        optimizer_bytes=optimizer,
        activations_bytes=activations,
        kv_cache_bytes=cache,
        total_bytes=total,
        capacity_bytes=capacity,
        headroom_fraction=f.headroom(total, capacity),
    )


_PHASES = {"prefill": _prefill, "decode": _decode, "train": _training}
