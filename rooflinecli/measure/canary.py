"""Is the machine quiet? One reference kernel, timed beside every case; when it runs slow, so did the case."""

from __future__ import annotations

import time
from typing import Any

BUSY = 1.15


def was_contended(record: dict[str, Any]) -> bool:
    """Whether a kernel was timed while other programs ran."""
    return bool(record.get("busy", 1.0) > BUSY)


class ReferenceKernel:
    """A matmul of a few hundred microseconds on all cores. `best` may come from an earlier run's log."""

    def __init__(self, best: float = float("inf"), size: int = 384):
        import jax

        from rooflinecli.measure.kernels.base import normal

        x, w = normal(1, (size, size), "fp32"), normal(2, (size, size), "fp32")
        run: Any = jax.jit(lambda x, w: x @ w).lower(x, w).compile()
        self._call = lambda: run(x, w).block_until_ready()
        self._call()
        self.best = best
        for _ in range(20):
            self.slowdown(1)

    def slowdown(self, runs: int = 4) -> float:
        """How much slower than ever seen the machine is right now; 1 is quiet."""
        taken = float("inf")
        for _ in range(runs):
            start = time.perf_counter()
            self._call()
            taken = min(taken, time.perf_counter() - start)
        self.best = min(self.best, taken)
        return taken / self.best
