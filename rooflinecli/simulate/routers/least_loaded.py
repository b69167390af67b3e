"""To the replica with the fewest requests under way; ties to the one whose cache is emptier, then to the first."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest

LOOKS = True


def choose(job: SimRequest, replicas: list[Replica]) -> int:
    """By requests under way at the instant of arrival."""
    return min(range(len(replicas)), key=lambda i: (replicas[i].under_way, replicas[i].used, i))
