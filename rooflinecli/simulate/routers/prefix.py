"""To the replica that caches most of the prompt, weighed against its load: each request in flight counts as a share of the prompt.

Like the KV-aware routers of Dynamo and SGLang: overlap less load. Without prefix reuse it is least-loaded.
"""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest

LOOKS = True


def choose(job: SimRequest, replicas: list[Replica]) -> int:
    """By tokens to compute, plus the load."""

    def cost(i: int) -> tuple[float, int]:
        replica = replicas[i]
        known = replica.store.known(job) if replica.store is not None else 0
        return job.prompt - known + job.prompt * replica.under_way / max(len(replicas), 1), i

    return min(range(len(replicas)), key=cost)
