"""Static batching: a batch is formed once and runs until its last request ends."""

from __future__ import annotations

from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.request import SimRequest

UNBOUNDED = 1 << 40  # tokens: a batch is one prefill pass


def compose(replica: Replica) -> tuple[list[tuple[SimRequest, int]], bool]:
    """Form a new batch where none runs."""
    if replica.batch:
        return [], True
    return replica.fill(UNBOUNDED), False
