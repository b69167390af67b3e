"""Lengths of unions and overlaps of time intervals, and the time a nested event spends outside its children."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[float, float]


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
