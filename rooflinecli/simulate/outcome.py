"""What a run says: percentiles of every request's times, rates, shares inside the limits, use of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rooflinecli.simulate.job import Job
from rooflinecli.simulate.limits import Limits
from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.tally import quantiles_of

QUANTILES = (0.5, 0.9, 0.95, 0.99)
TIMES = ("ttft", "itl", "tpot", "e2e", "queue")


@dataclass
class Times:
    """Seconds by request, in the order of their arrival: arrays of floats, and lengths in tokens."""

    arrival: Any
    queue: Any
    ttft: Any
    tpot: Any
    e2e: Any
    prompt: Any
    output: Any
    replica: Any
    preempted: Any
    hit: Any
    columns: tuple[str, ...] = field(
        default=("arrival", "prompt", "output", "queue", "ttft", "tpot", "e2e", "replica", "preempted", "hit"),
        repr=False,
    )


def times(jobs: list[Job]) -> Times:
    """Of the jobs that ended. tpot is the mean time per token after the first; 0 for an answer of one token."""
    import numpy as np

    ordered = sorted(jobs, key=lambda j: j.index)
    shape = (len(ordered), 9)
    table = np.fromiter(
        (
            v
            for j in ordered
            for v in (j.arrival, j.queued, j.first, j.finish, j.prompt, j.output, j.replica, j.preempted, j.hit)
        ),
        dtype=np.float64,
        count=shape[0] * shape[1],
    ).reshape(shape)
    arrival, queued, first, finish, prompt, output, replica, preempted, hit = table.T
    further = np.maximum(output - 1, 1)
    return Times(
        arrival, queued - arrival, first - arrival, np.where(output > 1, (finish - first) / further, 0.0), finish - arrival,
        prompt, output, replica, preempted, hit,
    )  # fmt: skip


def summary(found: Times, replicas: list[Replica], limits: Limits | None, devices: int) -> dict[str, Any]:
    """Flat, SI, the unit in the key. Times in seconds; shares of 1; rates over the whole run, ends included."""
    import numpy as np

    result: dict[str, Any] = {}
    several = found.output > 1
    for name in ("ttft", "tpot", "e2e", "queue"):
        values = getattr(found, name)[several] if name == "tpot" else getattr(found, name)
        result |= _percentiles(name, values)
    result |= _gaps(replicas)
    start, end = float(found.arrival.min()), float((found.arrival + found.e2e).max())
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
        result |= _inside(found, limits, seconds, devices)
    result |= _use(replicas, found, seconds)
    assert np.isfinite(result["ttft_max_s"])  # every job that ended has had its first token
    return result


def _percentiles(name: str, values: Any) -> dict[str, float]:
    import numpy as np

    if not len(values):
        return {f"{name}_{p}_s": 0.0 for p in ("mean", *(f"p{100 * q:g}" for q in QUANTILES), "max")}
    points = np.quantile(values, QUANTILES)
    return {
        f"{name}_mean_s": float(values.mean()),
        **{f"{name}_p{100 * q:g}_s": float(v) for q, v in zip(QUANTILES, points, strict=True)},
        f"{name}_max_s": float(values.max()),
    }


def _gaps(replicas: list[Replica]) -> dict[str, float]:
    """Gaps between neighbouring tokens of all answers."""
    gaps: dict[int, int] = {}
    for replica in replicas:
        for key, count in replica.tally.gaps.items():
            gaps[key] = gaps.get(key, 0) + count
    found = quantiles_of(gaps, (*QUANTILES, 1.0))
    total = sum(gaps.values())
    sums = sum(r.tally.gap_sum for r in replicas)
    return {
        "itl_mean_s": sums / total if total else 0.0,
        **{f"itl_p{100 * q:g}_s": v for q, v in zip(QUANTILES, found, strict=False)},
        "itl_max_s": found[-1],
    }


def _inside(found: Times, limits: Limits, seconds: float, devices: int) -> dict[str, float]:
    """Shares of requests inside each limit, and inside all. The itl of a request is its mean time per further token."""
    import numpy as np

    every = np.ones(len(found.arrival), dtype=bool)
    shares = {}
    for name, limit in limits.seconds:
        inside = getattr(found, "tpot" if name == "itl" else name) <= limit
        shares[f"slo_{name}_share"] = float(inside.mean())
        every &= inside
    rate = float(every.sum()) / seconds
    return {
        **shares,
        "slo_share": float(every.mean()),
        "goodput_per_s": rate,
        "goodput_per_s_per_device": rate / devices,
    }


def _use(replicas: list[Replica], found: Times, seconds: float) -> dict[str, float]:
    """Means over the run and all replicas, and what was most."""
    span = seconds * len(replicas)
    asked = float(found.prompt.sum())
    return {
        "busy_share": sum(r.tally.busy for r in replicas) / span,
        "batch_mean": sum(r.tally.area_batch for r in replicas) / span,
        "batch_max": max(r.tally.most_batch for r in replicas),
        "kv_use_mean_share": sum(r.tally.area_used / r.limits.pool for r in replicas) / span,
        "kv_use_max_share": max(r.tally.most_used / r.limits.pool for r in replicas),
        "preemptions": sum(r.tally.preemptions for r in replicas),
        "hit_share": sum(r.tally.hit_tokens for r in replicas) / asked if asked else 0.0,
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
