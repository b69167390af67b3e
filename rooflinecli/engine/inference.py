"""Prefill and decode: one forward pass over the prompt, and one over a single token with the cache behind it."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import Number
from rooflinecli.engine import closed_loop, cuda_graphs, pipelined_decode, residency, speculation
from rooflinecli.engine.context import Scene
from rooflinecli.engine.forward_step import (
    REGIME,
    Step,
    engine_constant,
    prompt_pass,
    prompt_starts,
)
from rooflinecli.engine.phase_answer import (
    DecodeAnswer,
    PrefillAnswer,
    Residency,
    Resources,
    TiersAnswer,
    rate_interval,
)
from rooflinecli.engine.serving_load import Load, load
from rooflinecli.formulas import roofline, serving, training
from rooflinecli.specs.layout import Plan
from rooflinecli.specs.request import MOST

FIRST, ALONE = "first token of a closed loop", "a prompt alone"
RELOAD_ERROR = 0.3  # of bringing a cache back, at the rate that its owner gives for the link


def prefill(scene: Scene, plan: Plan) -> PrefillAnswer:
    """Time to first token: of one prompt on an idle replica, or under the load asked for; and the rate at which prompts go in."""
    step = prompt_pass(scene, plan)
    seconds = step.seconds
    scene.once(plan, ALONE, lambda: seconds)
    # A pipeline works on pp prompts at once, so the fleet's rate is pp times what one prompt's latency says.
    at_once = 1.0 if scene.engine.splits_layers else plan.pp
    one = scene.served.__class__ is float and scene.served == 1.0
    sequences = at_once if one else serving.sequences_together(at_once, scene.served)
    rate = serving.prefill_throughput(sequences, scene.given, step.seconds, plan.dp)
    scored = scene.scored(scene.prompt)
    flops = scene.model_flops(scene.together, scene.read, scene.prompt, scored, decode=False, cached=scene.cached)
    flops = flops if scene.spec.denoising is None else serving.over_steps(flops, scene.steps)
    idle = plan.pp if scene.engine.splits_layers else 1.0  # stages of which one works at a time
    mfu = training.model_flops_utilisation(
        flops, step.seconds, plan.tp * plan.cp * idle, scene.chip.peak(scene.formats.compute)
    )
    flops = serving.flops_of_all(flops, at_once, plan.dp)
    error = _error(scene, step, "prefill")
    span = rate_interval(rate, error, step.seconds, _floor(step))
    loaded = scene.request.concurrency is not None or scene.request.qps is not None
    if loaded:
        step = _first_token(scene, plan, step)
        error = 0.0 if scene.chip.ideal else engine_constant(scene, "ttft_error", "1")
    waits = _waits(scene, plan)
    if waits is not None and scene.cached is not None:
        step.bill.spend("reload", waits.reload_s, "step", RELOAD_ERROR)
        step = Step(step.bill, label(step.seconds + waits.reload_s, "t_ttft"))
    shared = _shared(step, residency.resident(scene, plan, "prefill"), error)
    return PrefillAnswer(**shared, tokens_per_s=rate, tokens_per_s_interval=span, mfu=mfu, flops=flops, sessions=waits)


def _waits(scene: Scene, plan: Plan) -> TiersAnswer | None:
    """What idle sessions wait for in tiers behind the device; None where there are none."""
    if scene.request.kv_tier is None:
        return None
    from rooflinecli.engine import kv_tiers

    return kv_tiers.answer(scene, plan, load(scene, plan))


def _first_token(scene: Scene, plan: Plan, step: Step) -> Step:
    """The pass with the wait in front of it charged to its bill."""
    busy = load(scene, plan)
    if busy.kind == "open":
        under_way = speculation.round_time(scene, decode_seconds(scene, plan, busy))
        meets = serving.busy_probability(busy.batch)
        front = closed_loop.front(scene, meets)
        beside = busy.prompt_cost + prompt_starts(scene)  # a step that takes a prompt in is not replayed either
        seconds = serving.open_loop_ttft(step.seconds, under_way, meets, busy.share, beside, busy.prompt_cost, front)
    else:
        seconds = _closed(scene, plan, busy, token(scene, plan, busy).seconds)
    step.bill.spend("waiting", seconds - step.seconds, "step", 1.0)
    return Step(step.bill, label(seconds, "t_ttft"))


def _closed(scene: Scene, plan: Plan, busy: Load, itl: Number) -> Number:
    """Time to first token in a closed loop: the same for prefill and for a rate, worked out for whichever comes first."""

    def found() -> Number:
        step = decode_seconds(scene, plan, busy)
        alone = scene.once(plan, ALONE, lambda: prompt_pass(scene, plan).seconds)
        return closed_loop.first_token(scene, plan, busy, alone, itl, step)

    return scene.once(plan, FIRST, found)


def throughput(scene: Scene, plan: Plan, busy: Load, itl: Number) -> Number:
    """Output tokens per second of all replicas: of the steps alone, or in a closed loop of whole requests, first tokens included.

    As many requests as memory holds are queued behind those under way, so that every slot is always taken.
    """
    if busy.kind != "closed":
        return serving.decode_throughput(busy.batch, itl, plan.dp)
    bound = serving.prompt_bound_throughput(scene.output, busy.prompt_cost, plan.pp, plan.dp)
    if num.value(scene.request.concurrency) is MOST:  # what waits is queued outside, so that no slot is ever idle
        return num.minimum(serving.decode_throughput(busy.batch, itl, plan.dp), bound)
    first = _closed(scene, plan, busy, itl)
    rate = serving.closed_loop_throughput(busy.batch, scene.output, first, itl, plan.dp)
    return num.minimum(rate, bound)


def decode(scene: Scene, plan: Plan) -> DecodeAnswer:
    """Inter-token latency in the middle of the answer, with the sequences of the load at once on each replica."""
    busy = load(scene, plan)
    step = token(scene, plan, busy)
    context = serving.mean_context(scene.prompt, scene.output)
    flops = scene.model_flops(busy.batch, 1.0, context, 1.0, decode=True)
    error, of_rate = _decode_errors(scene, step, busy)
    rate = throughput(scene, plan, busy, step.seconds)
    held = residency.resident(scene, plan, "decode")
    devices = plan.tp * plan.cp * plan.pp
    return DecodeAnswer(
        **_shared(step, held, error),
        flops=serving.flops_of_all(flops, 1.0, plan.dp),
        batch=busy.batch,
        largest_batch=busy.largest,
        load=busy.kind,
        tokens_per_s=rate,
        tokens_per_s_interval=rate_interval(rate, of_rate, step.seconds, _floor(step)),
        tokens_per_s_per_user=serving.tokens_per_user(step.seconds),
        mbu=training.memory_bandwidth_utilisation(step.bill.bytes, step.seconds, scene.chip.bandwidth),
        mfu=training.model_flops_utilisation(flops, step.seconds, devices, scene.chip.peak(scene.formats.compute)),
        speculation=speculation.answer(scene, plan, pipelined_decode.sequences_per_stage(plan, busy.batch)),
    )


def _decode_step(scene: Scene, plan: Plan, busy: Load) -> Step:
    """One token for every sequence under way, in the middle of the answer."""
    context = serving.mean_context(scene.prompt, scene.output)
    batch = pipelined_decode.sequences_per_stage(plan, busy.batch)
    step = speculation.token_step(scene, plan, batch, context)
    step = cuda_graphs.padded(scene, plan, step, batch, context, prompts=busy.kind != "static")
    return pipelined_decode.waiting(scene, plan, step, busy.batch, context)


def decode_seconds(scene: Scene, plan: Plan, busy: Load) -> Number:
    """Seconds of that step."""
    return scene.once(plan, "decode step", lambda: _decode_step(scene, plan, busy).seconds)


def token(scene: Scene, plan: Plan, busy: Load) -> Step:
    """Inter-token latency: a decode step, and what the prompts of other requests add to it."""
    return scene.once(plan, "token", lambda: _token(scene, plan, busy))


def _token(scene: Scene, plan: Plan, busy: Load) -> Step:
    step = _decode_step(scene, plan, busy)
    scene.once(plan, "decode step", lambda: step.seconds)
    if busy.kind == "static":
        return step
    if busy.kind == "closed":
        form = serving.lockstep_interference if closed_loop.lockstep(scene) else serving.prefill_interference
        added = form(pipelined_decode.sequences_per_stage(plan, busy.batch), scene.output, busy.prompt_cost)
        seconds = step.seconds + added
    else:
        seconds = serving.open_loop_itl(step.seconds, busy.share)
        added = seconds - step.seconds
    step.bill.spend("prefill_interference", added, "prefill_attention", 0.0)
    return Step(step.bill, label(seconds, "t_itl"))


def _floor(step: Step) -> Number:
    """The slowest resource at its peak, perfect overlap between them."""
    bill = step.bill
    return label(
        roofline.floor_time(roofline.floor_time(bill.t_compute, bill.t_memory), bill.t_communication), "t_floor"
    )


def _shared(step: Step, held: Residency, error: Number) -> dict[str, Any]:
    """The parts that prefill and decode share: time, floor, interval, resources, breakdown, memory."""
    bill, floor = step.bill, _floor(step)
    return {
        "time_s": step.seconds,
        "floor_s": floor,
        "interval_s": (roofline.interval_low(step.seconds, error, floor), roofline.interval_high(step.seconds, error)),
        "bytes_per_device": bill.bytes,
        "resources_s": Resources(compute=bill.t_compute, memory=bill.t_memory, communication=bill.t_communication),
        "breakdown_s": dict(bill.groups),
        "communication_s": dict(bill.by_axis),
        "communication_bytes": dict(bill.volumes),
        "memory": held,
    }


def _decode_errors(scene: Scene, step: Step, busy: Load) -> tuple[Number, Number]:
    """80 % relative errors of an inter-token latency and of the rate of whole requests."""
    suffix = "-moe" if any(group.moe for group in scene.book.layers) else ""
    unnamed = scene.formats.variant == "int4-weights" and not scene.engine.efficiency
    named = "decode-int4" if unnamed else f"decode{suffix}"
    error = _error(scene, step, named)
    if busy.kind != "static":
        return error, _error(scene, step, named if unnamed else f"throughput{suffix}")
    if scene.engine.backends:  # whose errors are those of one stream
        return error, error
    alone = num.where(busy.batch <= 1, num.maximum(error, _error(scene, step, "decode-alone")), error)
    return alone, alone


def _error(scene: Scene, step: Step, name: str) -> Number:
    """80 % relative error of a phase: its own where runs gave one, else composed from the classes of its operations (docs/adr)."""
    if scene.chip.ideal:
        return 0.0
    whole = scene.chip.constants(REGIME, "phase", name)
    if scene.host is not None:  # two machines' kernels: what each takes of the time says how sure the sum is
        return step.bill.relative_error(step.seconds)
    return whole.error if whole.known else step.bill.relative_error(step.seconds)
