"""Replicas behind a router, driven by a load: open or closed loop, aggregated or disaggregated."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import ModuleType

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import INF, SimRequest

Tell = Callable[[int], None]  # called with the number of requests that just ended
Follow = Callable[[SimRequest], SimRequest | None]  # the next turn of a session, or the next request of a client


@dataclass
class Cluster:
    """Replicas of one kind, or prefill workers and `decoders`; `transfer` seconds move a token of KV cache between them."""

    replicas: list[Replica]
    router: ModuleType
    decoders: list[Replica] = field(default_factory=list)
    decode_router: ModuleType | None = None
    transfer: float = 0.0
    delay: float = 0.0

    @property
    def every(self) -> list[Replica]:
        return [*self.replicas, *self.decoders]

    def submit(self, job: SimRequest, among: list[int] | None = None) -> None:
        """Route a request to one of the replicas, or of those `among` them."""
        if among is None:
            place = self.router.choose(job, self.replicas)
        else:
            place = among[self.router.choose(job, [self.replicas[i] for i in among])]
        submit(self.replicas[place], job, place)

    def advance(self, instant: float, ended: list[SimRequest], tell: Tell | None, among: Iterable[int] = ()) -> None:
        """Run all replicas, or those `among` them, up to an instant; requests that end are appended to `ended`."""
        for replica in [self.replicas[i] for i in among] or self.replicas:
            while replica.step(instant):
                pass
            take(replica, ended, tell)


def run_closed_loop(
    cluster: Cluster,
    jobs: list[SimRequest],
    concurrency: int,
    tell: Tell | None = None,
    ended: list[SimRequest] | None = None,
) -> list[SimRequest]:
    """Closed loop: every replica keeps `concurrency` of its share of the requests in flight. Returns `ended`, filled."""
    ended = [] if ended is None else ended
    if cluster.decoders:
        left = deque(jobs)
        first = [left.popleft() for _ in range(min(concurrency * len(cluster.every), len(left)))]

        def follow(job: SimRequest) -> SimRequest | None:
            if not left:
                return None
            following = left.popleft()
            following.arrival = job.finish
            return following

        return run_open_loop(cluster, first, follow, tell, ended)
    with gc_paused():
        for i, replica in enumerate(cluster.replicas):
            share = deque(jobs[i :: len(cluster.replicas)])
            for job in [share.popleft() for _ in range(min(concurrency, len(share)))]:
                submit(replica, job, i)
            while replica.step(INF):
                for job in replica.finished:
                    if share:
                        following = share.popleft()
                        following.arrival = job.finish
                        submit(replica, following, i)
                take(replica, ended, tell)
    return ended


def run_open_loop(
    cluster: Cluster,
    jobs: list[SimRequest],
    follow: Follow | None = None,
    tell: Tell | None = None,
    ended: list[SimRequest] | None = None,
) -> list[SimRequest]:
    """Open loop: requests in order of arrival; `follow` gives what a request that ends brings. Returns `ended`, filled."""
    ended = [] if ended is None else ended
    with gc_paused():
        if follow is not None or cluster.decoders:
            _run_by_events(cluster, jobs, follow, tell, ended)
        elif cluster.router.LOOKS:
            for job in jobs:  # the router sees every replica as it is at the arrival
                cluster.advance(job.arrival, ended, tell)
                cluster.submit(job)
            cluster.advance(INF, ended, tell)
        else:
            _run_independently(cluster, jobs, tell, ended)
    return ended


def _run_independently(cluster: Cluster, jobs: list[SimRequest], tell: Tell | None, ended: list[SimRequest]) -> None:
    """Replicas whose state the router does not see run one after the other."""
    shares: list[list[SimRequest]] = [[] for _ in cluster.replicas]
    for job in jobs:
        shares[cluster.router.choose(job, cluster.replicas)].append(job)
    for i, (replica, share) in enumerate(zip(cluster.replicas, shares, strict=True)):
        step = replica.step
        for job in share:
            while step(job.arrival, True):
                pass
            submit(replica, job, i)
            take(replica, ended, tell)
        while step(INF):
            take(replica, ended, tell)


def _run_by_events(
    cluster: Cluster, jobs: list[SimRequest], follow: Follow | None, tell: Tell | None, ended: list[SimRequest]
) -> None:
    """A request that ends on one replica starts another elsewhere: the replica whose clock is behind steps first."""
    arrivals: list[tuple[float, int, SimRequest]] = []
    for job in jobs:
        heappush(arrivals, (job.arrival, job.index, job))
    replicas = cluster.every
    while True:
        until = arrivals[0][0] if arrivals else INF
        stepped = next((r for r in sorted(replicas, key=lambda r: r.now) if r.step(until)), None)
        if stepped is None:
            if not arrivals:
                return
            cluster.submit(heappop(arrivals)[2])
            continue
        finished = stepped.finished
        if stepped.hand_over:
            for job in finished:
                if job.remaining:
                    _transfer(cluster, job)
            finished = [job for job in finished if not job.remaining]
            stepped.finished.clear()
            stepped.finished += finished
        for job in finished:
            following = follow(job) if follow is not None else None
            if following is not None:
                heappush(arrivals, (following.arrival, following.index, following))
        take(stepped, ended, tell)


def _transfer(cluster: Cluster, job: SimRequest) -> None:
    """Move a prompt's KV cache to a decode worker, which may start once it has arrived."""
    assert cluster.decode_router is not None  # a cluster with decoders has one
    job.ready = job.finish + cluster.delay + cluster.transfer * job.prompt
    job.swapped, job.need, job.finish = True, job.prompt, INF
    place = cluster.decode_router.choose(job, cluster.decoders)
    submit(cluster.decoders[place], job, len(cluster.replicas) + place)


def submit(replica: Replica, job: SimRequest, place: int) -> None:
    """Enqueue a request on the replica at a place."""
    job.replica = place
    replica.enqueue(job)


def take(replica: Replica, ended: list[SimRequest], tell: Tell | None) -> None:
    """Collect the requests that ended on a replica."""
    if replica.finished:
        if tell is not None:
            tell(len(replica.finished))
        ended += replica.finished
        replica.finished.clear()


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
