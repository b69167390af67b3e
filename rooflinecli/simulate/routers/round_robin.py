"""To each replica in turn."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest

LOOKS = False


def choose(job: SimRequest, replicas: list[Replica]) -> int:
    """By the order of arrival."""
    return job.index % len(replicas)
