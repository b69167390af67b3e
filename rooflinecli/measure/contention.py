"""Contention by other programs: a reference kernel timed around every case, and the share of the processors that others use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.measure.cases import Record
from rooflinecli.measure.timing import Run, T, Timing, Wait, summarize

if TYPE_CHECKING:
    import jax


BUSY = 1.15


def was_contended(record: Record) -> bool:
    """Whether a kernel was timed while other programs ran."""
    return bool(record.get("busy", 1.0) > BUSY)


class ReferenceKernel:
    """A matmul of a few hundred microseconds on all cores. `best` may come from an earlier run's log."""

    def __init__(self, best: float = float("inf"), size: int = 384):
        import jax

        from rooflinecli.measure.kernels.base import normal

        x, w = normal(1, (size, size), "fp32"), normal(2, (size, size), "fp32")
        run: jax.stages.Compiled = jax.jit(lambda x, w: x @ w).lower(x, w).compile()
        self._call = lambda: run(x, w).block_until_ready()
        self._call()
        self.best = best
        for _ in range(20):
            self.slowdown(1)

    def slowdown(self, runs: int = 4) -> float:
        """Current time over the best ever measured; 1 on an idle machine."""
        taken = float("inf")
        for _ in range(runs):
            start = time.perf_counter()
            self._call()
            taken = min(taken, time.perf_counter() - start)
        self.best = min(self.best, taken)
        return taken / self.best


CALM = 0.08  # fraction of all processors that others may use before a timing counts as contended
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # /proc/stat: user, nice, system, irq, softirq, steal


class CpuContention:
    """Processor time of other processes since construction, as a fraction of all processors; 0 where the system does not report it."""

    def __init__(self) -> None:
        self.start = _now()

    def share(self) -> float:
        now = _now()
        if now is None or self.start is None:
            return 0.0
        wall, busy, own = (after - before for after, before in zip(now, self.start, strict=True))
        cores = os.cpu_count() or 1
        return max(0.0, (busy - own) / (wall * cores)) if wall > 0 else 0.0


def _now() -> tuple[float, float, float] | None:
    """Wall seconds, busy processor seconds of the machine, processor seconds of this process."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    own = os.times()
    return time.monotonic(), sum(float(fields[i]) for i in _BUSY_FIELDS) / ticks, own.user + own.system


def around(run: Run[T], wait: Wait[T], budget: float, *, enough: int = 7, block: float = 0.3) -> Timing:
    """Time a long program in blocks and keep the undisturbed ones; waits up to three more budgets for `enough` of them.

    On a machine that is never idle all runs count, with a warning.
    """
    for turn in range(2):
        wait(run(turn))
    start, blocks = time.monotonic(), list[tuple[float, list[float]]]()
    while True:
        others, samples, end = CpuContention(), list[float](), time.monotonic() + block
        while not samples or time.monotonic() < end:
            begin = time.perf_counter()
            wait(run(len(samples)))
            samples.append(time.perf_counter() - begin)
        blocks.append((others.share(), samples))
        calm = [s for share, of_block in blocks if share <= CALM for s in of_block]
        spent = time.monotonic() - start
        if (spent >= budget and len(calm) >= enough) or spent >= 4 * budget:
            break
    kept, note = calm, ""
    if len(calm) < 3:
        kept = [s for _, of_block in blocks for s in of_block]
        note = "other programs had part of the processors all the time: measure again when they are idle"
    return Timing(summarize(kept), tuple(kept), 1, 0.0, note=note)
