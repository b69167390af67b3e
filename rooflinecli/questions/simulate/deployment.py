"""A question's replicas: the plan an estimate would take, its step prices, its pool of cache and its scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from rooflinecli.core.errors import Infeasible, UsageError, unknown
from rooflinecli.core.units import si
from rooflinecli.engine import build_request, option_conflicts
from rooflinecli.engine.choose import choose
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer
from rooflinecli.engine.kv_tiers import tiers
from rooflinecli.engine.residency import kv_bytes, kv_pool_tokens, max_sequences
from rooflinecli.questions.estimate.answer import context_of, warn_of_foreign
from rooflinecli.questions.simulate.question import Simulate, SimulatedLayout
from rooflinecli.simulate.cluster import Cluster
from rooflinecli.simulate.prefix_cache import KvTier, PrefixCache
from rooflinecli.simulate.replica import Replica, ReplicaLimits
from rooflinecli.simulate.step_times import StepTimeTable
from rooflinecli.specs.engine import CONSTANTS
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.registry import kinds, load
from rooflinecli.specs.scheduler import Scheduler, changed, written

POLICIES, ROUTERS = "simulate/policies", "simulate/routers"


@dataclass
class Deployment:
    """One copy of the layout: `ranks` data-parallel replicas of it take requests, on `devices` in all."""

    ctx: EstimateContext
    layout: Layout
    prices: StepTimeTable
    ranks: int
    devices: int
    why: str
    error: tuple[float, float]

    def limits(self, length: float, scheduler: Scheduler, stride: bool = True) -> ReplicaLimits:
        """Return the cache limits of a rank, for sequences of `length` tokens. Raises Infeasible where there is no room for cache."""
        ctx = self.ctx
        pool = int(kv_pool_tokens(ctx, self.layout, length, scheduler))
        if pool < 1:
            raise Infeasible(
                f"the weights leave no room for a cache on {self.layout.tp * self.layout.pp * self.layout.cp:g} devices of {ctx.request.hardware.name}; raise --tp or -n"
            )
        each = float(kv_bytes(ctx, self.layout, 1.0, length)) / length
        rate = float(ctx.chip.host_link) if ctx.request.hardware.host_link else 0.0
        return ReplicaLimits(pool, int(max_sequences(ctx)), each, rate, stride)


@lru_cache(maxsize=64)
def deployment(
    options: tuple[tuple[str, str], ...], prompt: float, output: float, load: tuple[tuple[str, float], ...] = ()
) -> Deployment:
    """The layout that an estimate takes for one sequence, or on as many devices for a load, and its step times.

    Raises what an estimate raises.
    """
    asked = {**dict(options), "phase": "prefill,decode", "batch": 1}
    if one_request(options).request.adapters is not None:
        raise UsageError("--num-loras is not simulated; leave it out, or ask `roofline estimate`", "adapters")
    ctx = context_of(build_request.request({**asked, "prompt": round(prompt), "output": round(output)}))
    choice = choose(ctx, ("prefill", "decode"))
    if not choice.fits:
        raise Infeasible(
            f"{ctx.spec.name} does not fit on {choice.layout.devices:g} of {ctx.request.hardware.name}; `roofline estimate` says by how much"
        )
    if load and choice.layout.devices > 1:  # the layout for the load on as many devices, where one sustains it
        own = {k: v for k, v in asked.items() if k != "batch"} | {"prompt": round(prompt), "output": round(output)}
        request = build_request.request(own | {"n": choice.layout.devices} | dict(load))
        with suppress(Infeasible):
            loaded = choose(context_of(request), ("prefill", "decode"))
            choice = loaded if loaded.fits else choice
    plan = choice.layout
    found = answer(ctx, ctx.lifted(plan), "decode")
    low, high = (float(end) / float(found.time_s) for end in found.interval_s)
    return Deployment(ctx, plan, StepTimeTable(ctx, plan), int(plan.dp), int(plan.devices), choice.reason, (low, high))


@lru_cache(maxsize=64)
def one_request(options: tuple[tuple[str, str], ...]) -> EstimateContext:
    """An estimate of one request, whose lengths are the default ones. Raises its errors, and UsageError for a model that does not decode."""
    ctx = EstimateContext(build_request.request({**dict(options), "phase": "prefill,decode", "batch": 1}))
    option_conflicts.require_decode(ctx, "there is no serving to simulate")
    return ctx


def warn_of_idle(question: Simulate, layouts: Mapping[str, object]) -> None:
    """Warn of options that change nothing in a simulation of these layouts."""
    own, ranked = dict(question.estimate_options), option_conflicts.RANKING if question.limits else set()
    ctx = one_request(question.estimate_options)
    warn_of_foreign(ctx)
    option_conflicts.warn_of_idle([option_conflicts.idle(ctx, own.keys() - ranked, layouts)])


def scheduler_of(ctx: EstimateContext, settings: tuple[str, ...]) -> Scheduler:
    """The engine's scheduler with what was overridden: `token_budget=2048`. Raises UsageError."""
    own, given = ctx.engine.scheduler.to_dict(), written(settings)
    values = dict(own)  # with the constants that an override or a calibration sets
    for name in values.keys() & CONSTANTS.keys():
        constant = ctx.chip.effective_constant(f"engine.{name}", values[name])
        values[name] = round(constant) if isinstance(values[name], int) else constant
    found = changed(values, given) if given or values != own else ctx.engine.scheduler
    if found.policy not in kinds(POLICIES):
        raise unknown("policy", found.policy, kinds(POLICIES), option="scheduler-config")
    return found


def fleet(
    question: Simulate, copies: int, prompt: float, output: float, scale: float = 1.0
) -> tuple[Deployment, Cluster]:
    """Replicas for a question: `copies` of the layout, or its pools; every step takes `scale` times as long."""
    one = deployment(question.estimate_options, prompt, output, question.load_per_replica)
    if question.router not in kinds(ROUTERS):
        raise unknown("router", question.router, kinds(ROUTERS), option="router")
    scheduler = scheduler_of(one.ctx, question.scheduler_config)
    prices = one.prices if scale == 1 else one.prices.scaled(scale)
    limits = one.limits(prompt + output, scheduler)

    def made(count: int, hand_over: bool = False) -> list[Replica]:
        found = [
            Replica(prices, limits, scheduler, store(question, one.ctx, limits), hand_over)
            for _ in range(count * one.ranks)
        ]
        for replica in found:
            replica.warm = question.warmup or replica.warm
        return found

    router = load(ROUTERS, question.router)
    if not question.prefill_replicas:
        return one, Cluster(made(copies), router)
    devices = float(one.layout.tp * one.layout.cp * one.layout.pp)
    bandwidth, levels = question.kv_transfer_bandwidth, one.ctx.chip.levels
    if bandwidth is None and not levels:
        raise UsageError(
            f"{one.ctx.request.hardware.name} names no network; give --kv-transfer-bandwidth, such as '50 GB/s'",
            "kv-transfer-bandwidth",
        )
    link = (float(levels[-1].bandwidth) if bandwidth is None else bandwidth) * devices  # bytes/s between the pools
    return one, Cluster(
        made(question.prefill_replicas, True),
        router,
        made(question.decode_replicas),
        load(ROUTERS, "least-loaded"),
        transfer=limits.bytes_per_token * devices / link,
    )


def store(question: Simulate, ctx: EstimateContext, limits: ReplicaLimits) -> PrefixCache | None:
    """A replica's prefix cache with the tiers behind it. Raises UsageError for tiers without one."""
    places = tiers(ctx.request.kv_tier)
    if places and not question.prefix_caching:
        raise UsageError("--kv-offload keeps what the prefix cache has no room for; add --prefix-caching", "kv-tier")
    if not question.prefix_caching:
        return None
    each = max(limits.bytes_per_token, 1e-9)
    rates = ((place, float(each / place.rate)) for place in places)
    return PrefixCache([KvTier(place.name, int(place.size / each), seconds) for place, seconds in rates])


def describe(one: Deployment, scheduler: Scheduler, limits: ReplicaLimits) -> dict[str, object]:
    """The layout and its engine, for the answer."""
    sizes = {name: int(getattr(one.layout, name)) for name in ("tp", "pp", "dp", "cp", "ep")}
    return {
        "model": one.ctx.spec.name,
        "hardware": one.ctx.request.hardware.name,
        "engine": one.ctx.engine.name,
        "policy": scheduler.policy,
        "max_context": one.ctx.spec.max_context,
        "dtype": one.ctx.dtype,
        "layout": SimulatedLayout(devices=one.devices, **sizes),
        "kv_cache_tokens": limits.pool,
        "kv_cache": si(limits.pool * limits.bytes_per_token, "B"),
    }
