"""What one network level charges for a collective.

Among devices that reach each other directly: ring by default; a tree where it is faster; where switches can sum (NVLS, SHARP) and the
file says how well, in the network. On a torus (TPU ICI): links along each axis, both directions at once where the axis closes, several
axes together. Its `bandwidth` is one link, one way. Devices are numbered along the axes, so a group fills an axis before it takes the
next; a group that skips devices along an axis shares its links with the groups between.
"""

from __future__ import annotations

import math
from functools import lru_cache
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
    members and length on each torus axis outright. least: members in the emptiest domain below; where that is not full, one ring
    runs through all devices, since trees and sums inside switches want equal hosts.
    """

    fan: Number
    inner: Number
    members: Number
    n: Number
    stride: Number
    slice: Number
    mesh: Mesh | None = None
    least: Number = 1.0

    @property
    def ring(self) -> Number:
        """Members of the ring that passes this level."""
        return num.where(self.least < self.inner, self.n, self.fan)


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
        return f.all_reduce_volume(size, span.ring)
    if op == "permute":
        return f.permute_volume(size, span.fan)
    if op in ("broadcast", "reduce"):
        return f.broadcast_volume(size, span.fan)
    return f.gather_volume(size, span.fan if op in ROOTED else span.ring)


def least_volume(op: str, size: Number, span: GroupSpan) -> Number:
    """Bytes that pass a port of the emptiest domain below however it is done."""
    if op in ("all-gather", "reduce-scatter"):
        return f.gather_volume(size, num.where(span.least < span.inner, span.n / span.least, span.fan))
    return f.all_reduce_volume(size, span.fan) if op == "all-reduce" else volume_of(op, size, span)


def collective_times(
    volume: Number, bandwidth: Number, c: SimpleNamespace, hop: Number, hops: Number
) -> tuple[Number, Number]:
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
    floor = f.collective_floor(least_volume(op, size, span), bandwidth)
    if op in ROOTED:
        expected, latency, algorithm = _rooted(op, size, span, bandwidth, c, hop, volume)
        return LevelPrice(volume, floor, expected, c.error, bandwidth, algorithm, latency)
    expected, latency = collective_times(volume, bandwidth, c, hop, hops)
    algorithm = "direct" if op in DIRECT else "ring"
    if tree_hops is not None:
        tree, waited = collective_times(f.tree_all_reduce_volume(size, span.fan), bandwidth, c, hop, tree_hops)
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
    part.floor = num.minimum(part.floor, f.collective_floor(volume, part.bandwidth))
    if IN_NETWORK in level.level.efficiency:
        c = level.constants("kernel", IN_NETWORK)
        summed, waited = collective_times(volume, part.bandwidth, c, c.per_hop, hops)
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
        return *collective_times(volume, bandwidth, c, hop, deep), "tree"
    chain, waited = collective_times(volume, bandwidth, c, hop, f.ring_steps(span.fan))
    tree, less = collective_times(f.broadcast_tree_volume(size, span.fan), bandwidth, c, hop, deep)
    algorithm = "chain" if num.plain(tree) and num.value(chain) <= num.value(tree) else "tree"
    return f.faster(chain, tree), num.where(tree < chain, less, waited), algorithm


DIRECTIONS = {
    "axis-16": f.directions_axis_16,
    "cubes-4x4x4": f.directions_cubes,
    "always": f.directions_always,
    "never": f.directions_never,
}
LONGEST = 8  # times the shortest axis: beyond it a count is not a slice that anybody rents
AxisMembers = tuple[Number, Number, Number]  # members, step, directions on one axis


def torus(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """Price of `op` over the members of a torus."""
    c = level.constants(regime, op)
    hop = num.maximum(c.per_hop, level.latency)
    along = _members_by_axis(span, level)
    volume = volume_of(op, size, span)
    if op == "all-to-all":
        count, carried = _twist_gain(span, level), 0.0
        for axis in along:  # one after the other, the links of an axis at the same time: the busiest link decides
            carried = num.maximum(carried, f.all_to_all_link_bytes(size, *axis))
    elif op == "permute":
        carried, count = volume, 1.0
    else:
        carried, count = volume, sum(f.links(*axis) for axis in along)
    rate = f.torus_bandwidth(level.bandwidth, count)
    hops = sum(f.axis_hops(*axis) for axis in along) * (2 if op == "all-reduce" else 1)
    if op == "permute":
        hops = num.minimum(hops, 1)
    expected, latency = collective_times(carried, rate, c, hop, hops)
    return LevelPrice(volume, f.collective_floor(carried, rate), expected, c.error, rate, "torus", latency)


def _twist_gain(span: GroupSpan, level: LevelNumbers) -> Number:
    """What twisting a slice brings an all-to-all over all of it."""
    plain = num.plain(span.n) and num.plain(span.slice) and span.mesh is None
    if not (level.level.twisted and plain and num.value(span.n) == num.value(span.slice)):
        return 1.0
    lengths = sorted(num.value(length) for length in _lengths(num.minimum(span.slice, level.size), level))
    return f.TWISTED.get(tuple(length / lengths[0] for length in lengths), 1.0)


def _members_by_axis(span: GroupSpan, level: LevelNumbers) -> list[AxisMembers]:
    """Members, step and directions of the group on each axis."""
    rule = DIRECTIONS[level.level.wrap]
    used = num.minimum(span.slice, level.size)
    if span.mesh is not None:
        return [(m, 1.0, rule(m, 1.0, length, level.size)) for m, length in span.mesh]  # axes of a pod that wraps
    result, below, inner = [], 1.0, 1.0
    for length in _lengths(used, level):
        through = f.members_within(below * length, span.stride, span.n)
        m, step = through / inner, num.maximum(span.stride / below, 1)
        result.append((m, step, rule(m, step, length, used)))
        below, inner = below * length, through
    return result


@lru_cache(maxsize=512)
def slice_shape(devices: int, axes: int) -> tuple[int, ...] | None:
    """Axis lengths of a slice, shortest first: the factors nearest to a cube, whole cubes of four where the count allows;
    None where the count has no such factors."""
    found: list[tuple[int, ...]] = []

    def split(rest: int, left: int, least: int, shape: tuple[int, ...]) -> None:
        if left == 1:
            if rest >= least:
                found.append((*shape, rest))
            return
        for length in range(least, int(rest ** (1 / left) + 1e-9) + 1):
            if rest % length == 0:
                split(rest // length, left - 1, length, (*shape, length))

    split(devices, axes, 1, ())
    whole = [shape for shape in found if axes == 3 and all(length % 4 == 0 for length in shape)]
    best = min(whole or found, key=lambda shape: shape[-1] / shape[0], default=None)
    return best if best is None or whole or best[-1] <= LONGEST * best[0] else None


def _lengths(used: Number, level: LevelNumbers) -> list[Number]:
    """Axis lengths of a slice, innermost first: the longest where only long axes close, else the shortest."""
    axes = level.level.axes or 1
    chosen = level.level.slice
    if chosen and num.plain(used) and math.prod(chosen) == num.value(used):
        return [float(length) for length in chosen]
    whole = sorted(level.level.shape or []) or None
    shape = slice_shape(int(num.value(used)), axes) if num.plain(used) and not f.is_power_of_two(used) else None
    lengths: list[Number] = (
        [float(length) for length in shape]
        if shape is not None
        else [f.axis_length(used, float(axes), float(i)) for i in range(axes)]
    )
    if whole is not None and len(whole) == axes:
        lengths = [num.where(used >= level.size, float(w), length) for w, length in zip(whole, lengths, strict=True)]
    return lengths[::-1] if level.level.wrap == "axis-16" else lengths
