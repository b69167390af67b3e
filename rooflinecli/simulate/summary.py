"""The numbers of a simulation run, as a whole and interval by interval: latencies, rates, SLO attainment and goodput, utilization."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.changing_clusters import mean_paid
from rooflinecli.simulate.replica import Replica, gap_percentiles
from rooflinecli.simulate.request import QUANTILES, RequestLatencies, percentiles
from rooflinecli.simulate.slo import SloSet, goodput, slo_mask

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
    several = bool((times.output > 1).any())  # of requests of one token there is no time between two
    for name in ("ttft", "tpot", "e2e", "queue") if several else ("ttft", "e2e", "queue"):
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
    if several:
        result["itl_mean_s"] = sum(r.tally.gap_sum for r in replicas) / total if total else 0.0
        result |= {f"itl_p{100 * q:g}_s": v for q, v in zip((*QUANTILES, 1.0), points, strict=True) if q < 1}
        result["itl_max_s"] = points[-1]
    result |= {
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

    The whole run where that is less than a fifth of it, as in a burst, or has less than two requests' or a fifth of their work.
    """
    finish = times.arrival + times.e2e
    whole = float(times.arrival.min()), max(float(finish.max()), float(times.arrival.min()) + 1e-12)
    start, end = float(times.arrival.min() + np.median(times.e2e)), float(times.arrival.max())
    held = shares_in(times, (start, end)).sum() >= max(STEADY * len(finish), 2.0)
    return (start, end) if end - start >= STEADY * (whole[1] - whole[0]) and held else whole


def shares_in(times: RequestLatencies, window: tuple[float, float]) -> NDArray[np.float64]:
    """Fraction of each request's time from its first step to its end that lies in a window: how much of it is counted there. One that still queues
    at the end of the window was not served in it."""
    begin, finish = times.arrival + times.queue, times.arrival + times.e2e
    inside = np.minimum(finish, window[1]) - np.maximum(begin, window[0])
    share: NDArray[np.float64] = np.clip(inside, 0.0, None) / np.maximum(finish - begin, 1e-12)
    return share


def is_short(times: RequestLatencies) -> bool:
    """Whether arrivals end before requests do as in a steady state: within five median E2E latencies."""
    return bool(times.arrival.max() - times.arrival.min() < 5 * np.median(times.e2e))


def is_sustained(times: RequestLatencies, recorded: bool = False) -> bool:
    """Whether an open load ends as fast as it arrives, so that its wait for a first token does not keep growing.

    Arrivals that were recorded come in bursts, so a longer queue at their end says less.
    """
    arrival, count = times.arrival, len(times.arrival)
    by_arrival = times.ttft[np.argsort(arrival, kind="stable")]
    middle, late = (by_arrival[int(low * count) : int(high * count)] for low, high in ((0.4, 0.6), (0.8, 1.0)))
    waiting = (arrival + times.ttft > arrival.max()).sum()
    beyond_chance = waiting > max(BACKLOG, (0.1 if recorded else 0.02) * count)
    return not (beyond_chance and late.mean() > 1.5 * middle.mean())


INTERVALS, MOST = 100, 100_000  # of a timeline: the default, and the finest
_QUANTILES = {"p50": 0.5, "p99": 0.99}


def round_interval(seconds: float) -> float:
    """A round length of which about a hundred cover the duration: 1, 2 or 5 times a power of ten."""
    least = max(seconds / INTERVALS, 1e-6)
    power = 10.0 ** floor(log10(least))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


def timeline(
    times: RequestLatencies,
    replicas: list[Replica],
    every: float = 0.0,
    limits: SloSet | None = None,
    paid: Sequence[tuple[float, int]] = (),
) -> dict[str, NDArray[Any]]:
    """Arrays by column, an element for each interval of `every` seconds (0: a round number).

    Latencies and attainment are of the requests that arrived in it, NaN where none did; tokens count where they were written,
    evenly between a request's first and last; `batch` and `queue` are over all replicas, mean and maximum; `replicas` those `paid` for.
    Raises UsageError for more than MOST intervals.
    """
    end = float((times.arrival + times.e2e).max())
    step = every or round_interval(end)
    if end / step > MOST:
        raise UsageError(f"--every {step:g}s: {end:.4g} s are more than {MOST:,} intervals; give a longer one", "every")
    count = max(ceil(end / step - 1e-9), 1)
    edges = step * np.arange(count + 1)
    arrived = np.clip((times.arrival / step).astype(int), 0, count - 1)
    ended = np.clip(((times.arrival + times.e2e) / step).astype(int), 0, count - 1)
    arrivals = np.bincount(arrived, minlength=count)
    columns: dict[str, NDArray[Any]] = {
        "start_s": edges[:-1],
        "arrived": arrivals,
        "ended": np.bincount(ended, minlength=count),
        "input_tokens_per_s": np.bincount(arrived, times.prompt, count) / step,
        "output_tokens_per_s": np.diff(_tokens_written(times, edges)) / step,
    }
    order = np.argsort(arrived, kind="stable")
    parts = np.split(order, np.cumsum(arrivals)[:-1])
    for name in ("ttft", "e2e"):
        values = times.of(name)
        for point, q in _QUANTILES.items():
            columns[f"{name}_{point}_s"] = np.array([np.quantile(values[p], q) if len(p) else np.nan for p in parts])
    if limits is not None:
        attained = slo_mask(times, limits)[1]
        columns["slo_attainment"] = np.array([attained[p].mean() if len(p) else np.nan for p in parts])
    columns |= _usage(replicas, edges)
    if paid:
        columns["replicas"] = np.array([mean_paid(paid, low, high) for low, high in pairwise(edges.tolist())])
    return columns


def _tokens_written(times: RequestLatencies, edges: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Output tokens written until each edge: the first at once, the others evenly until the last."""
    first, last = times.arrival + times.ttft, times.arrival + times.e2e
    span = np.maximum(last - first, 1e-12)
    return np.array(
        [float(((edge >= first) * (1 + (times.output - 1) * np.clip((edge - first) / span, 0, 1))).sum()) for edge in edges[:-1]]
        + [float(times.output.sum())]
    )  # fmt: skip


def _usage(replicas: list[Replica], edges: NDArray[np.floating[Any]]) -> dict[str, NDArray[Any]]:
    """Mean batch, longest queue and fullest KV pool by interval; without a sample in it, a replica's last one before."""
    batch, queue, cache = (np.zeros(len(edges) - 1) for _ in range(3))
    for replica in replicas:
        samples = np.array(replica.tally.samples or [(0.0, 0, 0, 0.0)], dtype=np.float64)
        place = np.searchsorted(samples[:, 0], edges)
        for i, (low, high) in enumerate(pairwise(place)):
            part = samples[low:high] if high > low else samples[max(low - 1, 0) : max(low, 1)]
            batch[i] += part[:, 1].mean()
            queue[i] += part[:, 2].max()
            cache[i] = max(cache[i], part[:, 3].max())
    return {"batch": batch, "queue": queue, "kv_use_share": cache}
