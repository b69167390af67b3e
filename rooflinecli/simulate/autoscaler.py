"""Replicas that come and go with the load, as an autoscaler has them: a new one serves after its start-up, one let go ends what it has.

Every PERIOD the requests under way are shared out at `target` each, as the Kubernetes HorizontalPodAutoscaler does with a metric per
pod; replicas are let go only when that has wanted fewer for STABLE. Source: kubernetes.io, Horizontal Pod Autoscaling (the sync period of
15 s and the downscale stabilization of 5 min are its defaults).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.cluster import Cluster, GarbageCollectionPaused, Tell, submit, take
from rooflinecli.simulate.request import INF, SimRequest

PERIOD, STABLE = 15.0, 300.0  # s
EXAMPLE = "write for example 1:8@32, one to eight replicas for 32 requests under way each"


@dataclass(frozen=True)
class AutoscalePolicy:
    """From `least` to `most` replicas, `target` requests under way on each; a new one serves after `start` seconds."""

    least: int
    most: int
    target: float
    start: float


def rule(written: str, start: str) -> AutoscalePolicy:
    """`1:8@32` and `3min`. Raises UsageError."""
    between, at, target = written.partition("@")
    least, colon, most = between.partition(":")
    try:
        found = AutoscalePolicy(int(least), int(most), float(target), 0.0)
    except ValueError:
        found = AutoscalePolicy(0, 0, 0.0, 0.0)
    if not (at and colon and 1 <= found.least <= found.most and 0 < found.target < INF):
        raise UsageError(f"--autoscale {written}: {EXAMPLE}", "autoscale")
    if not start:
        raise UsageError(
            "--autoscale: how long until a new replica serves, its image and weights loaded? add --start-up 3min",
            "start-up",
        )
    try:
        seconds = units.parse(start, "s")
    except ValueError as error:
        raise UsageError(f"--start-up {start}: {error}", "start-up") from None
    if not 0 <= seconds < INF:
        raise UsageError(f"--start-up {start}: expected a time of zero or more", "start-up")
    return AutoscalePolicy(found.least, found.most, found.target, seconds)


class AutoscaledFleet:
    """A fleet of as many replicas as there may be: those that serve, start, or end what they have; the others cost nothing."""

    def __init__(self, fleet: Cluster, rule: AutoscalePolicy, tell: Tell | None, ended: list[SimRequest]):
        self.fleet, self.rule, self.tell, self.ended = fleet, rule, tell, ended
        self.serving = list(range(rule.least))
        self.free = deque(range(rule.least, rule.most))
        self.starting: deque[tuple[float, int]] = deque()
        self.ending: dict[int, float] = {}  # replica -> when it was let go
        self.wanted: deque[tuple[float, int]] = deque()
        self.paid: list[tuple[float, int]] = [(0.0, rule.least)]  # (instant, replicas that cost something from then on)
        self.started = 0

    @property
    def active_replicas(self) -> int:
        """Replicas that serve or soon will."""
        return len(self.serving) + len(self.starting)

    def until(self, instant: float) -> None:
        """Bring every replica that has something up to an instant; those that end it are free."""
        for i in (*self.serving, *self.ending):
            replica = self.fleet.replicas[i]
            while replica.step(instant):
                pass
            if replica.finished:
                take(replica, self.ended, self.tell)
        for i in [i for i in self.ending if not self.fleet.replicas[i].under_way]:
            since = self.ending.pop(i)
            self.free.append(i)
            self._pay(max(self.fleet.replicas[i].now, since, self.paid[-1][0]))

    def ready(self, instant: float) -> None:
        """What has started up serves, its cache empty."""
        while self.starting and self.starting[0][0] <= instant:
            _, i = self.starting.popleft()
            self.fleet.replicas[i], _ = self.fleet.replicas[i].on_failure()
            self.fleet.replicas[i].front = instant
            self.serving.append(i)

    def decide(self, instant: float) -> None:
        """As many as the requests under way ask for now, and no fewer than they asked for lately."""
        under = sum(replica.under_way for replica in self.fleet.replicas)
        asked = min(max(ceil(under / self.rule.target), self.rule.least), self.rule.most)
        self.wanted.append((instant, asked))
        while self.wanted[0][0] < instant - STABLE:
            self.wanted.popleft()
        for _ in range(min(asked - self.active_replicas, len(self.free))):
            self.starting.append((instant + self.rule.start, self.free.popleft()))
            self.started += 1
        for _ in range(self.active_replicas - max(count for _, count in self.wanted)):
            if self.starting:
                self.free.append(self.starting.pop()[1])
            else:
                self.ending[self.serving.pop()] = instant
        self._pay(instant)

    def arrive(self, job: SimRequest) -> None:
        """To one of those that serve."""
        place = self.serving[self.fleet.router.choose(job, [self.fleet.replicas[i] for i in self.serving])]
        submit(self.fleet.replicas[place], job, place)

    def _pay(self, instant: float) -> None:
        count = self.active_replicas + len(self.ending)
        if count != self.paid[-1][1]:
            self.paid.append((instant, count))


def run_open_loop(state: AutoscaledFleet, jobs: list[SimRequest]) -> None:
    """An open loop, jobs in order of arrival."""
    coming, tick = deque(jobs), 0
    with GarbageCollectionPaused():
        while coming or any(replica.under_way for replica in state.fleet.replicas):
            events = (
                tick * PERIOD,
                state.starting[0][0] if state.starting else INF,
                coming[0].arrival if coming else INF,
            )
            instant = min(events)
            state.until(instant)
            state.ready(instant)
            if instant == events[0]:
                state.decide(instant)
                tick += 1
            elif instant == events[2]:
                state.arrive(coming.popleft())


def mean(paid: Sequence[tuple[float, int]], start: float, end: float) -> float:
    """Replicas that cost something, over the seconds from `start` to `end`."""
    area = 0.0
    for (at, count), (until, _) in zip(paid, [*paid[1:], (max(end, paid[-1][0]), 0)], strict=True):
        area += count * max(min(until, end) - max(at, start), 0.0)
    return area / max(end - start, 1e-12)
