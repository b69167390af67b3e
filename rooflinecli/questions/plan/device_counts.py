"""Which device counts a plan tries, and how it finds the fewest that meet a limit, the cheapest, or the fastest within a budget.

Counts come as people order them: powers of two inside a host, then whole hosts, in steps of a sixteenth of the power of two
below. Every count tried is one whole search, so the next is guessed from how far the last one was off.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

STEPS = 16  # counts between one power of two and the next
MOST = 131_072
BETWEEN = 6  # counts tried between two doublings
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


def doublings(counts: list[int], least: int) -> list[int]:
    """Counts about a factor of two apart, from `least` up: enough to see where a cost has its minimum."""
    found = [counts[bisect_left(counts, least)]] if bisect_left(counts, least) < len(counts) else []
    while found and (at := bisect_left(counts, 2 * found[-1])) < len(counts):
        found.append(counts[at])
    return found


def cheapest(counts: list[int], cost: Ratio, time: Ratio, least: int) -> int | None:
    """The count of least cost from `least` up. A memory-starved count recomputes and is dear, a large one waits for its network, so
    the cost falls and then rises: doublings find the valley, the ladder its bottom."""
    coarse = _useful(doublings(counts, least), time)
    best = min(coarse, key=cost, default=None)
    if best is None or not math.isfinite(cost(best)):
        return None
    place = coarse.index(best)
    low, high = coarse[max(place - 1, 0)], coarse[min(place + 1, len(coarse) - 1)]
    between = [n for n in counts if low < n < high and n not in coarse]
    return min([best, *between[:: max(len(between) // BETWEEN, 1)]], key=cost)


def fastest_within(counts: list[int], over: Ratio, time: Ratio, least: int) -> int | None:
    """The fastest count whose ratio is at most 1, from `least` up and as far as more devices still shorten the time."""
    coarse = _useful(doublings(counts, least), time)
    within = [n for n in coarse if over(n) <= 1]
    if not within:
        best = cheapest(counts, over, time, least)
        return best if best is not None and over(best) <= 1 else None
    low = min(within, key=time)
    at = bisect_left(counts, low)
    high = next((bisect_left(counts, n) for n in coarse if n > low), len(counts))
    while high - at > 1:
        middle = (at + high) // 2
        better = over(counts[middle]) <= 1 and time(counts[middle]) < time(counts[at])
        at, high = (middle, high) if better else (at, middle)
    return counts[at]


def _useful(counts: list[int], time: Ratio) -> list[int]:
    """Counts as far as a fourfold one still shortens the time."""
    for place, n in enumerate(counts[2:], 2):
        if math.isfinite(time(counts[place - 2])) and time(n) > GAIN * time(counts[place - 2]):
            return counts[: place + 1]
    return counts
