"""Replicas that an autoscaler starts and stops with the load: a new one serves after its start-up, one let go ends its requests.

Every PERIOD the number of requests in flight over the `target` per replica says how many replicas are wanted, as for a metric per pod
in the Kubernetes HorizontalPodAutoscaler; replicas are let go only when that was lower for STABLE. Source: kubernetes.io, Horizontal Pod
Autoscaling (the sync period of 15 s and the downscale stabilization of 5 min are its defaults).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.cluster import ChangingCluster, Cluster
from rooflinecli.simulate.request import INF, SimRequest

PERIOD, STABLE = 15.0, 300.0  # s
EXAMPLE = "write for example 1:8@32, one to eight replicas for 32 requests under way each"


@dataclass(frozen=True)
class AutoscalePolicy:
    """From `least` to `most` replicas, `target` requests in flight on each; a new one serves after `start` seconds."""

    least: int
    most: int
    target: float
    start: float


def rule(written: str, start: str) -> AutoscalePolicy:
    """Parse --autoscale `1:8@32` and --startup-time `3min`. Raises UsageError."""
    between, at, target = written.partition("@")
    least, colon, most = between.partition(":")
    try:
        policy = AutoscalePolicy(int(least), int(most), float(target), 0.0)
    except ValueError:
        policy = AutoscalePolicy(0, 0, 0.0, 0.0)
    if not (at and colon and 1 <= policy.least <= policy.most and 0 < policy.target < INF):
        raise UsageError(f"--autoscale {written}: {EXAMPLE}", "autoscale")
    if not start:
        raise UsageError(
            "--autoscale: how long until a new replica serves, its image and weights loaded? add --startup-time 3min",
            "startup-time",
        )
    try:
        seconds = units.parse(start, "s")
    except ValueError as error:
        raise UsageError(f"--startup-time {start}: {error}", "startup-time") from None
    if not 0 <= seconds < INF:
        raise UsageError(f"--startup-time {start}: expected a time of zero or more", "startup-time")
    return AutoscalePolicy(policy.least, policy.most, policy.target, seconds)


class AutoscaledCluster(ChangingCluster):
    """A cluster of as many replicas as there may be: those that serve, start, or drain are paid for; the others are free."""

    def __init__(self, cluster: Cluster, policy: AutoscalePolicy):
        super().__init__(cluster)
        self.policy, self.tick = policy, 0
        self.serving = list(range(policy.least))
        self.free = deque(range(policy.least, policy.most))
        self.starting: deque[tuple[float, int]] = deque()
        self.draining: dict[int, float] = {}  # replica -> when it was let go
        self.wanted: deque[tuple[float, int]] = deque()
        self.paid: list[tuple[float, int]] = [(0.0, policy.least)]  # (instant, replicas paid for from then on)
        self.started = 0

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers that only an autoscaled run has."""
        return {"replicas_started": self.started}

    @property
    def active_replicas(self) -> int:
        """Replicas that serve or soon will."""
        return len(self.serving) + len(self.starting)

    def advance(self, instant: float) -> None:
        """Run all paid replicas up to an instant: drained ones are free, started ones serve with an empty cache."""
        self.cluster.advance(instant, (*self.serving, *self.draining))
        replicas = self.cluster.replicas
        for i in [i for i in self.draining if not replicas[i].under_way]:
            since = self.draining.pop(i)
            self.free.append(i)
            self._note_paid(max(replicas[i].now, since, self.paid[-1][0]))
        while self.starting and self.starting[0][0] <= instant:
            _, i = self.starting.popleft()
            replicas[i], _ = replicas[i].on_failure()
            replicas[i].front = instant
            self.serving.append(i)

    def next_change(self) -> float:
        return min(self.tick * PERIOD, self.starting[0][0] if self.starting else INF)

    def arrive(self, job: SimRequest) -> None:
        self.cluster.submit(job, self.serving)

    def change(self, instant: float) -> None:
        """Every PERIOD, scale to the replicas wanted now, and no lower than those wanted within STABLE."""
        if instant < self.tick * PERIOD:
            return  # a start-up ended, and `advance` has the replica serve
        self.tick += 1
        in_flight = sum(replica.under_way for replica in self.cluster.replicas)
        wanted = min(max(ceil(in_flight / self.policy.target), self.policy.least), self.policy.most)
        self.wanted.append((instant, wanted))
        while self.wanted[0][0] < instant - STABLE:
            self.wanted.popleft()
        for _ in range(min(wanted - self.active_replicas, len(self.free))):
            self.starting.append((instant + self.policy.start, self.free.popleft()))
            self.started += 1
        for _ in range(self.active_replicas - max(count for _, count in self.wanted)):
            if self.starting:
                self.free.append(self.starting.pop()[1])
            else:
                self.draining[self.serving.pop()] = instant
        self._note_paid(instant)

    def _note_paid(self, instant: float) -> None:
        count = self.active_replicas + len(self.draining)
        if count != self.paid[-1][1]:
            self.paid.append((instant, count))


def mean(paid: Sequence[tuple[float, int]], start: float, end: float) -> float:
    """Mean number of replicas paid for, over the seconds from `start` to `end`."""
    area = 0.0
    for (at, count), (until, _) in zip(paid, [*paid[1:], (max(end, paid[-1][0]), 0)], strict=True):
        area += count * max(min(until, end) - max(at, start), 0.0)
    return area / max(end - start, 1e-12)
