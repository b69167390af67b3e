"""Replicas behind a router, driven by a load: open or closed loop, aggregated or disaggregated, replicas that come and go."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import INF, SimRequest
from rooflinecli.simulate.routers import round_robin

Progress = Callable[[int], None]  # called with the number of requests that just ended
Router = Callable[[SimRequest, list[Replica]], int]
Follow = Callable[[SimRequest], SimRequest | None]  # the next turn of a session, or the next request of a client


@dataclass
class Cluster:
    """Replicas of one kind, or prefill workers and `decoders`; `transfer` seconds move a token of KV cache between them.

    `ended` are the requests that have ended, also after an interrupt.
    """

    replicas: list[Replica]
    router: Router
    decoders: list[Replica] = field(default_factory=list)
    decode_router: Router | None = None
    transfer: float = 0.0
    progress: Progress | None = None
    ended: list[SimRequest] = field(default_factory=list)

    @property
    def all_replicas(self) -> list[Replica]:
        return [*self.replicas, *self.decoders]

    def submit(self, job: SimRequest, among: list[int] | None = None) -> None:
        """Route a request to one of the replicas, or of those `among` them."""
        if among is None:
            self.enqueue(job, self.router(job, self.replicas))
        else:
            self.enqueue(job, among[self.router(job, [self.replicas[i] for i in among])])

    def enqueue(self, job: SimRequest, place: int) -> None:
        """Enqueue a request on the replica at a place, decoders after the others."""
        job.replica = place
        count = len(self.replicas)
        (self.replicas[place] if place < count else self.decoders[place - count]).enqueue(job)

    def advance(self, instant: float, among: Iterable[int] = ()) -> None:
        """Run all replicas, or those `among` them, up to an instant."""
        for replica in [self.replicas[i] for i in among] or self.replicas:
            while replica.step(instant):
                pass
            self.collect(replica)

    def collect(self, replica: Replica) -> None:
        """Take the requests that ended on a replica."""
        if replica.finished:
            if self.progress is not None:
                self.progress(len(replica.finished))
            self.ended += replica.finished
            replica.finished.clear()


class ChangingCluster:
    """A cluster whose serving replicas change during a run: base of those that fail and of those that scale."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster

    @property
    def idle(self) -> bool:
        """Whether no request is in flight or waits."""
        return not any(replica.under_way for replica in self.cluster.replicas)

    def next_change(self) -> float:
        """The instant of the next change; INF where none comes."""
        raise NotImplementedError

    def change(self, instant: float) -> None:
        """What changes at an instant."""
        raise NotImplementedError

    def arrive(self, job: SimRequest) -> None:
        """Route a request to one of the replicas that serve."""
        raise NotImplementedError

    def advance(self, instant: float) -> None:
        """Run the replicas up to an instant."""
        self.cluster.advance(instant)

    def run_open_loop(self, jobs: list[SimRequest]) -> list[SimRequest]:
        """Open loop: requests in order of arrival, a change before an arrival at the same instant. Returns the requests that ended."""
        coming = deque(jobs)
        with gc_paused():
            while coming or not self.idle:
                change, arrival = self.next_change(), coming[0].arrival if coming else INF
                self.advance(min(change, arrival))
                if change < INF and change <= arrival:
                    self.change(change)
                elif coming:
                    self.arrive(coming.popleft())
                else:
                    break
        return self.cluster.ended


def run_closed_loop(cluster: Cluster, jobs: list[SimRequest], concurrency: int) -> list[SimRequest]:
    """Closed loop: every replica keeps `concurrency` of its share of the requests in flight. Returns the requests that ended."""
    if cluster.decoders:
        left = deque(jobs)
        first = [left.popleft() for _ in range(min(concurrency * len(cluster.all_replicas), len(left)))]

        def follow(job: SimRequest) -> SimRequest | None:
            if not left:
                return None
            following = left.popleft()
            following.arrival = job.finish
            return following

        return run_open_loop(cluster, first, follow)
    with gc_paused():
        for i, replica in enumerate(cluster.replicas):
            share = deque(jobs[i :: len(cluster.replicas)])
            for job in [share.popleft() for _ in range(min(concurrency, len(share)))]:
                cluster.enqueue(job, i)
            while replica.step(INF):
                for job in replica.finished:
                    if share:
                        following = share.popleft()
                        following.arrival = job.finish
                        cluster.enqueue(following, i)
                cluster.collect(replica)
    return cluster.ended


def run_open_loop(cluster: Cluster, jobs: list[SimRequest], follow: Follow | None = None) -> list[SimRequest]:
    """Open loop: requests in order of arrival; `follow` gives what a request that ends brings. Returns the requests that ended."""
    with gc_paused():
        if follow is not None or cluster.decoders:
            _run_by_events(cluster, jobs, follow)
        elif cluster.router is not round_robin:
            for job in jobs:  # the router sees every replica as it is at the arrival
                cluster.advance(job.arrival)
                cluster.submit(job)
            cluster.advance(INF)
        else:
            _run_independently(cluster, jobs)
    return cluster.ended


def _run_independently(cluster: Cluster, jobs: list[SimRequest]) -> None:
    """Replicas whose state the router does not see run one after the other."""
    shares: list[list[SimRequest]] = [[] for _ in cluster.replicas]
    for job in jobs:
        shares[cluster.router(job, cluster.replicas)].append(job)
    for i, (replica, share) in enumerate(zip(cluster.replicas, shares, strict=True)):
        step = replica.step
        for job in share:
            while step(job.arrival, True):
                pass
            cluster.enqueue(job, i)
            cluster.collect(replica)
        while step(INF):
            cluster.collect(replica)


def _run_by_events(cluster: Cluster, jobs: list[SimRequest], follow: Follow | None) -> None:
    """A request that ends on one replica starts another elsewhere: the replica whose clock is behind steps first."""
    arrivals = [(job.arrival, job.index, job) for job in jobs]
    heapify(arrivals)
    replicas = cluster.all_replicas
    while True:
        until = arrivals[0][0] if arrivals else INF
        stepped = next((r for r in sorted(replicas, key=lambda r: r.now) if r.step(until)), None)
        if stepped is None:
            if not arrivals:
                return
            cluster.submit(heappop(arrivals)[2])
            continue
        if stepped.hand_over:
            for job in stepped.finished:
                if job.remaining:  # its KV cache moves to a decode worker, which may start once it has arrived
                    assert cluster.decode_router is not None  # a cluster with decoders has one
                    job.ready = job.finish + cluster.transfer * job.prompt
                    job.swapped, job.need, job.finish = True, job.prompt, INF
                    cluster.enqueue(job, len(cluster.replicas) + cluster.decode_router(job, cluster.decoders))
            stepped.finished[:] = [job for job in stepped.finished if not job.remaining]
        for job in stepped.finished:
            following = follow(job) if follow is not None else None
            if following is not None:
                heappush(arrivals, (following.arrival, following.index, following))
        cluster.collect(stepped)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection while millions of small objects without cycles come and go."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
