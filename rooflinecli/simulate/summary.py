"""The numbers of a simulation run: latency percentiles, rates, SLO attainment and goodput, utilization."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rooflinecli.simulate.replica import Replica, gap_percentiles
from rooflinecli.simulate.request import QUANTILES, RequestLatencies, percentiles
from rooflinecli.simulate.slo import SloSet, goodput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TIMES = ("ttft", "itl", "tpot", "e2e", "queue")
STEADY = 0.2  # of a run, the least that is a steady state
BACKLOG = 8  # requests waiting for a first token, which chance may bring together


def summary(
    times: RequestLatencies,
    replicas: list[Replica],
    limits: SloSet | None,
    devices: float,
    warmup: float = 0.0,
    copies: float | None = None,
) -> dict[str, float]:
    """Numbers by name, SI, the unit in the key. Times in seconds, fractions of 1; rates over the steady window.

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
    window = steady_window(times)
    steady, share = window[1] - window[0], shares_in(times, window)
    output = float((times.output * share).sum()) / steady
    gaps: Counter[int] = Counter()
    for replica in replicas:
        gaps.update(replica.tally.gaps)
    points, total = gap_percentiles(gaps, (*QUANTILES, 1.0)), sum(gaps.values())
    result |= {
        "itl_mean_s": sum(r.tally.gap_sum for r in replicas) / total if total else 0.0,
        **{f"itl_p{100 * q:g}_s": v for q, v in zip((*QUANTILES, 1.0), points, strict=True) if q < 1},
        "itl_max_s": points[-1],
        "requests": len(times.arrival),
        "duration_s": seconds,
        "steady_s": steady,
        "requests_per_s": float(share.sum()) / steady,
        "input_tokens_per_s": float((times.prompt * share).sum()) / steady,
        "output_tokens_per_s": output,
        "output_tokens_per_s_per_device": output / devices,
    }
    if limits is not None:
        result |= goodput(times, limits, share, steady, devices)
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


def steady_window(times: RequestLatencies) -> tuple[float, float]:
    """Instants between which the load is steady: requests have begun to end, and still arrive.

    The whole run where that is less than a fifth of it, as in a burst, and where no request is under way in it.
    """
    import numpy as np

    finish = times.arrival + times.e2e
    whole = float(times.arrival.min()), max(float(finish.max()), float(times.arrival.min()) + 1e-12)
    start, end = float(times.arrival.min() + np.median(times.e2e)), float(times.arrival.max())
    under_way = bool(((finish > start) & (times.arrival < end)).any())
    return (start, end) if end - start >= STEADY * (whole[1] - whole[0]) and under_way else whole


def shares_in(times: RequestLatencies, window: tuple[float, float]) -> NDArray[np.float64]:
    """Fraction of each request's time from arrival to end that lies in a window: how much of it is counted there."""
    import numpy as np

    finish = times.arrival + times.e2e
    inside = np.minimum(finish, window[1]) - np.maximum(times.arrival, window[0])
    share: NDArray[np.float64] = np.clip(inside, 0.0, None) / np.maximum(times.e2e, 1e-12)
    return share


def is_short(times: RequestLatencies) -> bool:
    """Whether arrivals end before requests do as in a steady state: within five median E2E latencies."""
    import numpy as np

    return bool(times.arrival.max() - times.arrival.min() < 5 * np.median(times.e2e))


def is_sustained(times: RequestLatencies, recorded: bool = False) -> bool:
    """Whether an open load ends as fast as it arrives, so that its wait for a first token does not keep growing.

    Arrivals that were recorded come in bursts, so a longer queue at their end says less.
    """
    import numpy as np

    arrival, count = times.arrival, len(times.arrival)
    by_arrival = times.ttft[np.argsort(arrival, kind="stable")]
    middle, late = (by_arrival[int(low * count) : int(high * count)] for low, high in ((0.4, 0.6), (0.8, 1.0)))
    waiting = (arrival + times.ttft > arrival.max()).sum()
    beyond_chance = waiting > max(BACKLOG, (0.1 if recorded else 0.02) * count)
    return not (beyond_chance and late.mean() > 1.5 * middle.mean())
