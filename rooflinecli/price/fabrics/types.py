"""What a fabric is asked to price: the part of a group that one network level carries, and what comes back."""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number

ROOTED = ("broadcast", "reduce", "scatter", "gather")  # from one device to the others, or back
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
