"""Caches of sessions that wait for their next turn: on the device, and in tiers behind it."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number


@formula("n_idle", "sessions", "sessions whose cache fits, less the running sequences")
def idle_on_device(largest: Number, batch: Number) -> Number:
    """Sessions between two turns whose cache stays on the device."""
    return num.maximum(largest - batch, 0)


@formula("n_tier", "sessions", "definition; a session's cache is as long as its prompt and answer")
def sessions_cached(capacity: Number, one: Number) -> Number:
    """Sessions whose caches a tier keeps."""
    return capacity / num.maximum(one, 1)


@formula(
    "p_tier", "1", "least recently used down: the sessions that nearer places have no room for, while this one has"
)
def tier_hit_fraction(idle: Number, nearer: Number, here: Number) -> Number:
    """Share of idle sessions whose cache is in a place, `nearer` being what places before it keep."""
    return num.maximum(num.minimum(here, idle - nearer), 0) / num.maximum(idle, 1e-9)
