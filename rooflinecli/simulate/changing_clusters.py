"""Clusters whose replicas come and go: an autoscaler starts and stops them with the load, or they fail and recover.

A replica that an autoscaler starts serves after its start-up, one let go ends its requests. Every PERIOD the number of requests in
flight over the `target` per replica says how many replicas are wanted, as for a metric per pod in the Kubernetes
HorizontalPodAutoscaler; replicas are let go only when that was lower for STABLE. Source: kubernetes.io, Horizontal Pod Autoscaling (the
sync period of 15 s and the downscale stabilization of 5 min are its defaults). Requests of a replica that fails restart on the others,
and nothing is lost but time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from rooflinecli.core import units
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.simulate.cluster import ChangingCluster, Cluster
from rooflinecli.simulate.request import INF, SimRequest

PERIOD, STABLE = 15.0, 300.0  # s
AUTOSCALE_EXAMPLE = "write for example 1:8@32, one to eight replicas for 32 requests under way each"


@dataclass(frozen=True)
class AutoscalePolicy:
    """From `least` to `most` replicas, `target` requests in flight on each; a new one serves after `start` seconds."""

    least: int
    most: int
    target: float
    start: float


def autoscale_policy(written: str, start: str) -> AutoscalePolicy:
    """Parse --autoscale `1:8@32` and --startup-time `3min`. Raises UsageError."""
    between, at, target = written.partition("@")
    least, colon, most = between.partition(":")
    try:
        policy = AutoscalePolicy(int(least), int(most), float(target), 0.0)
    except ValueError:
        policy = AutoscalePolicy(0, 0, 0.0, 0.0)
    if not (at and colon and 1 <= policy.least <= policy.most and 0 < policy.target < INF):
        raise UsageError(f"--autoscale {written}: {AUTOSCALE_EXAMPLE}", "autoscale")
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


def mean_paid(paid: Sequence[tuple[float, int]], start: float, end: float) -> float:
    """Mean number of replicas paid for, over the seconds from `start` to `end`."""
    area = 0.0
    for (at, count), (until, _) in zip(paid, [*paid[1:], (max(end, paid[-1][0]), 0)], strict=True):
        area += count * max(min(until, end) - max(at, start), 0.0)
    return area / max(end - start, 1e-12)


FAILURES_EXAMPLE = (
    "write for example 1@2min:10min (one stops at two minutes, and serves again ten minutes later), or 1@2min"
)


@dataclass(frozen=True)
class ReplicaFailure:
    """`count` replicas fail at an instant, and recover `downtime_s` seconds later, if ever."""

    count: int
    instant: float
    downtime_s: float = INF


def losses(written: str) -> tuple[ReplicaFailure, ...]:
    """Parse --failures `1@2min:10min,1@30min`. Raises UsageError."""
    failures = []
    for part in written.split(","):
        count, at, when = part.strip().partition("@")
        instant, colon, downtime = when.partition(":")
        try:
            failure = ReplicaFailure(
                int(count), units.parse(instant, "s"), units.parse(downtime, "s") if colon else INF
            )
        except ValueError:
            failure = ReplicaFailure(0, 0.0)
        if not at or failure.count < 1 or failure.instant < 0 or not failure.downtime_s > 0:
            raise UsageError(f"--failures {written}: {FAILURES_EXAMPLE}", "failures")
        failures.append(failure)
    return tuple(failures)


def max_concurrent_failures(failures: tuple[ReplicaFailure, ...]) -> int:
    """Most replicas that are down at once."""
    down = most = 0
    for _, _, change in _changes(failures):
        down -= change
        most = max(most, down)
    return most


def _changes(failures: tuple[ReplicaFailure, ...]) -> list[tuple[float, int, int]]:
    """(instant, order, change in the number of replicas) in order of time."""
    events = [(one.instant, i, -one.count) for i, one in enumerate(failures)]
    events += [(one.instant + one.downtime_s, i, one.count) for i, one in enumerate(failures) if one.downtime_s < INF]
    return sorted(events)


class DegradedCluster(ChangingCluster):
    """A cluster some of whose replicas are down, and the requests that wait because all are.

    Raises UsageError where more replicas fail than there are.
    """

    def __init__(self, cluster: Cluster, failures: tuple[ReplicaFailure, ...]):
        super().__init__(cluster)
        self.changes = deque(_changes(failures))
        self.down: list[int] = []
        self.unrouted: deque[SimRequest] = deque()
        self.restarts = 0
        if (most := max_concurrent_failures(failures)) > len(cluster.replicas):
            raise UsageError(
                f"--failures stops {most} replicas at once, and there are {len(cluster.replicas)}; raise --replicas",
                "failures",
            )

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers that only a run with failures has."""
        return {"requests_restarted": self.restarts}

    @property
    def up(self) -> list[int]:
        return [i for i in range(len(self.cluster.replicas)) if i not in self.down]

    @property
    def idle(self) -> bool:
        return not self.unrouted and super().idle

    def next_change(self) -> float:
        return self.changes[0][0] if self.changes else INF

    def arrive(self, job: SimRequest) -> None:
        up = self.up
        if up:
            self.cluster.submit(job, up)
        else:
            self.unrouted.append(job)

    def change(self, instant: float) -> None:
        """The last of the replicas that are up fail, or the last that failed recover."""
        _, _, more = self.changes.popleft()
        jobs: list[SimRequest] = []
        if more < 0:
            for i in self.up[more:]:
                self.cluster.replicas[i], lost = self.cluster.replicas[i].on_failure()
                jobs += lost
                self.down.append(i)
            self.restarts += len(jobs)
        else:
            del self.down[-more:]
            jobs += self.unrouted
            self.unrouted.clear()
        for replica in self.cluster.replicas:
            replica.front = max(replica.front, instant)  # no request restarts earlier
        for job in sorted(jobs, key=lambda job: job.index):
            self.arrive(job)

    def run_open_loop(self, jobs: list[SimRequest]) -> list[SimRequest]:
        """Raises Infeasible where some requests never find a replica."""
        ended = super().run_open_loop(jobs)
        if self.unrouted:
            raise Infeasible(
                f"every replica is lost, and {len(self.unrouted):,} requests find none; raise --replicas, or say in --failures when one is back"
            )
        return ended
