"""Statistics that a replica keeps while it runs: a histogram of ITL gaps, batch and KV use over time, counts."""

from __future__ import annotations

from math import exp, log

PER_E = 100  # bins of the histogram per factor e: each is one per cent wide
ABOVE = 100_000  # offset that makes the bin numbers positive
SAMPLES = 2048  # samples kept of the use over time


class ReplicaStats:
    """Gaps are weighted by the tokens that follow them; samples are thinned out as they grow."""

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
        """Counts start over; samples over time stay."""
        stats = ReplicaStats()
        stats.samples, stats.every, stats.count, stats.due = self.samples, self.every, self.count, self.due
        return stats

    def gap(self, seconds: float, tokens: int) -> None:
        """Count `tokens` that each came `seconds` after the one before."""
        key = int(log(seconds) * PER_E + ABOVE) if seconds > 0 else 0
        self.gaps[key] = self.gaps.get(key, 0) + tokens
        self.gap_sum += seconds * tokens

    def sample(self, now: float, batch: int, queue: int, share: float) -> None:
        """Note batch, queue and KV usage at an instant, every `every` steps or strides."""
        self.samples.append((now, batch, queue, share))
        if len(self.samples) >= 2 * SAMPLES:
            del self.samples[::2]
            self.every *= 2
        self.due = self.count + self.every


def gap_percentiles(gaps: dict[int, int], quantiles: tuple[float, ...]) -> list[float]:
    """Gaps in seconds at ascending quantiles of the tokens, to the width of a bin; 0 where there are none."""
    total, points, seen = sum(gaps.values()), [], 0
    left = list(quantiles[::-1])
    for key in sorted(gaps):
        seen += gaps[key]
        while left and seen >= left[-1] * total:
            points.append(exp((key - ABOVE + 0.5) / PER_E))
            left.pop()
    return points or [0.0] * len(quantiles)
