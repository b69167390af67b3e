"""Timing of one case: inputs made, kernel compiled and checked, runs enqueued on rotating inputs.

The protocol: warm up, repeat until the interval is tight or the budget ends, batch what is short.

A `Run` enqueues the kernel once on its i-th set of inputs and returns what must be waited for; `wait` blocks on it.
Timings have a floor and a long upper tail (other processes, interrupts, clocks), so means and standard deviations mislead: the interval
of the median is distribution-free, ranks n/2 ± 1.96 sqrt(n)/2 of the sorted sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from rooflinecli.core.num import quantile
from rooflinecli.measure.cases import WARM, KernelCase
from rooflinecli.measure.device import Environment

if TYPE_CHECKING:
    import jax

    from rooflinecli.measure.kernels.base import Arrays, Kernel


_Z95 = 1.96
_MAD_TO_SIGMA = 1.4826  # MAD of a normal distribution is sigma / 1.4826
_OUTLIER_SIGMAS = 8.0


@dataclass(frozen=True)
class Summary:
    """Seconds: n timings, their median, its 95% interval, the median absolute deviation and the 10th percentile."""

    n: int
    median: float
    mad: float
    p10: float
    median_low: float
    median_high: float
    outliers: int

    @property
    def spread(self) -> float:
        """Half the width of the interval over the median: how tight the answer is."""
        return (self.median_high - self.median_low) / (2 * self.median) if self.median else math.inf


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
    """Repetitions: `budget` seconds for a kernel, fewer once the spread is `target_spread`; runs below `batch_below` s in batches of `batch_length` s."""

    budget: float = 1.0
    minimum: int = 9
    maximum: int = 400
    target_spread: float = 0.01
    batch_below: float = 50e-6
    batch_length: float = 200e-6
    warm_up: int = 2


QUICK = Protocol(budget=0.2, minimum=5, maximum=100, target_spread=0.02)
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
    single = float("inf")  # the quickest warm-up run decides whether to batch
    for turn in range(max(protocol.warm_up, 1)):
        start = clock()
        wait(run(turn))
        single = min(single, clock() - start)
    fills = int(protocol.batch_length / max(single, 1e-7)) + 1
    batch = 1 if single >= protocol.batch_below else min(256, max(2, fills))
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
            or (len(samples) % 5 == 0 and len(samples) >= 15 and summarize(samples).spread <= protocol.target_spread)
        ):
            break
        if clock() >= deadline + 2 * protocol.budget and len(samples) >= 3:
            break
    return Timing(summarize(samples), tuple(samples), batch, subtract)


def timed(case: KernelCase, protocol: Protocol, environment: Environment, dispatch: float) -> Timing:
    """Compile one case, check it where the kernel is not XLA's, then time it on rotating inputs (one set when timed warm) with its output buffer reused."""
    from rooflinecli.measure import torch_baseline
    from rooflinecli.measure.kernels.base import build, sets_needed

    kernel = build(case)
    first = kernel.rotating(0)
    chain = chain_length(case, environment)
    wanted = max(chain, sets_needed(sum(a.nbytes for a in first), environment.llc, environment.memory))
    if case.engine == torch_baseline.ENGINE:
        return torch_baseline.timed(case, protocol, chain, wanted, dispatch)
    count = 1 if case.engine == WARM else 2 if case.suite == "collectives" else wanted
    sets = [first, *(kernel.rotating(i) for i in range(1, count))]
    if case.engine == "pallas":
        kernel = _checked(case, kernel, sets, protocol)
    return _time(kernel, sets, chain, protocol, dispatch)


def _checked(case: KernelCase, kernel: Kernel, sets: list[Arrays], protocol: Protocol) -> Kernel:
    """Select the quickest of a kernel's options whose output agrees with float64. Raises when none does."""
    import jax

    from rooflinecli.measure.kernels.base import check

    best, quickest, why = None, float("inf"), Exception("no option")
    for option in kernel.options or (kernel.fn,):
        try:
            check(case, jax.jit(option)(*sets[0], *kernel.hot), sets[0], kernel.hot)
            trial = replace(kernel, fn=option)
            low = (
                _time(trial, sets, 1, replace(protocol, budget=0.1, maximum=12), 0.0).summary.p10
                if len(kernel.options) > 1
                else 0.0
            )
        except Exception as error:  # a tile too large for this chip's shared memory, or a wrong result
            why = error
            continue
        if low < quickest:
            best, quickest = trial, low
    if best is None:
        raise why
    return best


def _time(kernel: Kernel, sets: list[Arrays], chain: int, protocol: Protocol, dispatch: float) -> Timing:
    """Time a kernel over its rotating input sets, `chain` of them per call."""
    import jax

    from rooflinecli.measure.kernels.base import compiled

    count = len(sets)
    groups = [tuple(sets[(g + i) % count] for i in range(chain)) for g in range(count)]
    begin = time.perf_counter()
    function, buffer = compiled(kernel, sets[0], chain)
    executable = function.lower(groups[0], kernel.hot, buffer).compile()
    compile_s = time.perf_counter() - begin
    state = [buffer]

    def run(turn: int) -> jax.Array | Arrays:
        out = executable(groups[turn % count], kernel.hot, state[0])
        if kernel.reuse:
            state[0] = out
        return out

    timing = measure(run, jax.block_until_ready, protocol, dispatch=dispatch, chain=chain)
    return replace(timing, compile_s=compile_s)


def chain_length(case: KernelCase, environment: Environment) -> int:
    """Copies in one call: enough that the host's dispatch (tens of microseconds on an accelerator) does not count."""
    if environment.platform == "cpu" or case.suite == "collectives":
        return 1
    guess = max(case.flops / 5e14, case.bytes / 2e12)  # seconds on a large accelerator; only the order matters
    return 1 if guess > 300e-6 else 4 if guess > 60e-6 else 16


def dispatch_overhead(repeats: int = 300) -> float:
    """Seconds of calling a trivial compiled kernel and waiting for it."""
    import jax
    import jax.numpy as jnp

    empty = jax.jit(lambda x: x + 1).lower(jnp.float32(0)).compile()
    x, samples = jnp.float32(1), []
    for _ in range(repeats):
        start = time.perf_counter()
        empty(x).block_until_ready()
        samples.append(time.perf_counter() - start)
    return sorted(samples)[len(samples) // 4]
