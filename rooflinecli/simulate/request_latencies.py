"""The times of every request that ended, as arrays, and their percentiles."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from rooflinecli.simulate.request import SimRequest

QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass
class RequestLatencies:
    """Seconds by request, in the order of their arrival: arrays of floats, lengths in tokens, and classes as text."""

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
    label: Any
    columns: tuple[str, ...] = field(
        default=("arrival", "prompt", "output", "queue", "ttft", "tpot", "e2e", "replica", "preempted", "hit"),
        repr=False,
    )

    def since(self, instant: float) -> RequestLatencies:
        """Those of the requests that came no earlier."""
        inside = self.arrival >= instant
        names = [f.name for f in fields(self) if f.name != "columns"]
        kept: dict[str, Any] = {name: getattr(self, name)[inside] for name in names}
        return replace(self, **kept)


def times(jobs: list[SimRequest]) -> RequestLatencies:
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
    labels = np.array([j.label for j in ordered])
    further = np.maximum(output - 1, 1)
    return RequestLatencies(
        arrival, queued - arrival, first - arrival, np.where(output > 1, (finish - first) / further, 0.0), finish - arrival,
        prompt, output, replica, preempted, hit, labels, (*RequestLatencies.columns, "label") if any(labels) else RequestLatencies.columns,
    )  # fmt: skip


def percentiles(name: str, values: Any) -> dict[str, float]:
    """Mean, quantiles and the most of seconds; zeros of none."""
    import numpy as np

    if not len(values):
        return {f"{name}_{p}_s": 0.0 for p in ("mean", *(f"p{100 * q:g}" for q in QUANTILES), "max")}
    points = np.quantile(values, QUANTILES)
    return {
        f"{name}_mean_s": float(values.mean()),
        **{f"{name}_p{100 * q:g}_s": float(v) for q, v in zip(QUANTILES, points, strict=True)},
        f"{name}_max_s": float(values.max()),
    }
