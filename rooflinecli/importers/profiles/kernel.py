"""Kernels of a trace: times, and the sizes that the trace records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """One launch, or all launches of a name where the trace only sums them up.

    `seconds` is the total of `calls`; flops, bytes and m, k, n are those of one call; `shards`: over how many
    devices m, k, n is split. start_s is None where the trace has no time line.
    """

    name: str
    seconds: float
    calls: int = 1
    start_s: float | None = None
    device: str = ""
    lane: str = ""
    kind: str = ""
    bound: str = ""
    flops: float | None = None
    bytes: float | None = None
    m: float | None = None
    k: float | None = None
    n: float | None = None
    shards: float = 1.0
    dtype: str = ""

    @property
    def end_s(self) -> float:
        return (self.start_s or 0.0) + self.seconds
