"""Which device counts a plan tries, and how it finds the fewest that meet a limit, or the most that stay within one.

Counts come as people order them: powers of two inside a host, then whole hosts, in steps of a sixteenth of the power of two
below. Every count tried is one whole search, so the next is guessed from how far the last one was off.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

STEPS = 16  # counts between one power of two and the next
MOST = 131_072
GAIN = 0.97  # a fourfold count that leaves more of the time than this is of no use

Ratio = Callable[[int], float]  # count -> what is needed over what is allowed; infinite where nothing fits


def ladder(most: int, host: int) -> list[int]:
    """Counts up to `most`, rising; `most` itself is the last."""
    found = [2**i for i in range(max(host, 1).bit_length()) if 2**i < host]
    count = max(host, 1)
    while count <= most:
        found.append(count)
        step = max(host, 2 ** (count.bit_length() - 1) // STEPS // host * host, 1)
        count += step
    return sorted({n for n in [*found, most] if n <= most})


def min_count(counts: list[int], over: Ratio, first: int) -> int | None:
    """The least count whose ratio is at most 1 among those around the crossing; None where no count has one."""
    low, high, guess = -1, len(counts), float(first)
    while high - low > 1:
        at = min(max(bisect_left(counts, math.ceil(guess * (1 - 1e-9))), low + 1), high - 1)
        ratio = over(counts[at])
        low, high = (low, at) if ratio <= 1 else (at, high)
        guess = counts[at] * (ratio if math.isfinite(ratio) else 2)
    return counts[high] if high < len(counts) else None


def max_count(counts: list[int], over: Ratio, time: Ratio, least: int) -> int | None:
    """The greatest count whose ratio is at most 1, from `least` up and as far as more devices still shorten the time."""
    low, high = bisect_left(counts, least), len(counts)
    if low >= high or over(counts[low]) > 1:
        return None
    while low < high - 1:
        further = min(bisect_left(counts, counts[low] * 4), len(counts) - 1)
        if further <= low or over(counts[further]) > 1:
            high = min(further, high) if further > low else high
            break
        if time(counts[further]) > GAIN * time(counts[low]):
            high = further + 1
            break
        low = further
    while high - low > 1:
        middle = (low + high) // 2
        better = over(counts[middle]) <= 1 and time(counts[middle]) < time(counts[low])
        low, high = (middle, high) if better else (low, middle)
    return counts[low]
