"""Sessions between two turns: how many caches stay on the device and in tiers behind it, and what bringing them back costs.

Caches go down a tier when room is needed, least recently used first; a session that comes back finds its cache in the
nearest place that still has it. Sizes and rates are per device, since each device keeps its own part of every cache.
"""

from __future__ import annotations

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import TierAnswer, TiersAnswer
from rooflinecli.engine.serving_load import ReplicaLoad
from rooflinecli.formulas import kv_tiers as f
from rooflinecli.formulas import simulation
from rooflinecli.specs.kv_tiers import tiers
from rooflinecli.specs.layout import Layout


def check(ctx: EstimateContext) -> None:
    """Raises UsageError for tiers that cannot be read, and for sessions that nothing keeps."""
    r = ctx.request
    if r.sessions is not None and r.kv_tier is None:
        raise UsageError("--sessions says whose caches wait in tiers; add --kv-offload host=256GB@50GB/s", "sessions")
    _ = tiers(r.kv_tier)


def answer(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad) -> TiersAnswer | None:
    """Where the caches of idle sessions are; None where nobody asked. `reload_s` is the mean wait of a first token for them.

    Without --prefix-hit-rate no prompt is found again: the tiers then say what they would keep and take, and add nothing.
    """
    places = tiers(ctx.request.kv_tier)
    if not places:
        return None
    length = ctx.prompt + ctx.output
    one = memory.kv_cache(ctx.ledger, layout, ctx.formats, 1.0, length, ctx.lift)
    again = ctx.prompt if ctx.cached_prompt_tokens is None else ctx.cached_prompt_tokens
    back = memory.kv_cache(ctx.ledger, layout, ctx.formats, 1.0, again, ctx.lift)
    kept = [f.idle_on_device(busy.max_batch, busy.batch)]
    for place in places:
        size = ctx.from_flag(f"M_{place.name}", place.size, "B", "--kv-offload")
        kept.append(f.sessions_cached(size, one))
    idle = _idle(ctx, busy, sum(kept[1:], start=kept[0]))
    nearer, found = kept[0], {}
    mean: Number = 0.0
    for place, here in zip(places, kept[1:], strict=True):
        rate = ctx.from_flag(f"B_{place.name}", place.rate, "B/s", "--kv-offload")
        seconds, share = simulation.transfer_time(back, rate), f.tier_hit_fraction(idle, nearer, here)
        found[place.name] = TierAnswer(sessions=here, in_tier_fraction=share, reload_s=seconds)
        mean, nearer = mean + f.expected_reload(share, seconds), nearer + here
    return TiersAnswer(
        idle_sessions=idle,
        device_sessions=kept[0],
        on_device_fraction=f.tier_hit_fraction(idle, 0.0, kept[0]),
        evicted_fraction=f.tier_hit_fraction(idle, nearer, idle),
        reload_s=label(mean, "t_reload") if ctx.cached_prompt_tokens is not None else 0.0,
        tiers=found,
    )


def hit_rate_warning(ctx: EstimateContext, waits: TiersAnswer | None) -> list[str]:
    """One sentence where more of a prompt is said to be found again than the tiers keep sessions for."""
    if waits is None or ctx.request.prefix_hit is None:
        return []
    hit, lost = float(num.value(ctx.request.prefix_hit)), float(num.value(waits.evicted_fraction))
    if hit <= 1 - lost:
        return []
    return [
        f"prefill: --prefix-hit-rate {hit:g} is taken as given, though {lost:.0%} of the idle sessions have no cache left when they come back; "
        f"at most {1 - lost:.2g} can be found: lower it, or give --kv-offload more room"
    ]


def _idle(ctx: EstimateContext, busy: ReplicaLoad, room: Number) -> Number:
    """Sessions between two turns on a replica: as asked, less those under way; else as many as there is room for."""
    asked = ctx.request.sessions
    if asked is None:
        return room
    return f.idle_on_device(ctx.from_flag("n_sessions", asked, "sessions", "--sessions"), busy.batch)
