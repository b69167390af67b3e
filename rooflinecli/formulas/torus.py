"""Collectives on a torus: axes of links, both directions at once where an axis closes into a ring, several axes together.

`m` members of a group lie along one axis of `length` devices, one every `step`; the step is also the number of
interleaved groups that share each link.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_BOOK = "Austin et al. 2025, How to Scale Your Model (JAX Scaling Book), chapters 2 and 3"
_LN2 = 0.6931471805599453


@formula(
    "l", "devices", "slices are as close to a cube as powers of two allow; Google Cloud TPU documentation, topologies"
)
def axis_length(devices: Number, axes: Number, index: Number) -> Number:
    """Length of axis `index` (0 the shortest) of a slice of a number of devices."""
    return 2.0 ** num.floor((num.log(devices) / _LN2 + 1e-9 + index) / axes)


def is_power_of_two(devices: Number) -> bool:
    """Whether a slice of a number of devices has the shape that `axis_length` gives."""
    count = float(num.value(devices))
    return count >= 1 and 2.0 ** round(num.log(count) / _LN2) == count


@formula("d", "1", _BOOK + "; v5e and v6e close only an axis of 16")
def directions_axis_16(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """2 where the members close an axis of at least 16, else 1."""
    return num.where(m * step >= num.maximum(length, 16), 2, 1)


@formula("d", "1", _BOOK + "; v4 and v5p close axes when the slice is made of 4x4x4 cubes")
def directions_cubes(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """2 where the members close an axis of a slice of whole cubes, else 1."""
    return num.where((m * step >= num.maximum(length, 4)) & (slice_devices >= 64), 2, 1)


@formula("d", "1", "an axis of three or more devices is always a ring")
def directions_always(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """2 where the members cover a whole axis, else 1."""
    return num.where(m * step >= num.maximum(length, 3), 2, 1)


@formula("d", "1", "no axis closes")
def directions_never(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """1: open lines only."""
    return num.minimum(m, 1)


@formula("r", "links", _BOOK)
def links(m: Number, step: Number, directions: Number) -> Number:
    """Links of one device that a group can use along an axis: none when it has one member there."""
    return num.minimum(m - 1, 1) * directions / step


@formula("h", "hops", _BOOK)
def axis_hops(m: Number, step: Number, directions: Number) -> Number:
    """Hops to the farthest member along an axis; half the way round a ring."""
    return num.ceil((m - 1) / directions) * step


@formula("V", "B", _BOOK + "; all-to-all costs a quarter of an all-gather on a ring with both directions")
def all_to_all_link_bytes(size: Number, m: Number, step: Number, directions: Number) -> Number:
    """Bytes over the busiest link of an axis when every device sends `size` evenly to the m members: floor(m^2/4)/m, halved by a ring."""
    return size * num.floor(m * m / 4) / m / directions * step


# all-to-all throughput of a twisted slice over the regular one, by its shape: Jouppi et al. 2023, TPU v4 (arXiv 2304.01433), section 2.8
TWISTED = {(1.0, 1.0, 2.0): 1.63, (1.0, 2.0, 2.0): 1.31}


@formula("N", "B/s", _BOOK + "; data is split over the axes and circles them at the same time")
def torus_bandwidth(link: Number, link_count: Number) -> Number:
    """Bandwidth of a device over a number of links, at least one."""
    return link * num.maximum(link_count, 1)
