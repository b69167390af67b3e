"""The timing protocol, free of jax: warm up, repeat until the interval is tight or the budget ends, batch what is short.

A `Run` enqueues the kernel once on its i-th set of inputs and returns what must be waited for; `wait` blocks on it.
Timings have a floor and a long upper tail (other processes, interrupts, clocks), so means and standard deviations mislead: the interval
of the median is distribution-free, ranks n/2 ± 1.96 sqrt(n)/2 of the sorted sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

_Z95 = 1.96
_MAD_TO_SIGMA = 1.4826  # MAD of a normal distribution is sigma / 1.4826
_OUTLIER_SIGMAS = 8.0


@dataclass(frozen=True)
class Summary:
    """Seconds. `low` is the 10th percentile; lo..hi brackets the median at 95 %."""

    n: int
    median: float
    mad: float
    low: float
    lo: float
    hi: float
    outliers: int

    @property
    def spread(self) -> float:
        """Half the width of the interval over the median: how tight the answer is."""
        return (self.hi - self.lo) / (2 * self.median) if self.median else math.inf


def quantile(ordered: Sequence[float], q: float) -> float:
    """Linear-interpolation quantile of an already sorted, non-empty sample."""
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summarize(samples: Sequence[float]) -> Summary:
    """Summary of at least one timing. Raises ValueError for an empty sample."""
    if not samples:
        raise ValueError("no timings to summarize")
    ordered = sorted(samples)
    n, median = len(ordered), quantile(ordered, 0.5)
    mad = quantile(sorted(abs(s - median) for s in ordered), 0.5)
    reach = _Z95 * math.sqrt(n) / 2
    lo = ordered[max(math.floor(n / 2 - reach), 0)]
    hi = ordered[min(math.ceil(n / 2 + reach), n - 1)]
    limit = median + _OUTLIER_SIGMAS * _MAD_TO_SIGMA * max(mad, 0.02 * median)
    return Summary(n, median, mad, quantile(ordered, 0.1), lo, hi, sum(s > limit for s in ordered))


def errors(predicted: Sequence[float], measured: Sequence[float]) -> tuple[float, float]:
    """Median and 90th percentile of |predicted / measured - 1|; NaN for an empty sample."""
    if not predicted:
        return math.nan, math.nan
    off = sorted(abs(p / m - 1) for p, m in zip(predicted, measured, strict=True))
    return quantile(off, 0.5), quantile(off, 0.9)


T = TypeVar("T")
Run = Callable[[int], T]
Wait = Callable[[T], object]


@dataclass(frozen=True)
class Protocol:
    """Repetitions of a timing. budget: seconds for one kernel; tight: relative half-width of the median's interval that ends it."""

    budget: float = 1.0
    minimum: int = 9
    maximum: int = 400
    tight: float = 0.01
    short: float = 50e-6
    batched: float = 200e-6
    warm_up: int = 2


QUICK = Protocol(budget=0.2, minimum=5, maximum=100, tight=0.02)
FULL = Protocol()


@dataclass(frozen=True)
class Timing:
    """Seconds per run after the batch is divided out and dispatch subtracted; `samples` keeps them for pooling."""

    summary: Summary
    samples: tuple[float, ...]
    batch: int
    dispatch: float
    compile_s: float = 0.0
    note: str = ""

    @property
    def warning(self) -> str:
        """One sentence with the remedy when repeats disagree; empty when they do not."""
        s = self.summary
        if self.note:
            return self.note
        if s.outliers > max(2, s.n // 5):
            return (
                f"{s.outliers} of {s.n} runs were outliers: close other programs, or fix the clocks, and measure again"
            )
        if s.mad > 0.15 * s.median:
            return f"runs scatter by {s.mad / s.median:.0%}: the machine is busy or changes its clock; measure again when it is idle"
        return ""


def measure(
    run: Run[T],
    wait: Wait[T],
    protocol: Protocol,
    *,
    dispatch: float = 0.0,
    chain: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time `run`. `chain`: kernels inside one call of `run`; `dispatch`: seconds of an empty call, subtracted when batching.

    Short runs are batched (several enqueued, one wait), because a single one drowns in the cost of waiting.
    """
    deadline = clock() + protocol.budget
    single = _warm(run, wait, protocol, clock)
    batch = 1 if single >= protocol.short else min(256, max(2, int(protocol.batched / max(single, 1e-7)) + 1))
    subtract = dispatch if single < 40 * dispatch else 0.0
    samples: list[float] = []
    turn = protocol.warm_up
    while len(samples) < protocol.maximum:
        start = clock()
        for _ in range(batch - 1):
            run(turn)
            turn += 1
        wait(run(turn))
        turn += 1
        taken = (clock() - start) / batch
        samples.append(max(taken - subtract, 0.1 * taken) / chain)
        if len(samples) >= protocol.minimum and (
            clock() >= deadline
            or (len(samples) % 5 == 0 and len(samples) >= 15 and summarize(samples).spread <= protocol.tight)
        ):
            break
        if clock() >= deadline + 2 * protocol.budget and len(samples) >= 3:
            break
    return Timing(summarize(samples), tuple(samples), batch, subtract)


def _warm(run: Run[T], wait: Wait[T], protocol: Protocol, clock: Callable[[], float]) -> float:
    """Warm-up runs; the quickest decides whether to batch."""
    best = float("inf")
    for turn in range(max(protocol.warm_up, 1)):
        start = clock()
        wait(run(turn))
        best = min(best, clock() - start)
    return best
