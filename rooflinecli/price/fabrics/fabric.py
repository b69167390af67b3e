"""The network between hosts (InfiniBand, Ethernet, DCN): `bandwidth` is one device's share of its host's ports.

Rails keep the members of a group on their own port; an all-reduce takes a ring or, for many hosts and small tensors, a tree.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives as f
from rooflinecli.price.chip import LevelNumbers
from rooflinecli.price.fabrics.switch import reduced_in_network, rooted, volume_of
from rooflinecli.price.fabrics.types import ROOTED, GroupSpan, LevelPrice


def cost(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """Price of `op` over the group."""
    c = level.constants(regime, op)
    hop = num.maximum(c.per_hop, level.latency)
    if op in ROOTED:
        return rooted(op, size, span, level, regime, level.bandwidth, hop)
    volume = volume_of(op, size, span)
    steps = f.ring_all_reduce_steps if op == "all-reduce" else f.ring_steps
    hops = num.minimum(span.fan - 1, 1) if op in ("permute", "all-to-all") else steps(span.fan)
    expected = f.collective_time(volume, level.bandwidth, c.memory, c.overhead, hop, c.gamma, hops)
    latency = f.collective_time(0.0, level.bandwidth, c.memory, c.overhead, hop, c.gamma, hops)
    algorithm = "direct" if op in ("permute", "all-to-all") else "ring"
    if op == "all-reduce":
        sent, deep = f.tree_all_reduce_volume(size, span.fan), f.tree_steps(span.fan)
        tree, waited = (
            f.collective_time(v, level.bandwidth, c.memory, c.overhead, hop, c.gamma, deep) for v in (sent, 0.0)
        )
        if num.plain(tree) and num.value(tree) < num.value(expected):
            algorithm = "tree"
        latency = num.where(tree < expected, waited, latency)
        expected = f.faster(expected, tree)
    part = LevelPrice(
        volume, f.collective_floor(volume, level.bandwidth), expected, c.error, level.bandwidth, algorithm, latency
    )
    return reduced_in_network(part, op, size, span, level, hops)
