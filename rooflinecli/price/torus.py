"""A torus (TPU ICI): links along each axis, both directions at once where the axis closes, several axes together.

`bandwidth` is one link, one way. Devices are numbered along the axes, so a group fills an axis before it takes the next;
a group that skips devices along an axis shares its links with the groups between.
"""

from __future__ import annotations

import math
from functools import lru_cache

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives as f
from rooflinecli.price.chip import LevelNumbers
from rooflinecli.price.fabrics import GroupSpan, LevelPrice, times, volume_of

DIRECTIONS = {
    "axis-16": f.directions_axis_16,
    "cubes-4x4x4": f.directions_cubes,
    "always": f.directions_always,
    "never": f.directions_never,
}
LONGEST = 8  # times the shortest axis: beyond it a count is not a slice that anybody rents
Along = tuple[Number, Number, Number]  # members, step, directions on one axis


def cost(op: str, size: Number, span: GroupSpan, level: LevelNumbers, regime: str) -> LevelPrice:
    """Price of `op` over the members of a torus."""
    c = level.constants(regime, op)
    hop = num.maximum(c.per_hop, level.latency)
    along = _along(span, level)
    volume = volume_of(op, size, span)
    if op == "all-to-all":
        count, carried = _twist(span, level), 0.0
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
    expected, latency = times(carried, rate, c, hop, hops)
    return LevelPrice(volume, f.collective_floor(carried, rate), expected, c.error, rate, "torus", latency)


def _twist(span: GroupSpan, level: LevelNumbers) -> Number:
    """What twisting a slice brings an all-to-all over all of it."""
    whole = num.plain(span.n) and num.value(span.n) == num.value(span.slice) and span.mesh is None
    if not (level.level.twisted and whole):
        return 1.0
    lengths = sorted(num.value(length) for length in _lengths(num.minimum(span.slice, level.size), level))
    return f.TWISTED.get(tuple(length / lengths[0] for length in lengths), 1.0)


def _along(span: GroupSpan, level: LevelNumbers) -> list[Along]:
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
