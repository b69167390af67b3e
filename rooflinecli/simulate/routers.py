"""Routers: each public function gives the place of a request among replicas."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest


def least_loaded(job: SimRequest, replicas: list[Replica]) -> int:
    """To the replica with the fewest requests in flight; of equals the one with the emptier KV pool, then the first.

    By requests in flight at the arrival.
    """
    return min(range(len(replicas)), key=lambda i: (replicas[i].under_way, replicas[i].used, i))


def prefix(job: SimRequest, replicas: list[Replica]) -> int:
    """To the replica that caches most of the prompt, weighed against its load: each request in flight counts as a share of the prompt.

    By tokens to compute, plus the load.

    Like the KV-aware routers of Dynamo and SGLang: overlap less load. Without prefix reuse it is least-loaded.
    """

    def cost(i: int) -> tuple[float, int]:
        replica = replicas[i]
        known = replica.store.known(job) if replica.store is not None else 0
        return job.prompt - known + job.prompt * replica.under_way / max(len(replicas), 1), i

    return min(range(len(replicas)), key=cost)


def round_robin(job: SimRequest, replicas: list[Replica]) -> int:
    """To each replica in turn.

    By the order of arrival.
    """
    return job.index % len(replicas)
