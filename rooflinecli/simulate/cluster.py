"""Several replicas and a load: who gets which request, and what follows when one ends."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import ModuleType

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import INF, SimRequest

Tell = Callable[[int], None]


@dataclass
class Cluster:
    """Replicas of one kind, or prompts on `replicas` and the rest on `decoders`; `transfer` seconds move a token of cache between them."""

    replicas: list[Replica]
    router: ModuleType
    decoders: list[Replica] = field(default_factory=list)
    decode_router: ModuleType | None = None
    transfer: float = 0.0
    delay: float = 0.0

    @property
    def every(self) -> list[Replica]:
        return [*self.replicas, *self.decoders]


def run_closed_loop(
    fleet: Cluster,
    jobs: list[SimRequest],
    concurrency: int,
    tell: Tell | None = None,
    into: list[SimRequest] | None = None,
) -> list[SimRequest]:
    """A closed loop: every replica keeps `concurrency` of its share of the jobs under way. Returns the jobs that ended, `into` a list if given."""
    ended: list[SimRequest] = [] if into is None else into
    with GarbageCollectionPaused():
        if fleet.decoders:
            return _closed_pools(fleet, jobs, concurrency, tell, ended)
        for i, replica in enumerate(fleet.replicas):
            share = deque(jobs[i :: len(fleet.replicas)])
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


def _closed_pools(
    fleet: Cluster, jobs: list[SimRequest], concurrency: int, tell: Tell | None, ended: list[SimRequest]
) -> list[SimRequest]:
    """A closed loop over pools: each end, wherever it is, brings the next prompt."""
    left = deque(jobs)
    first = [left.popleft() for _ in range(min(concurrency * len(fleet.every), len(left)))]

    def follow(job: SimRequest) -> SimRequest | None:
        if not left:
            return None
        following = left.popleft()
        following.arrival = job.finish
        return following

    return _by_events(fleet, first, follow, tell, ended)


def run_open_loop(
    fleet: Cluster,
    jobs: list[SimRequest],
    follow: Callable[[SimRequest], SimRequest | None] | None = None,
    tell: Tell | None = None,
    into: list[SimRequest] | None = None,
) -> list[SimRequest]:
    """An open loop: jobs come when they come, in order of arrival; `follow` gives a session's next turn. Fills `into` as `closed` does."""
    ended: list[SimRequest] = [] if into is None else into
    with GarbageCollectionPaused():
        if follow is not None or fleet.decoders:
            return _by_events(fleet, jobs, follow, tell, ended)
        return _looking(fleet, jobs, tell, ended) if fleet.router.LOOKS else _apart(fleet, jobs, tell, ended)


def _apart(fleet: Cluster, jobs: list[SimRequest], tell: Tell | None, ended: list[SimRequest]) -> list[SimRequest]:
    """Replicas that have nothing to do with each other, one after the other."""
    shares: list[list[SimRequest]] = [[] for _ in fleet.replicas]
    for job in jobs:
        shares[fleet.router.choose(job, fleet.replicas)].append(job)
    for i, (replica, share) in enumerate(zip(fleet.replicas, shares, strict=True)):
        step = replica.step
        for job in share:
            while step(job.arrival, True):
                pass
            submit(replica, job, i)
            if replica.finished:
                take(replica, ended, tell)
        while step(INF):
            if replica.finished:
                take(replica, ended, tell)
    return ended


def _looking(fleet: Cluster, jobs: list[SimRequest], tell: Tell | None, ended: list[SimRequest]) -> list[SimRequest]:
    """Every replica is brought up to an arrival before it is given away."""
    for job in jobs:
        for replica in fleet.replicas:
            while replica.step(job.arrival):
                pass
            if replica.finished:
                take(replica, ended, tell)
        place = fleet.router.choose(job, fleet.replicas)
        submit(fleet.replicas[place], job, place)
    for replica in fleet.replicas:
        while replica.step(INF):
            pass
        take(replica, ended, tell)
    return ended


def _by_events(
    fleet: Cluster,
    jobs: Iterable[SimRequest],
    follow: Callable[[SimRequest], SimRequest | None] | None,
    tell: Tell | None,
    ended: list[SimRequest],
) -> list[SimRequest]:
    """What ends here starts something there: the replica whose clock is behind steps first."""
    arrivals: list[tuple[float, int, SimRequest]] = []
    for job in jobs:
        heappush(arrivals, (job.arrival, job.index, job))
    every = fleet.every
    while True:
        until = arrivals[0][0] if arrivals else INF
        for replica in sorted(every, key=lambda r: r.now):
            if replica.step(until):
                moved = True
                break
        else:
            moved = False
        if moved:
            if replica.finished:
                _on(fleet, replica, arrivals, follow, ended, tell)
        elif arrivals:
            _, _, job = heappop(arrivals)
            place = fleet.router.choose(job, fleet.replicas)
            submit(fleet.replicas[place], job, place)
        else:
            return ended


def _on(
    fleet: Cluster,
    replica: Replica,
    arrivals: list[tuple[float, int, SimRequest]],
    follow: Callable[[SimRequest], SimRequest | None] | None,
    ended: list[SimRequest],
    tell: Tell | None,
) -> None:
    """Jobs that left a replica: on to a decoder, or over, and then perhaps another follows."""
    done: list[SimRequest] = []
    for job in replica.finished:
        if replica.hand_over and job.remaining:
            _hand_over(fleet, job)
            continue
        done.append(job)
        following = follow(job) if follow is not None else None
        if following is not None:
            heappush(arrivals, (following.arrival, following.index, following))
    replica.finished.clear()
    ended += done
    if tell is not None and done:
        tell(len(done))


def _hand_over(fleet: Cluster, job: SimRequest) -> None:
    """A prompt's cache goes to a decoder, which may begin once it is there."""
    assert fleet.decode_router is not None  # a fleet with decoders has one
    job.ready = job.finish + fleet.delay + fleet.transfer * job.prompt
    job.swapped, job.need, job.finish = True, job.prompt, INF
    place = fleet.decode_router.choose(job, fleet.decoders)
    submit(fleet.decoders[place], job, len(fleet.replicas) + place)


def submit(replica: Replica, job: SimRequest, place: int) -> None:
    job.replica = place
    replica.enqueue(job)


def take(replica: Replica, ended: list[SimRequest], tell: Tell | None) -> None:
    if tell is not None and replica.finished:
        tell(len(replica.finished))
    ended += replica.finished
    replica.finished.clear()


class GarbageCollectionPaused:
    """No collection of garbage while millions of small objects come and go that refer to each other nowhere."""

    def __enter__(self) -> None:
        self.on = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self.on:
            gc.enable()
