"""Static batching: prompts enter together, and nobody follows until the last of them has ended."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest

UNBOUNDED = 1 << 40  # tokens: a batch is read in one pass


def compose(replica: Replica) -> tuple[list[tuple[SimRequest, int]], bool]:
    """A new batch where none runs."""
    if replica.batch:
        return [], True
    return replica.fill(UNBOUNDED), False
