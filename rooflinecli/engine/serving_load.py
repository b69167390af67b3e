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
from rooflinecli.core.solve import solved
from rooflinecli.engine import lora_serving, pipelined_decode
from rooflinecli.engine.context import Scene
from rooflinecli.engine.forward_step import as_read, engine_constant, forward_step
from rooflinecli.engine.host_offload import on_device
from rooflinecli.engine.speculation import held
from rooflinecli.formulas import offload, serving
from rooflinecli.specs.layout import Plan
from rooflinecli.specs.request import MOST

MANY = 1048576.0  # prompts in one pass, so that weights and starts are shared among enough of them to vanish
ROUNDS = 8
BEHIND = 1e-3  # of the sequences in flight: a rate missed by more is not carried
LEAST = 1e-12  # sequences in flight: a rate may be as low as one likes


@dataclass(slots=True, eq=False, repr=False)
class Load:
    """Sequences decoding at once on a replica, and what a further prompt costs it (0 when none arrives)."""

    kind: str
    batch: Number
    largest: Number
    prompt_cost: Number = 0.0
    share: Number = 0.0


def load(scene: Scene, plan: Plan) -> Load:
    """The load that the request asks for, on one replica."""
    return scene.once(plan, "load", lambda: _load(scene, plan))


def _load(scene: Scene, plan: Plan) -> Load:
    r, largest = scene.request, largest_batch(scene, plan)
    if r.qps is not None:
        return _open(scene, plan, largest)
    if r.concurrency is None:
        return Load("static", scene.batch, largest)
    batch = num.maximum(largest, 1) if r.concurrency is MOST else scene.batch
    return Load("closed", batch, largest, prompt_cost(scene, plan))


def sequences(scene: Scene, plan: Plan) -> Number:
    """Sequences under way on a replica, without what else the load comes to."""
    r = scene.request
    return scene.batch if r.qps is None and r.concurrency is None else load(scene, plan).batch


def largest_batch(scene: Scene, plan: Plan) -> Number:
    """Most sequences of full length whose cache a replica holds beside the weights, as the engine shares memory out."""
    resident, one, reserve = shared_out(scene, plan, scene.prompt + scene.output)
    fraction, most = engine_constant(scene, "kv_fraction", "1"), engine_constant(scene, "max_sequences", "1")
    return serving.largest_served(scene.chip.capacity, resident, reserve, fraction, num.maximum(one, 1.0), most)


def shared_out(scene: Scene, plan: Plan, length: Number) -> tuple[Number, Number, Number]:
    """Bytes on a device of weights, of the cache of a sequence of `length` tokens, and of what the engine keeps free beside both."""
    resident = memory.weights(on_device(scene.parameters(plan), scene.host), scene.formats, 1.0)
    one = memory.kv_cache(scene.book, plan, scene.formats, 1.0, length, scene.lift)
    one = one if scene.host is None else offload.on_device(one, scene.host.layers)
    draft, beside = held(scene, plan, 1.0, length)
    reserve = engine_constant(scene, "reserve_bytes", "B")
    if scene.engine.reserve_experts_bytes and any(group.moe for group in scene.book.layers):
        gathered = engine_constant(scene, "reserve_experts_bytes", "B")
        reserve = serving.reserve_beside(reserve, gathered, plan.ep)
    return resident + draft + lora_serving.resident(scene, plan), one + beside, reserve


def prompt_cost(scene: Scene, plan: Plan) -> Number:
    """Seconds that one more prompt adds to a busy replica: its pass without weights to stream or kernels to start."""
    read, keys = as_read(scene)
    step = forward_step(scene, plan, MANY, read, keys, decode=False, engine=False)
    return label(step.seconds / MANY, "t_pre")


def arriving(scene: Scene, plan: Plan) -> tuple[Number, Number, Number]:
    """Requests per second on a replica, what a prompt costs it, and the share of its time they take: 1 and more is too much."""
    rate = scene.flag("qps", scene.request.qps, "1/s", "--qps") / plan.dp
    cost = prompt_cost(scene, plan)
    return rate, cost, serving.prefill_load(rate, cost)


def _open(scene: Scene, plan: Plan, largest: Number) -> Load:
    """Sequences in flight follow from the rate and the inter-token latency they cause: the crossing, by secants."""
    rate, cost, share = arriving(scene, plan)
    if num.plain(share) and num.value(share) >= 1:
        raise Infeasible(
            f"--qps {num.value(scene.request.qps):g}: prompts alone would keep each replica busy {float(num.value(share)):.0%} "
            "of the time; use more replicas (--dp) or a lower rate"
        )
    plain = scene if not scene.lift.traced else Scene(scene.request)
    bare = Plan(**{key: num.value(value) for key, value in plan.__dict__.items()})
    context = serving.mean_context(plain.prompt, plain.output)
    left, per_second = 1 - num.value(share), num.value(rate)

    def excess(batch: Number) -> Number:
        itl = pipelined_decode.token_step(plain, bare, batch, context).seconds / left
        return serving.sequences_in_flight(per_second, plain.output, itl) - batch

    batch = _crossing(excess, num.value(largest))
    if num.plain(batch) and falls_behind(excess(batch), batch):
        raise Infeasible(
            f"--qps {num.value(scene.request.qps):g}: a replica falls behind, with {float(batch):,.0f} sequences in flight it makes fewer tokens "
            "than are asked for; use more replicas (--dp) or a lower rate"
        )
    return Load("open", solved(batch, rate, "b", "sequences", "b = qps S_o ITL(b)"), largest, cost, share)


def falls_behind(excess: Number, batch: Number) -> bool:
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
