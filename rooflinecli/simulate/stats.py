"""What a replica notes while it runs: gaps between tokens by size, use of batch and cache over time, counts."""

from __future__ import annotations

from math import exp, log

PER_E = 100  # classes per factor e: gaps between tokens are counted in classes of one per cent
ABOVE = 100_000  # so that classes have positive numbers
SAMPLES = 2048  # points kept of the use over time


class ReplicaStats:
    """Gaps are weighted by the tokens that they stand before; samples thin themselves out as they grow."""

    def __init__(self) -> None:
        self.gaps: dict[int, int] = {}
        self.samples: list[tuple[float, int, int, float]] = []
        self.every, self.count, self.due = 1, 0, 1
        self.busy = 0.0
        self.steps = self.preemptions = 0
        self.prompt_tokens = self.output_tokens = self.hit_tokens = 0
        self.gap_sum = 0.0
        self.most_batch, self.most_used, self.most_tokens = 0, 0, 0
        self.area_batch = self.area_used = 0.0

    def reset_copy(self) -> ReplicaStats:
        """One that begins to count here; what was seen over time stays."""
        found = ReplicaStats()
        found.samples, found.every, found.count, found.due = self.samples, self.every, self.count, self.due
        return found

    def gap(self, seconds: float, tokens: int) -> None:
        """`tokens` that each came `seconds` after the one before."""
        key = int(log(seconds) * PER_E + ABOVE) if seconds > 0 else 0
        if key in self.gaps:
            self.gaps[key] += tokens
        else:
            self.gaps[key] = tokens
        self.gap_sum += seconds * tokens

    def sample(self, now: float, batch: int, queue: int, share: float) -> None:
        """Batch, queue and share of the cache in use at an instant, every `every` steps or strides."""
        self.samples.append((now, batch, queue, share))
        if len(self.samples) >= 2 * SAMPLES:
            del self.samples[::2]
            self.every *= 2
        self.due = self.count + self.every


def gap_percentiles(gaps: dict[int, int], shares: tuple[float, ...]) -> list[float]:
    """Gaps in seconds below which so many of the tokens came, to the width of a class; 0 where none did."""
    total, found, seen = sum(gaps.values()), [], 0
    wanted = iter(sorted(shares))
    share = next(wanted, None)
    for key in sorted(gaps):
        seen += gaps[key]
        while share is not None and seen >= share * total:
            found.append(exp((key - ABOVE + 0.5) / PER_E))
            share = next(wanted, None)
    return found or [0.0] * len(shares)
