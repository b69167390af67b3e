"""The order of points, and how a run of them is cut into boxes of bounded size that numpy can broadcast over.

Points are numbered row by row (the last axis moves fastest). A shard is a run of numbers, so shards concatenate to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rooflinecli.core.errors import UsageError

Box = tuple[tuple[int, int], ...]  # [start, stop) on every axis


def shard(points: int, text: str | None) -> tuple[int, int]:
    """[start, stop) of shard `i/n`, i from 1; all of it without one. Raises UsageError for anything else."""
    if text is None:
        return 0, points
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit()) or not 1 <= int(index) <= int(count):
        raise UsageError(f"--shard {text}: write i/n with i from 1 to n, for example --shard 3/16")
    i, n = int(index), int(count)
    return points * (i - 1) // n, points * i // n


def boxes(shape: tuple[int, ...], start: int, stop: int, limit: int) -> Iterator[Box]:
    """Cut points [start, stop) of a grid into boxes of at most `limit` points, in order."""
    if start >= stop:
        return
    if not shape:
        yield ()
        return
    inner = math.prod(shape[1:])
    first, last = start // inner, (stop - 1) // inner
    if inner > limit or (first == last and (start % inner or stop % inner)):
        for i in range(first, last + 1):
            low, high = max(start - i * inner, 0), min(stop - i * inner, inner)
            for box in boxes(shape[1:], low, high, limit):
                yield ((i, i + 1), *box)
        return
    yield from _rows(shape, start, stop, limit, inner)


def _rows(shape: tuple[int, ...], start: int, stop: int, limit: int, inner: int) -> Iterator[Box]:
    """Ragged ends by recursion, whole rows between them several at a time."""
    low, high = -(-start // inner), stop // inner
    if start % inner:
        yield from boxes(shape, start, low * inner, limit)
    step = max(limit // inner, 1)
    whole = tuple((0, size) for size in shape[1:])
    for i in range(low, high, step):
        yield ((i, min(i + step, high)), *whole)
    if stop % inner and high >= low:
        yield from boxes(shape, high * inner, stop, limit)
