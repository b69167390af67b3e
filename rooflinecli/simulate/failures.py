"""Replicas that fail during a run: their requests restart on the others, and nothing is lost but time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from rooflinecli.core import units
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.simulate.cluster import ChangingCluster, Cluster
from rooflinecli.simulate.request import INF, SimRequest

EXAMPLE = "write for example 1@2min:10min (one stops at two minutes, and serves again ten minutes later), or 1@2min"


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
            raise UsageError(f"--failures {written}: {EXAMPLE}", "failures")
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
