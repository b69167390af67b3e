"""What a replica notes while it runs: gaps between tokens by size, use of batch and cache over time, counts."""

from __future__ import annotations

from math import exp, log

STEP = 0.01  # gaps between tokens are counted in classes of this relative width
SAMPLES = 2048  # points kept of the use over time


class Tally:
    """Gaps are weighted by the tokens that they stand before; samples thin themselves out as they grow."""

    def __init__(self) -> None:
        self.gaps: dict[int, int] = {}
        self.samples: list[tuple[float, int, int, float]] = []
        self.every, self.count = 1, 0
        self.busy = 0.0
        self.steps = self.preemptions = 0
        self.prompt_tokens = self.output_tokens = self.hit_tokens = 0
        self.gap_sum = 0.0
        self.most_batch, self.most_used, self.most_tokens = 0, 0, 0
        self.area_batch = self.area_used = 0.0

    def gap(self, seconds: float, tokens: int) -> None:
        """`tokens` that each came `seconds` after the one before."""
        key = int(log(seconds) / STEP) if seconds > 0 else -100000
        self.gaps[key] = self.gaps.get(key, 0) + tokens
        self.gap_sum += seconds * tokens

    def sample(self, now: float, batch: int, queue: int, share: float) -> None:
        """Batch, queue and share of the cache in use at an instant."""
        self.count += 1
        if self.count % self.every:
            return
        self.samples.append((now, batch, queue, share))
        if len(self.samples) >= 2 * SAMPLES:
            del self.samples[::2]
            self.every *= 2


def quantiles_of(gaps: dict[int, int], shares: tuple[float, ...]) -> list[float]:
    """Gaps in seconds below which so many of the tokens came, to the width of a class; 0 where none did."""
    total, found, seen = sum(gaps.values()), [], 0
    wanted = iter(sorted(shares))
    share = next(wanted, None)
    for key in sorted(gaps):
        seen += gaps[key]
        while share is not None and seen >= share * total:
            found.append(exp((key + 0.5) * STEP))
            share = next(wanted, None)
    return found or [0.0] * len(shares)
