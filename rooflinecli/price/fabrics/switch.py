"""A switch (NVLink/NVSwitch, NVL72): every device reaches every other at its full link rate.

Ring by default; where the switch can sum (NVLS, SHARP) and the file says how well, the faster of the two.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives as f
from rooflinecli.price.chip import LevelNumbers
from rooflinecli.price.fabrics.types import ROOTED, GroupSpan, LevelPrice

IN_NETWORK = "all-reduce-in-network"


def volume_of(op: str, size: Number, span: GroupSpan) -> Number:
    """Bytes each device sends over this level."""
    if op == "all-to-all":
        return f.all_to_all_level_volume(size, span.n, span.members, span.inner)
    if op == "all-reduce":
        return f.all_reduce_volume(size, span.fan)
    if op == "permute":
        return f.permute_volume(size, span.fan)
    if op in ("broadcast", "reduce"):
        return f.broadcast_volume(size, span.fan)
    return f.gather_volume(size, span.fan)


def cost(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """Price of `op` at this level."""
    return at_rate(op, size, span, level, regime, level.bandwidth)


def at_rate(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str, bandwidth: Number) -> LevelPrice:
    """Price of `op` when every device sends at `bandwidth`."""
    c = level.constants(regime, op)
    if op in ROOTED:
        return rooted(op, size, span, level, regime, bandwidth, c.per_hop)
    volume = volume_of(op, size, span)
    hops = num.minimum(span.fan - 1, 1) if op == "permute" else f.ring_steps(span.fan)
    expected = f.collective_time(volume, bandwidth, c.memory, c.overhead, c.per_hop, c.gamma, hops)
    latency = f.collective_time(0.0, bandwidth, c.memory, c.overhead, c.per_hop, c.gamma, hops)
    algorithm = "direct" if op in ("all-to-all", "permute") else "ring"
    host = level.chip.devices_per_host
    if op == "all-reduce" and num.present(span.fan > host):  # a tree over the hosts of a rack, a chain inside each
        deep = f.hierarchical_tree_steps(span.fan, host)
        sent = f.tree_all_reduce_volume(size, span.fan)
        tree, waited = (
            f.collective_time(v, bandwidth, c.memory, c.overhead, c.per_hop, c.gamma, deep) for v in (sent, 0.0)
        )
        tree = num.where(span.fan > host, tree, expected)
        if num.plain(tree) and num.value(tree) < num.value(expected):
            algorithm = "tree"
        latency = num.where(tree < expected, waited, latency)
        expected = f.faster(expected, tree)
    part = LevelPrice(volume, f.collective_floor(volume, bandwidth), expected, c.error, bandwidth, algorithm, latency)
    return reduced_in_network(part, op, size, span, level, hops)


def reduced_in_network(
    part: LevelPrice, op: str, size: Number, span: GroupSpan, level: LevelNumbers, hops: Number
) -> LevelPrice:
    """The price where switches can sum for an all-reduce (NVLS, SHARP): the faster way, where the file says how well they do."""
    if op != "all-reduce" or not level.level.in_network_reduction:
        return part
    volume = f.reduced_in_network_volume(size, span.fan)
    part.floor = f.collective_floor(num.minimum(part.volume, volume), part.bandwidth)
    if IN_NETWORK in level.level.efficiency:
        s = level.constants("kernel", IN_NETWORK)
        summed, waited = (
            f.collective_time(v, part.bandwidth, s.memory, s.overhead, s.per_hop, s.gamma, hops) for v in (volume, 0.0)
        )
        if num.plain(summed) and num.value(summed) < num.value(part.expected):
            part.algorithm = "in-network reduction"
        part.volume = num.where(summed < part.expected, volume, part.volume)
        part.latency = num.where(summed < part.expected, waited, part.latency)
        part.expected = f.faster(part.expected, summed)
    return part


def rooted(
    op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str, bandwidth: Number, hop: Number
) -> LevelPrice:
    """Price of a collective from or to one device: the faster of chain and tree for whole copies, a tree for parts."""
    c = level.constants(regime, op)

    def timed(sent: Number, hops: Number) -> tuple[Number, Number]:
        times = (f.collective_time(v, bandwidth, c.memory, c.overhead, hop, c.gamma, hops) for v in (sent, 0.0))
        return next(times), next(times)

    volume, algorithm = volume_of(op, size, span), "tree"
    deep = f.broadcast_tree_steps(span.fan)
    if op in ("scatter", "gather"):
        expected, latency = timed(volume, deep)
    else:
        chain, waited = timed(volume, f.ring_steps(span.fan))
        tree, less = timed(f.broadcast_tree_volume(size, span.fan), deep)
        if num.plain(tree) and num.value(chain) <= num.value(tree):
            algorithm = "chain"
        expected, latency = f.faster(chain, tree), num.where(tree < chain, less, waited)
    floor = f.collective_floor(volume, bandwidth)
    return LevelPrice(volume, floor, expected, c.error, bandwidth, algorithm, latency)
