"""What a device holds in a phase: one answer, by which a plan is chosen, judged and reported.

Prefill holds the weights, one prompt's cache and its working set; decode the weights, the cache of every sequence under way
at its full length and a token's working set; training the state that ZeRO leaves, and activations.
"""

from __future__ import annotations

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine import lora_serving
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.host_offload import host_bytes, on_device
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.engine.serving_load import sequences
from rooflinecli.engine.speculation import draft_bytes
from rooflinecli.formulas import memory as f
from rooflinecli.formulas import offload as f_host
from rooflinecli.formulas import schedule
from rooflinecli.specs.layout import Layout


def resident_memory(ctx: EstimateContext, layout: Layout, phase: str) -> Residency:
    """Bytes on the fullest device of `plan` in a phase. Raises Infeasible where a rate leaves no time to decode."""
    return ctx.memoized(layout, f"held in {phase}", lambda: _PHASES[phase](ctx, layout))


def _prefill(ctx: EstimateContext, layout: Layout) -> Residency:
    """While one prompt is read."""
    return _serving(ctx, layout, ctx.sequences_per_pass, ctx.prompt, ctx.sequences_per_pass, ctx.prompt, reading=True)


def _decode(ctx: EstimateContext, layout: Layout) -> Residency:
    """While the sequences of the load end."""
    batch = sequences(ctx, layout)
    return _serving(ctx, layout, batch, ctx.prompt + ctx.output, batch, 1.0, reading=False)


def _serving(
    ctx: EstimateContext,
    layout: Layout,
    cached: Number,
    length: Number,
    sequences: Number,
    tokens: Number,
    reading: bool,
) -> Residency:
    """Weights, the cache of `cached` sequences of `length`, and the working set of a pass over `tokens` of `sequences`."""
    params, host = ctx.parameters(layout), ctx.host
    draft, beside = draft_bytes(ctx, layout, cached, length)
    cache = memory.kv_cache(ctx.ledger, layout, ctx.formats, cached, length, ctx.lift)
    found = _held(
        ctx,
        memory.weights(on_device(params, host), ctx.formats, 1.0) + draft + lora_serving.adapter_bytes(ctx, layout),
        activations=memory.inference_activations(
            ctx.ledger, layout, ctx.formats, sequences, tokens, ctx.lift, reading, ctx.logit_positions(tokens)
        ),
        cache=(cache if host is None else f_host.on_device(cache, host.layers)) + beside,
    )
    found.host_bytes = host_bytes(params, cache, ctx.formats, host)
    return found


def _training(ctx: EstimateContext, layout: Layout) -> Residency:
    """While microbatches are in flight."""
    params = ctx.trained_parameters(layout)
    trained = memory.trainable_parameters(ctx.ledger, layout, params, ctx.lift)
    count = schedule.microbatch_count(ctx.train_batch, layout.dp, layout.micro_batch)
    state = memory.training_state_bytes(params, trained, layout, ctx.formats, ctx.gradient_bytes, ctx.optimizer_bytes)
    if layout.zero >= 3 and num.present(ctx.chip.constants("training", "fsdp_collective", layout.software).host_copy):
        copy = memory.host_copy(params, layout, ctx.formats, ctx.chip.devices_per_host)
        state["weights_bytes"] = state["weights_bytes"] + copy
    kept = memory.training_activations(
        ctx.ledger, layout, ctx.formats, ctx.seq, count, ctx.lift, ctx.framework_saved_tensors(layout)
    )
    found = _held(ctx, state["weights_bytes"], state["gradients_bytes"], state["optimizer_bytes"], kept)
    slack = ctx.chip.constants("training", "allocator", layout.software).slack
    found.slack_bytes = f.allocator_slack(found.total_bytes, slack) if num.present(slack) else None
    return found


def _held(
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
