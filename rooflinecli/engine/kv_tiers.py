"""Caches of idle sessions on the device and in KV offload tiers (`host=256GB@50GB/s,disk=2TB@7GB/s`), and what reloading them costs.

Caches are evicted to the next tier when room is needed, least recently used first; a session that returns finds its cache in the
nearest place that still has it. Sizes and rates are per device, since each device keeps its own part of every cache.
"""

from __future__ import annotations

import re

from rooflinecli import memory
from rooflinecli.core import num, units
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import TierAnswer, TiersAnswer
from rooflinecli.engine.residency import held_length
from rooflinecli.engine.serving_load import ReplicaLoad
from rooflinecli.formulas import offload as f
from rooflinecli.specs.layout import Layout

EXAMPLE = "host=256GB@50GB/s,disk=2TB@7GB/s"
MOST = 8


@dataclass(frozen=True)
class KvTierSpec:
    """Bytes that a device keeps in a tier, and bytes per second in which it has them back."""

    name: str
    size: float
    rate: float


def tiers(written: str | None) -> tuple[KvTierSpec, ...]:
    """Tiers as written, the nearest first; commas or plus signs between them. Raises UsageError."""
    found: list[KvTierSpec] = []
    for item in re.split(r"[,+]", written) if written is not None else ():
        name, equals, rest = item.strip().partition("=")
        size, at, rate = rest.partition("@")
        if not (name and equals and at):
            raise UsageError(f"--kv-offload {written}: {item.strip()!r} is no tier; write {EXAMPLE}", "kv-tier")
        if name in {tier.name for tier in found} or name == "device":
            raise UsageError(f"--kv-offload {written}: the name {name!r} is taken; write {EXAMPLE}", "kv-tier")
        try:
            tier = KvTierSpec(name, units.parse(size, "B"), units.parse(rate, "B/s"))
        except ValueError as error:
            raise UsageError(f"--kv-offload {written}: {name}: {error}; write {EXAMPLE}", "kv-tier") from None
        if not (0 < tier.size < 1e18 and 0 < tier.rate < 1e18):
            raise UsageError(f"--kv-offload {written}: {name}: size and rate must be above zero", "kv-tier")
        found.append(tier)
    if len(found) > MOST:
        raise UsageError(f"--kv-offload {written}: at most {MOST} tiers", "kv-tier")
    return tuple(found)


def answer(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, recompute: Number) -> TiersAnswer | None:
    """Where the caches of idle sessions are; None without tiers. `reload_s` is the mean time that a TTFT waits for them.

    A prefix that no tier has any more takes `recompute` seconds, and so does one that would be longer on its way. Without --prefix-hit-rate no cache is reused: the tiers then have capacities and times, and add nothing.
    """
    places = tiers(ctx.request.kv_tier)
    if not places:
        return None
    session = memory.kv_cache(ctx.ledger, layout, ctx.formats, 1.0, ctx.prompt + ctx.output, ctx.lift)
    reused = ctx.prompt if ctx.cached_prompt_tokens is None else ctx.cached_prompt_tokens
    reloaded = memory.kv_cache(ctx.ledger, layout, ctx.formats, 1.0, reused, ctx.lift)
    running = memory.kv_cache(ctx.ledger, layout, ctx.formats, 1.0, held_length(ctx), ctx.lift)
    on_device = f.idle_on_device(busy.max_batch, busy.batch) * running / session
    in_tiers = []
    for place in places:
        size = ctx.from_flag(f"M_{place.name}", place.size, "B", "--kv-offload")
        in_tiers.append(size / num.maximum(session, 1))
    if ctx.request.sessions is None:  # as many as there is room for
        idle = sum(in_tiers, start=on_device)
    else:
        sessions = ctx.from_flag("n_sessions", ctx.request.sessions, "sessions", "--sessions")
        idle = f.idle_on_device(sessions, busy.batch)
    nearer, answers = on_device, {}
    mean: Number = 0.0
    for place, count in zip(places, in_tiers, strict=True):
        rate = ctx.from_flag(f"B_{place.name}", place.rate, "B/s", "--kv-offload")
        seconds, fraction = reloaded / rate, f.tier_hit_fraction(idle, nearer, count)
        answers[place.name] = TierAnswer(sessions=count, in_tier_fraction=fraction, reload_s=seconds)
        mean, nearer = mean + fraction * num.minimum(seconds, recompute), nearer + count
    evicted = f.tier_hit_fraction(idle, nearer, idle)
    return TiersAnswer(
        idle_sessions=idle,
        device_sessions=on_device,
        on_device_fraction=f.tier_hit_fraction(idle, 0.0, on_device),
        evicted_fraction=evicted,
        reload_s=label(mean + evicted * recompute, "t_reload") if ctx.cached_prompt_tokens is not None else 0.0,
        tiers=answers,
    )


def eviction_note(ctx: EstimateContext, answer: TiersAnswer | None) -> list[str]:
    """One sentence where sessions with a cached prefix outnumber what device and tiers keep."""
    if answer is None or ctx.request.prefix_hit is None:
        return []
    lost = float(num.value(answer.evicted_fraction))
    if not lost:
        return []
    return [
        f"prefill: {lost:.0%} of the idle sessions have no cache left when they come back, and compute their prefix again; "
        "--kv-offload with more room keeps it"
    ]
