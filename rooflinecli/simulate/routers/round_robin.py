"""Each in turn."""

from __future__ import annotations

from rooflinecli.simulate.job import Job
from rooflinecli.simulate.replica import Replica

LOOKS = False


def choose(job: Job, replicas: list[Replica]) -> int:
    """By the order of arrival."""
    return job.index % len(replicas)
