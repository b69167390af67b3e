"""A run over time: what came, what was written and what waited, interval by interval."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.autoscaler import mean
from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request_latencies import RequestLatencies
from rooflinecli.simulate.slo import SloSet
from rooflinecli.simulate.slo_attainment import slo_mask

INTERVALS, MOST = 100, 100_000  # of a timeline: as it is, and as fine as anyone reads
_SHARES = {"p50": 0.5, "p99": 0.99}


def round_interval(seconds: float) -> float:
    """A round length of which about a hundred make so many seconds: 1, 2 or 5 times a power of ten."""
    least = max(seconds / INTERVALS, 1e-6)
    power = 10.0 ** floor(log10(least))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


def timeline(
    found: RequestLatencies,
    replicas: list[Replica],
    every: float = 0.0,
    limits: SloSet | None = None,
    paid: Sequence[tuple[float, int]] = (),
) -> dict[str, Any]:
    """Arrays by column, an interval of `every` seconds (0: a round one) each.

    Times and shares are of the requests that came in it, not-a-number where none did; tokens are counted where they were written,
    evenly between a request's first and last; `batch` and `queue` are all replicas', the mean and the most of what was seen in it; `replicas` those `paid` for.
    Raises UsageError for more than MOST intervals.
    """
    import numpy as np

    end = float((found.arrival + found.e2e).max())
    step = every or round_interval(end)
    if end / step > MOST:
        raise UsageError(f"--every {step:g}s: {end:.4g} s are more than {MOST:,} intervals; give a longer one", "every")
    edges = step * np.arange(max(ceil(end / step - 1e-9), 1) + 1)
    came = np.clip((found.arrival / step).astype(int), 0, len(edges) - 2)
    ended = np.clip(((found.arrival + found.e2e) / step).astype(int), 0, len(edges) - 2)
    count = np.bincount(came, minlength=len(edges) - 1)
    columns: dict[str, Any] = {
        "start_s": edges[:-1],
        "arrived": count,
        "ended": np.bincount(ended, minlength=len(edges) - 1),
        "input_tokens_per_s": np.bincount(came, found.prompt, len(edges) - 1) / step,
        "output_tokens_per_s": np.diff(_written(found, edges)) / step,
    }
    order = np.argsort(came, kind="stable")
    parts = np.split(order, np.cumsum(count)[:-1])
    for name in ("ttft", "e2e"):
        values = getattr(found, name)
        for point, share in _SHARES.items():
            columns[f"{name}_{point}_s"] = np.array(
                [np.quantile(values[p], share) if len(p) else np.nan for p in parts]
            )
    if limits is not None:
        kept = slo_mask(found, limits)[1]
        columns["slo_attainment"] = np.array([kept[p].mean() if len(p) else np.nan for p in parts])
    columns |= _seen(replicas, edges)
    if paid:
        columns["replicas"] = np.array([mean(paid, low, high) for low, high in pairwise(edges.tolist())])
    return columns


def _written(found: RequestLatencies, edges: Any) -> Any:
    """Output tokens written until each edge: the first at once, the others evenly until the last."""
    import numpy as np

    first, last = found.arrival + found.ttft, found.arrival + found.e2e
    span = np.maximum(last - first, 1e-12)
    return np.array(
        [float(((edge >= first) * (1 + (found.output - 1) * np.clip((edge - first) / span, 0, 1))).sum()) for edge in edges[:-1]]
        + [float(found.output.sum())]
    )  # fmt: skip


def _seen(replicas: list[Replica], edges: Any) -> dict[str, Any]:
    """Mean batch, most in the queue and most of the cache by interval; where a replica noted nothing, what it noted last."""
    import numpy as np

    batch, queue, cache = (np.zeros(len(edges) - 1) for _ in range(3))
    for replica in replicas:
        seen = np.array(replica.tally.samples or [(0.0, 0, 0, 0.0)], dtype=np.float64)
        place = np.searchsorted(seen[:, 0], edges)
        for i, (low, high) in enumerate(pairwise(place)):
            part = seen[low:high] if high > low else seen[max(low - 1, 0) : max(low, 1)]
            batch[i] += part[:, 1].mean()
            queue[i] += part[:, 2].max()
            cache[i] = max(cache[i], part[:, 3].max())
    return {"batch": batch, "queue": queue, "kv_use_share": cache}
