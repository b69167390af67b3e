"""What a run says: percentiles of every request's times, rates, shares inside the limits, use of the machine."""

from __future__ import annotations

from typing import Any

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request_latencies import QUANTILES, RequestLatencies, percentiles
from rooflinecli.simulate.slo import SloSet
from rooflinecli.simulate.slo_attainment import shares
from rooflinecli.simulate.stats import gap_percentiles

TIMES = ("ttft", "itl", "tpot", "e2e", "queue")


def summary(
    found: RequestLatencies,
    replicas: list[Replica],
    limits: SloSet | None,
    devices: float,
    warmup: float = 0.0,
    copies: float | None = None,
) -> dict[str, Any]:
    """Flat, SI, the unit in the key. Times in seconds; shares of 1; rates over the whole run after `warmup`, the end included.

    `devices` and `copies` are those that cost something, in the mean where they come and go.
    """
    import numpy as np

    result: dict[str, Any] = {}
    if warmup:
        for replica in replicas:
            replica.end_warmup()
    several = found.output > 1
    for name in ("ttft", "tpot", "e2e", "queue"):
        values = getattr(found, name)[several] if name == "tpot" else getattr(found, name)
        result |= percentiles(name, values)
    result |= _gaps(replicas)
    start, end = warmup or float(found.arrival.min()), float((found.arrival + found.e2e).max())
    seconds = max(end - start, 1e-12)
    result |= {
        "requests": len(found.arrival),
        "duration_s": seconds,
        "requests_per_s": len(found.arrival) / seconds,
        "input_tokens_per_s": float(found.prompt.sum()) / seconds,
        "output_tokens_per_s": float(found.output.sum()) / seconds,
        "output_tokens_per_s_per_device": float(found.output.sum()) / seconds / devices,
    }
    if limits is not None:
        result |= shares(found, limits, seconds, devices)
    result |= _use(replicas, found, seconds, len(replicas) if copies is None else copies)
    assert np.isfinite(result["ttft_max_s"])  # every job that ended has had its first token
    return result


def _gaps(replicas: list[Replica]) -> dict[str, float]:
    """Gaps between neighboring tokens of all answers."""
    gaps: dict[int, int] = {}
    for replica in replicas:
        for key, count in replica.tally.gaps.items():
            gaps[key] = gaps.get(key, 0) + count
    found = gap_percentiles(gaps, (*QUANTILES, 1.0))
    total = sum(gaps.values())
    sums = sum(r.tally.gap_sum for r in replicas)
    return {
        "itl_mean_s": sums / total if total else 0.0,
        **{f"itl_p{100 * q:g}_s": v for q, v in zip(QUANTILES, found, strict=False)},
        "itl_max_s": found[-1],
    }


def _use(replicas: list[Replica], found: RequestLatencies, seconds: float, copies: float) -> dict[str, float]:
    """Means over the run and all replicas, and what was most."""
    span = seconds * copies
    asked = float(found.prompt.sum())
    return {
        "engine_utilization": sum(r.tally.busy for r in replicas) / span,
        "running_requests_mean": sum(r.tally.area_batch for r in replicas) / span,
        "decode_batch_max": max(r.tally.most_batch for r in replicas),
        "kv_cache_usage_mean": sum(r.tally.area_used / r.limits.pool for r in replicas) / span,
        "kv_cache_usage_max": max(r.tally.most_used / r.limits.pool for r in replicas),
        "preemptions": sum(r.tally.preemptions for r in replicas),
        "prefix_cache_hit_rate": sum(r.tally.hit_tokens for r in replicas) / asked if asked else 0.0,
        **_reloaded(replicas, asked),
        "steps": sum(r.tally.steps for r in replicas),
    }


def _reloaded(replicas: list[Replica], asked: float) -> dict[str, float]:
    """Share of the prompt tokens that each tier behind the prefix caches brought back."""
    found: dict[str, float] = {}
    for replica in replicas:
        for tier in replica.store.tiers if replica.store is not None else ():
            key = f"reloaded_{tier.name}_share"
            found[key] = found.get(key, 0.0) + (tier.loaded / asked if asked else 0.0)
    return found
