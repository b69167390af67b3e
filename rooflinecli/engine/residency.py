"""What a device holds in a phase: one answer, by which a plan is chosen, judged and reported.

Prefill holds the weights, one prompt's cache and its working set; decode the weights, the cache of every sequence under way
at its full length and a token's working set; training the state that ZeRO leaves, and activations.
"""

from __future__ import annotations

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine import lora_serving
from rooflinecli.engine.context import Scene
from rooflinecli.engine.host_offload import host_bytes, on_device
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.engine.serving_load import sequences
from rooflinecli.engine.speculation import held
from rooflinecli.formulas import memory as f
from rooflinecli.formulas import offload as f_host
from rooflinecli.formulas import schedule
from rooflinecli.specs.layout import Plan


def resident(scene: Scene, plan: Plan, phase: str) -> Residency:
    """Bytes on the fullest device of `plan` in a phase. Raises Infeasible where a rate leaves no time to decode."""
    return scene.once(plan, f"held in {phase}", lambda: _PHASES[phase](scene, plan))


def _prefill(scene: Scene, plan: Plan) -> Residency:
    """While one prompt is read."""
    return _serving(scene, plan, scene.together, scene.prompt, scene.together, scene.prompt, reading=True)


def _decode(scene: Scene, plan: Plan) -> Residency:
    """While the sequences of the load end."""
    batch = sequences(scene, plan)
    return _serving(scene, plan, batch, scene.prompt + scene.output, batch, 1.0, reading=False)


def _serving(
    scene: Scene, plan: Plan, cached: Number, length: Number, sequences: Number, tokens: Number, reading: bool
) -> Residency:
    """Weights, the cache of `cached` sequences of `length`, and the working set of a pass over `tokens` of `sequences`."""
    params, host = scene.parameters(plan), scene.host
    draft, beside = held(scene, plan, cached, length)
    cache = memory.kv_cache(scene.book, plan, scene.formats, cached, length, scene.lift)
    found = _held(
        scene,
        memory.weights(on_device(params, host), scene.formats, 1.0) + draft + lora_serving.resident(scene, plan),
        activations=memory.inference_activations(
            scene.book, plan, scene.formats, sequences, tokens, scene.lift, reading, scene.scored(tokens)
        ),
        cache=(cache if host is None else f_host.on_device(cache, host.layers)) + beside,
    )
    found.host_bytes = host_bytes(params, cache, scene.formats, host)
    return found


def _training(scene: Scene, plan: Plan) -> Residency:
    """While microbatches are in flight."""
    params = scene.trained_parameters(plan)
    trained = memory.trained(scene.book, plan, params, scene.lift)
    count = schedule.microbatch_count(scene.train_batch, plan.dp, plan.micro_batch)
    state = memory.training_state(params, trained, plan, scene.formats, scene.gradient_bytes, scene.optimizer_bytes)
    if plan.zero >= 3 and num.present(scene.chip.constants("training", "fsdp_collective", plan.software).host_copy):
        copy = memory.host_copy(params, plan, scene.formats, scene.chip.devices_per_host)
        state["weights_bytes"] = state["weights_bytes"] + copy
    kept = memory.training_activations(
        scene.book, plan, scene.formats, scene.seq, count, scene.lift, scene.kept_beside(plan)
    )
    found = _held(scene, state["weights_bytes"], state["gradients_bytes"], state["optimizer_bytes"], kept)
    slack = scene.chip.constants("training", "allocator", plan.software).slack
    found.slack_bytes = f.allocator_slack(found.total_bytes, slack) if num.present(slack) else None
    return found


def _held(
    scene: Scene,
    weights: Number,
    gradients: Number = 0.0,
    optimizer: Number = 0.0,
    activations: Number = 0.0,
    cache: Number = 0.0,
) -> Residency:
    total, capacity = f.total_memory(weights, gradients, optimizer, activations, cache, 0.0), scene.chip.capacity
    return Residency(
        weights_bytes=weights,
        gradients_bytes=gradients,
        optimizer_bytes=optimizer,
        activations_bytes=activations,
        kv_cache_bytes=cache,
        total_bytes=total,
        capacity_bytes=capacity,
        headroom=f.headroom(total, capacity),
    )


_PHASES = {"prefill": _prefill, "decode": _decode, "train": _training}
