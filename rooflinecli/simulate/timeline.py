"""A simulation run over time: arrivals, tokens written, latencies, batch and queue, interval by interval."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.autoscaler import mean
from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import RequestLatencies
from rooflinecli.simulate.slo import SloSet, slo_mask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    import numpy as np

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
        columns["replicas"] = np.array([mean(paid, low, high) for low, high in pairwise(edges.tolist())])
    return columns


def _tokens_written(times: RequestLatencies, edges: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Output tokens written until each edge: the first at once, the others evenly until the last."""
    import numpy as np

    first, last = times.arrival + times.ttft, times.arrival + times.e2e
    span = np.maximum(last - first, 1e-12)
    return np.array(
        [float(((edge >= first) * (1 + (times.output - 1) * np.clip((edge - first) / span, 0, 1))).sum()) for edge in edges[:-1]]
        + [float(times.output.sum())]
    )  # fmt: skip


def _usage(replicas: list[Replica], edges: NDArray[np.floating[Any]]) -> dict[str, NDArray[Any]]:
    """Mean batch, longest queue and fullest KV pool by interval; without a sample in it, a replica's last one before."""
    import numpy as np

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
