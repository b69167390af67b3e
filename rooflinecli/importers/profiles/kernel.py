"""Kernels of a trace: times, the sizes that the trace records, what kind of work they are by their names; unions and overlaps of times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rooflinecli.specs.snapshots import table

Interval = tuple[float, float]
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


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Disjoint intervals that cover the same time, in order."""
    result: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[1] > i[0]):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def length(intervals: Iterable[Interval]) -> float:
    """Time covered by at least one interval."""
    return sum(end - start for start, end in union(intervals))


def overlap(first: Iterable[Interval], second: Iterable[Interval]) -> float:
    """Time covered by both."""
    a, b, i, j, total = union(first), union(second), 0, 0, 0.0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        i, j = (i + 1, j) if a[i][1] < b[j][1] else (i, j + 1)
    return total


def own_times(events: list[Interval]) -> list[float]:
    """Per event its length less that of the events nested directly inside it."""
    own = [end - start for start, end in events]
    stack: list[int] = []
    for index in sorted(range(len(events)), key=lambda i: (events[i][0], -events[i][1])):
        start, end = events[index]
        while stack and events[stack[-1]][1] <= start:
            stack.pop()
        if stack and end <= events[stack[-1]][1]:
            own[stack[-1]] -= end - start
        stack.append(index)
    return [max(0.0, value) for value in own]
