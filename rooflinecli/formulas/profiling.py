"""What a profile says: where the time goes, what fusion or overlap would buy, and which figure cannot be."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_AMDAHL = "Amdahl 1967, Validity of the single processor approach"
_DEFINITION = "definition"


@formula("x", "1", _AMDAHL)
def amdahl_speedup(total: Number, removed: Number) -> Number:
    """Speed-up when so much of the time goes away."""
    return total / (total - removed)


@formula("e_c", "1", "achieved FLOP/s over peak")
def compute_utilization(flops: Number, seconds: Number, peak: Number) -> Number:
    """Share of peak FLOP/s a kernel reached."""
    return flops / (seconds * peak)


@formula("e_m", "1", "achieved bytes/s over peak bandwidth")
def bandwidth_utilization(bytes_moved: Number, seconds: Number, bandwidth: Number) -> Number:
    """Share of memory bandwidth a kernel reached."""
    return bytes_moved / (seconds * bandwidth)


@formula(
    "low",
    "bool",
    "under 60 % of both roofs a kernel is latency-bound or under-occupied; NVIDIA Nsight Compute, Speed Of Light",
)
def latency_bound(compute_share: Number, bandwidth_share: Number, threshold: Number) -> Number:
    """Neither roof is reached."""
    return num.maximum(compute_share, bandwidth_share) < threshold


@formula("bad", "bool", "no kernel beats the roofline; Williams, Waterman, Patterson 2009")
def beats_floor(seconds: Number, floor: Number) -> Number:
    """A measured time is shorter than physics allows."""
    return seconds < floor


@formula("s_idle", "1", _DEFINITION)
def idle_share(busy: Number, wall: Number) -> Number:
    """Share of wall time during which nothing ran."""
    return 1 - busy / wall


@formula("w", "1", "an even split; a device may move more, never less")
def per_shard(amount: Number, shards: Number) -> Number:
    """One device's part of FLOPs or bytes."""
    return amount / shards


@formula("m", "1", "F = 2 m k n solved for m")
def matmul_rows(flops: Number, k: Number, n: Number) -> Number:
    """Rows of a matrix product from its FLOPs."""
    return flops / (2 * k * n)
