"""The timing protocol, free of jax: warm up, repeat until the interval is tight or the budget ends, batch what is short.

A `Run` enqueues the kernel once on its i-th set of inputs and returns what must be waited for; `wait` blocks on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rooflinecli.measure.stats import Summary, summarize

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
        if len(samples) >= protocol.minimum and _enough(samples, protocol, clock() >= deadline):
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


def _enough(samples: list[float], protocol: Protocol, late: bool) -> bool:
    """Tight (looked at every few samples, since sorting costs) or out of time."""
    return late or (len(samples) % 5 == 0 and len(samples) >= 15 and summarize(samples).spread <= protocol.tight)
