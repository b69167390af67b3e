"""The numbers of a simulation run: latency percentiles, rates, SLO attainment and goodput, utilization."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import QUANTILES, RequestLatencies, percentiles
from rooflinecli.simulate.slo import SloSet, goodput
from rooflinecli.simulate.stats import gap_percentiles

TIMES = ("ttft", "itl", "tpot", "e2e", "queue")


def summary(
    times: RequestLatencies,
    replicas: list[Replica],
    limits: SloSet | None,
    devices: float,
    warmup: float = 0.0,
    copies: float | None = None,
) -> dict[str, float]:
    """Numbers by name, SI, the unit in the key. Times in seconds, fractions of 1, rates over the run after `warmup` until its end.

    `devices` and `copies` are those paid for, averaged over time where replicas scale.
    """
    result: dict[str, float] = {}
    if warmup:
        for replica in replicas:
            replica.end_warmup()
    for name in ("ttft", "tpot", "e2e", "queue"):
        values = times.of(name)
        result |= percentiles(name, values[times.output > 1] if name == "tpot" else values)
    start, end = warmup or float(times.arrival.min()), float((times.arrival + times.e2e).max())
    seconds = max(end - start, 1e-12)
    result |= {
        **_itl(replicas),
        "requests": len(times.arrival),
        "duration_s": seconds,
        "requests_per_s": len(times.arrival) / seconds,
        "input_tokens_per_s": float(times.prompt.sum()) / seconds,
        "output_tokens_per_s": float(times.output.sum()) / seconds,
        "output_tokens_per_s_per_device": float(times.output.sum()) / seconds / devices,
    }
    if limits is not None:
        result |= goodput(times, limits, seconds, devices)
    span = seconds * (len(replicas) if copies is None else copies)
    prompt_tokens = float(times.prompt.sum())
    result |= {
        "engine_utilization": sum(r.tally.busy for r in replicas) / span,
        "running_requests_mean": sum(r.tally.area_batch for r in replicas) / span,
        "decode_batch_max": max(r.tally.most_batch for r in replicas),
        "kv_cache_usage_mean": sum(r.tally.area_used / r.limits.pool for r in replicas) / span,
        "kv_cache_usage_max": max(r.tally.most_used / r.limits.pool for r in replicas),
        "preemptions": sum(r.tally.preemptions for r in replicas),
        "prefix_cache_hit_rate": sum(r.tally.hit_tokens for r in replicas) / prompt_tokens if prompt_tokens else 0.0,
    }
    for replica in replicas:  # fraction of the prompt tokens that each tier behind the prefix caches brought back
        for tier in replica.store.tiers if replica.store is not None else ():
            key = f"reloaded_{tier.name}_share"
            result[key] = result.get(key, 0.0) + (tier.loaded / prompt_tokens if prompt_tokens else 0.0)
    result["steps"] = sum(r.tally.steps for r in replicas)
    return result


def _itl(replicas: list[Replica]) -> dict[str, float]:
    """ITL over the gaps of all requests."""
    gaps: dict[int, int] = {}
    for replica in replicas:
        for key, count in replica.tally.gaps.items():
            gaps[key] = gaps.get(key, 0) + count
    *quantiles, most = gap_percentiles(gaps, (*QUANTILES, 1.0))
    total = sum(gaps.values())
    return {
        "itl_mean_s": sum(r.tally.gap_sum for r in replicas) / total if total else 0.0,
        **{f"itl_p{100 * q:g}_s": v for q, v in zip(QUANTILES, quantiles, strict=False)},
        "itl_max_s": most,
    }
