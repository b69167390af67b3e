"""Replicas that stop while a load comes: what they were at begins anew on the others, and nothing is lost but time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rooflinecli.core import units
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.simulate.cluster import Cluster, GarbageCollectionPaused, Tell, submit, take
from rooflinecli.simulate.request import INF, SimRequest

EXAMPLE = "write for example 1@2min:10min (one stops at two minutes, and serves again ten minutes later), or 1@2min"


@dataclass(frozen=True)
class ReplicaFailure:
    """`count` replicas stop at an instant, and are back `away` seconds later, if ever."""

    count: int
    instant: float
    downtime_s: float = INF


def losses(written: str) -> tuple[ReplicaFailure, ...]:
    """`1@2min:10min,1@30min`. Raises UsageError."""
    return tuple(_loss(written, part.strip()) for part in written.split(","))


def _loss(written: str, part: str) -> ReplicaFailure:
    count, at, when = part.partition("@")
    instant, colon, away = when.partition(":")
    try:
        found = ReplicaFailure(int(count), units.parse(instant, "s"), units.parse(away, "s") if colon else INF)
    except ValueError:
        found = ReplicaFailure(0, 0.0)
    if not at or found.count < 1 or found.instant < 0 or not found.downtime_s > 0:
        raise UsageError(f"--lose {written}: {EXAMPLE}", "lose")
    return found


def max_concurrent_failures(found: tuple[ReplicaFailure, ...]) -> int:
    """Replicas that are away at once, at most."""
    away = most = 0
    for _, _, change in _changes(found):
        away -= change
        most = max(most, away)
    return most


def _changes(found: tuple[ReplicaFailure, ...]) -> list[tuple[float, int, int]]:
    """(instant, order, replicas more) in order of time."""
    events = [(loss.instant, i, -loss.count) for i, loss in enumerate(found)]
    events += [(loss.instant + loss.downtime_s, i, loss.count) for i, loss in enumerate(found) if loss.downtime_s < INF]
    return sorted(events)


class DegradedFleet:
    """A fleet some of whose replicas are away, and what waits because all are."""

    def __init__(self, fleet: Cluster, tell: Tell | None, ended: list[SimRequest]):
        self.fleet, self.tell, self.ended = fleet, tell, ended
        self.away: list[int] = []
        self.held: deque[SimRequest] = deque()
        self.restarts = 0

    def until(self, instant: float) -> None:
        """Bring every replica up to an instant."""
        for replica in self.fleet.replicas:
            while replica.step(instant):
                pass
            if replica.finished:
                take(replica, self.ended, self.tell)

    def arrive(self, job: SimRequest) -> None:
        """To one of the replicas that are there."""
        there = [i for i in range(len(self.fleet.replicas)) if i not in self.away]
        if not there:
            self.held.append(job)
            return
        place = there[self.fleet.router.choose(job, [self.fleet.replicas[i] for i in there])]
        submit(self.fleet.replicas[place], job, place)

    def change(self, instant: float, more: int) -> None:
        """The last of those that are there stop, or the last that stopped are back."""
        again: list[SimRequest] = []
        if more < 0:
            there = [i for i in range(len(self.fleet.replicas)) if i not in self.away][more:]
            for i in there:
                self.fleet.replicas[i], jobs = self.fleet.replicas[i].on_failure()
                again += jobs
            self.away += there
            self.restarts += len(again)
        else:
            del self.away[-more:]
            again += self.held
            self.held.clear()
        for replica in self.fleet.replicas:
            replica.front = max(replica.front, instant)  # what begins anew does so no earlier
        for job in sorted(again, key=lambda job: job.index):
            self.arrive(job)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way or waits."""
        return not self.held and not any(replica.under_way for replica in self.fleet.replicas)


def run_open_loop(
    fleet: Cluster,
    jobs: list[SimRequest],
    found: tuple[ReplicaFailure, ...],
    tell: Callable[[int], None] | None,
    ended: list[SimRequest],
) -> int:
    """An open loop, jobs in order of arrival; fills `ended`. Returns how many requests began anew.

    Raises UsageError where more replicas stop than there are, Infeasible where some requests find none ever after.
    """
    if max_concurrent_failures(found) > len(fleet.replicas):
        raise UsageError(
            f"--lose stops {max_concurrent_failures(found)} replicas at once, and there are {len(fleet.replicas)}; raise --replicas",
            "lose",
        )
    state = DegradedFleet(fleet, tell, ended)
    coming, changes = deque(jobs), deque(_changes(found))
    with GarbageCollectionPaused():
        while coming or (changes and not state.idle):
            if changes and (not coming or changes[0][0] <= coming[0].arrival):
                instant, _, more = changes.popleft()
                state.until(instant)
                state.change(instant, more)
            else:
                job = coming.popleft()
                state.until(job.arrival)
                state.arrive(job)
        state.until(INF)
    if state.held:
        raise Infeasible(
            f"every replica is lost, and {len(state.held):,} requests find none; raise --replicas, or say in --lose when one is back"
        )
    return state.restarts
