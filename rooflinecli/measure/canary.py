"""Reference kernel that detects a busy machine: timed before and after every case; a slow one marks the case as contended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rooflinecli.measure.cases import Record

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
