"""To the replica with the fewest requests in flight; of equals the one with the emptier KV pool, then the first."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest

LOOKS = True


def choose(job: SimRequest, replicas: list[Replica]) -> int:
    """By requests in flight at the arrival."""
    return min(range(len(replicas)), key=lambda i: (replicas[i].under_way, replicas[i].used, i))
