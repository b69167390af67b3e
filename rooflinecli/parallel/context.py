"""Context parallelism: the sequence over `cp` devices. Ring attention (Liu et al. 2023) passes keys and values round;
all-to-all (Ulysses, Jacobs et al. 2023) trades the sequence split for a head split around the attention core.

A causal ring is only as fast as its busiest rank: the naive split makes the last rank do almost everything, striped and
zig-zag splits even it out.
"""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.formulas import attention
from rooflinecli.ledger.mixer import ContextParallelTraffic
from rooflinecli.ledger.ops import Collective
from rooflinecli.specs.layout import Layout

IMBALANCE = {"naive": attention.ring_naive_imbalance, "striped": attention.ring_striped_imbalance}


def imbalance(layout: Layout, seq: Number) -> Number | None:
    """Attention work of the busiest rank over the mean; None where the split is even."""
    rule = IMBALANCE.get(layout.ring)
    return rule(seq, layout.cp) if rule else None


def collectives(
    layout: Layout,
    tokens: Number,
    exchange: ContextParallelTraffic,
    bytes_per_value: Number,
    layers: Number,
    backward: bool,
) -> list[Collective]:
    """Per layer: an all-gather of keys and values (a ring), and a reduce-scatter of their gradients; for a
    mixer with a state an all-gather of the states that the ranks reach; or an all-to-all each of q, k, v in and of the
    output back, after which every rank has whole sequences of its heads."""
    n, stride = layout.cp, layout.stride["cp"]
    if layout.ring == "ulysses":
        size = tokens * (2 * exchange.queries + (0.0 if exchange.keys is None else exchange.keys)) * bytes_per_value
        return [Collective("cp.all_to_all", "all-to-all", size, "cp", n, stride, layers * (2 if backward else 1))]
    moves = []
    keys = None if exchange.keys is None else tokens * exchange.keys
    for values in (v for v in (keys, exchange.state) if v is not None):
        size = values * bytes_per_value * layout.cp
        moves.append(Collective("cp.all_gather", "all-gather", size, "cp", n, stride, layers * (2 if backward else 1)))
        if backward:
            moves.append(Collective("cp.reduce_scatter", "reduce-scatter", size, "cp", n, stride, layers))
    return moves
