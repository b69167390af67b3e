"""A request on its way through a deployment, and the latencies of those that ended, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INF = float("inf")
QUANTILES = (0.5, 0.9, 0.95, 0.99)


class SimRequest:
    """Lengths in tokens, instants in seconds since the start; `prompt` is the ISL, `need` what prefill must compute now.

    `label` is its request class; `last` is when the newest token of a stalled sequence was written. `hashes` name the prompt's
    blocks of `span` tokens, first to last, for prefix caching. `epoch` counts how often it lost its place in the running batch,
    so that events planned for it before are recognized as stale.
    """

    __slots__ = (
        "arrival", "done", "due", "entered", "epoch", "finish", "first", "hashes", "hit", "index", "label", "last", "made", "need", "output", "preempted", "prompt",
        "queued", "ready", "replica", "session", "shared", "span", "swapped", "think",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        arrival: float,
        prompt: int,
        output: int,
        session: str = "",
        hashes: tuple[int | str, ...] = (),
        span: int = 0,
        think: float = 0.0,
        label: str = "",
    ):
        self.index, self.arrival, self.prompt, self.output = index, arrival, prompt, output
        self.session, self.hashes, self.span, self.think, self.label = session, hashes, span, think, label
        self.reset()

    def reset(self) -> None:
        """Restore the state before arrival."""
        self.ready, self.first, self.finish, self.queued = self.arrival, INF, INF, -1.0
        self.last = INF
        self.need, self.done, self.made, self.hit, self.shared = self.prompt, 0, 0, 0, 0
        self.epoch = self.preempted = self.entered = self.due = 0
        self.replica, self.swapped = -1, False

    @property
    def remaining(self) -> int:
        """Tokens still to be written."""
        return self.output - self.made


@dataclass
class RequestLatencies:
    """Seconds by request, in the order of arrival: arrays of floats, lengths in tokens, and classes as text."""

    arrival: NDArray[np.float64]
    prompt: NDArray[np.float64]
    output: NDArray[np.float64]
    queue: NDArray[np.float64]
    ttft: NDArray[np.float64]
    tpot: NDArray[np.float64]
    e2e: NDArray[np.float64]
    replica: NDArray[np.float64]
    preempted: NDArray[np.float64]
    hit: NDArray[np.float64]
    label: NDArray[np.str_]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of an export: request classes only where there are any."""
        return tuple(f.name for f in fields(self) if f.name != "label" or any(self.label))

    def of(self, name: str) -> NDArray[np.float64]:
        """Array of a latency; the ITL of a request is its TPOT."""
        times: NDArray[np.float64] = getattr(self, "tpot" if name == "itl" else name)
        return times

    def since(self, instant: float) -> RequestLatencies:
        """Those of the requests that arrived no earlier."""
        inside = self.arrival >= instant
        return RequestLatencies(*(getattr(self, f.name)[inside] for f in fields(self)))


def times(jobs: list[SimRequest]) -> RequestLatencies:
    """Latencies of the requests that ended. TPOT is the mean time per token after the first; 0 for an output of one token."""
    import numpy as np

    ordered = sorted(jobs, key=lambda j: j.index)
    rows = (
        v
        for j in ordered
        for v in (j.arrival, j.queued, j.first, j.finish, j.prompt, j.output, j.replica, j.preempted, j.hit)
    )
    table = np.fromiter(rows, dtype=np.float64, count=9 * len(ordered)).reshape(len(ordered), 9)
    arrival, queued, first, finish, prompt, output, replica, preempted, hit = table.T
    tpot = np.where(output > 1, (finish - first) / np.maximum(output - 1, 1), 0.0)
    labels = np.array([j.label for j in ordered])
    return RequestLatencies(
        arrival, prompt, output, queued - arrival, first - arrival, tpot, finish - arrival, replica, preempted, hit, labels
    )  # fmt: skip


def percentiles(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, percentiles and maximum in seconds; zeros of none."""
    import numpy as np

    if not len(values):
        return {f"{name}_{p}_s": 0.0 for p in ("mean", *(f"p{100 * q:g}" for q in QUANTILES), "max")}
    points = np.quantile(values, QUANTILES)
    return {
        f"{name}_mean_s": float(values.mean()),
        **{f"{name}_p{100 * q:g}_s": float(v) for q, v in zip(QUANTILES, points, strict=True)},
        f"{name}_max_s": float(values.max()),
    }
