"""Kernels of a trace: times, the sizes that the trace records, and what kind of work they are by their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rooflinecli.specs.snapshots import table

KINDS = ("gemm", "attention", "elementwise", "collective", "copy", "other")


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


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    rows: dict[str, list[str]] = table(Path(__file__).with_name("kernel_kinds.yaml"))
    return [(kind, re.compile("|".join(patterns), re.IGNORECASE)) for kind, patterns in rows.items()]


def classify(name: str) -> str:
    """The kind of a kernel by its name, else 'other'."""
    return next((kind for kind, pattern in _patterns() if pattern.search(name)), "other")
