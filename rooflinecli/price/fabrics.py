"""What one network level charges for a collective among devices that reach each other directly; price/torus.py has the torus.

Ring by default; a tree where it is faster; where switches can sum (NVLS, SHARP) and the file says how well, in the network.
"""

from __future__ import annotations

from types import SimpleNamespace

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives as f
from rooflinecli.price.chip import LevelNumbers

ROOTED = ("broadcast", "reduce", "scatter", "gather")  # from one device to the others, or back
DIRECT = ("all-to-all", "permute")
IN_NETWORK = "all-reduce-in-network"
Mesh = tuple[tuple[Number, Number], ...]


@dataclass(slots=True, eq=False, repr=False)
class GroupSpan:
    """`fan` members meet at this level, each standing for `inner` below; the group has n in all, one every `stride` devices.

    slice is the number of devices in use (a torus takes its shape from it); mesh, when given, names the group's
    members and length on each torus axis outright.
    """

    fan: Number
    inner: Number
    members: Number
    n: Number
    stride: Number
    slice: Number
    mesh: Mesh | None = None


@dataclass(slots=True, eq=False, repr=False)
class LevelPrice:
    """Price of one level's share: bytes each device sends, floor and expected seconds, relative error, how it was done."""

    volume: Number
    floor: Number
    expected: Number
    error: Number
    bandwidth: Number
    algorithm: str
    latency: Number


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


def times(volume: Number, bandwidth: Number, c: SimpleNamespace, hop: Number, hops: Number) -> tuple[Number, Number]:
    """Seconds of a collective, and of one without bytes."""
    expected, latency = (
        f.collective_time(sent, bandwidth, c.memory, c.overhead, hop, c.gamma, hops) for sent in (volume, 0.0)
    )
    return expected, latency


def switch(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """A switch (NVLink/NVSwitch, NVL72), where every device reaches every other at its full link rate; the root complex of a host, by PCIe."""
    return _among_links(op, size, span, level, regime, level.bandwidth)


def mesh(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """A full mesh (xGMI): every pair has its own link, so only all devices together reach the aggregate rate of the file."""
    members = 2.0 if op == "permute" else span.fan
    return _among_links(op, size, span, level, regime, f.mesh_bandwidth(level.bandwidth, level.size, members))


def _among_links(
    op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str, bandwidth: Number
) -> LevelPrice:
    """Price of `op` when every device sends at `bandwidth`; beyond a host, an all-reduce may take a tree over the hosts of a rack and a
    chain inside each."""
    hops = num.minimum(span.fan - 1, 1) if op == "permute" else f.ring_steps(span.fan)
    host = level.chip.devices_per_host
    outside = span.fan > host
    tree = f.hierarchical_tree_steps(span.fan, host) if op == "all-reduce" and num.present(outside) else None
    return _priced(op, size, span, level, regime, bandwidth, level.constants(regime, op).per_hop, hops, tree, outside)


def fabric(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """The network between hosts (InfiniBand, Ethernet, DCN): the bandwidth is one device's share of its host's ports.

    Rails keep the members of a group on their own port; an all-reduce takes a ring or, for many hosts and small tensors, a tree.
    """
    hop = num.maximum(level.constants(regime, op).per_hop, level.latency)
    steps = f.ring_all_reduce_steps if op == "all-reduce" else f.ring_steps
    hops = num.minimum(span.fan - 1, 1) if op in DIRECT else steps(span.fan)
    tree = f.tree_steps(span.fan) if op == "all-reduce" else None
    return _priced(op, size, span, level, regime, level.bandwidth, hop, hops, tree)


def _priced(
    op: str,
    size: Number,
    span: GroupSpan,
    level: LevelNumbers,
    regime: str,
    bandwidth: Number,
    hop: Number,
    hops: Number,
    tree_hops: Number | None,
    has_tree: Number = True,
) -> LevelPrice:
    """The fastest way that `op` has: a ring of `hops`, a tree of `tree_hops` where there is one, a reduction in the network."""
    c = level.constants(regime, op)
    volume = volume_of(op, size, span)
    floor = f.collective_floor(volume, bandwidth)
    if op in ROOTED:
        expected, latency, algorithm = _rooted(op, size, span, bandwidth, c, hop, volume)
        return LevelPrice(volume, floor, expected, c.error, bandwidth, algorithm, latency)
    expected, latency = times(volume, bandwidth, c, hop, hops)
    algorithm = "direct" if op in DIRECT else "ring"
    if tree_hops is not None:
        tree, waited = times(f.tree_all_reduce_volume(size, span.fan), bandwidth, c, hop, tree_hops)
        tree = num.where(has_tree, tree, expected)
        if num.plain(tree) and num.value(tree) < num.value(expected):
            algorithm = "tree"
        latency = num.where(tree < expected, waited, latency)
        expected = f.faster(expected, tree)
    part = LevelPrice(volume, floor, expected, c.error, bandwidth, algorithm, latency)
    if op == "all-reduce" and level.level.in_network_reduction:
        _reduce_in_network(part, size, span, level, hops)
    return part


def _reduce_in_network(part: LevelPrice, size: Number, span: GroupSpan, level: LevelNumbers, hops: Number) -> None:
    """Lower the price to that of switches which sum (NVLS, SHARP) where the file says how well they do and they are faster."""
    volume = f.reduced_in_network_volume(size, span.fan)
    part.floor = f.collective_floor(num.minimum(part.volume, volume), part.bandwidth)
    if IN_NETWORK in level.level.efficiency:
        c = level.constants("kernel", IN_NETWORK)
        summed, waited = times(volume, part.bandwidth, c, c.per_hop, hops)
        if num.plain(summed) and num.value(summed) < num.value(part.expected):
            part.algorithm = "in-network reduction"
        part.volume = num.where(summed < part.expected, volume, part.volume)
        part.latency = num.where(summed < part.expected, waited, part.latency)
        part.expected = f.faster(part.expected, summed)


def _rooted(
    op: str, size: Number, span: GroupSpan, bandwidth: Number, c: SimpleNamespace, hop: Number, volume: Number
) -> tuple[Number, Number, str]:
    """Seconds, those without bytes and the way from or to one device: the faster of chain and tree for whole copies, a tree for parts."""
    deep = f.broadcast_tree_steps(span.fan)
    if op in ("scatter", "gather"):
        return *times(volume, bandwidth, c, hop, deep), "tree"
    chain, waited = times(volume, bandwidth, c, hop, f.ring_steps(span.fan))
    tree, less = times(f.broadcast_tree_volume(size, span.fan), bandwidth, c, hop, deep)
    algorithm = "chain" if num.plain(tree) and num.value(chain) <= num.value(tree) else "tree"
    return f.faster(chain, tree), num.where(tree < chain, less, waited), algorithm
