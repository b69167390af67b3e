"""A mesh of devices laid over a chip's network, and the collectives sent along its axes."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.ledger.ops import Collective
from rooflinecli.price.chip import Chip
from rooflinecli.quantization.formats import size_of
from rooflinecli.questions.shard.notation import Axes
from rooflinecli.specs.hardware import HardwareSpec


@dataclass(frozen=True)
class Send:
    """One collective of a sharded matmul: the array it is on, over which mesh axes, and its size when whole."""

    op: str
    array: str
    axes: Axes
    size: Number


class Mesh:
    """A mesh of devices on a chip's network: axes outermost first, so that the last one is innermost."""

    def __init__(self, sizes: dict[str, float], hardware: HardwareSpec, dtype: str, lift: PlainLift):
        self.sizes, self.chip, self.dtype = sizes, Chip(hardware, lift), dtype
        self.devices = 1.0
        for size in sizes.values():
            self.devices = self.devices * size
        self.element = lift("p", size_of(dtype), "B", "--dtype")

    def over(self, axes: Axes) -> float:
        product = 1.0
        for axis in axes:
            product = product * self.sizes[axis]
        return product

    def collective(self, send: Send) -> Collective:
        """A torus lays one mesh axis along one of its own where it has as many; other networks number devices innermost last."""
        level = self.chip.levels[0].level if self.chip.levels else None
        torus = level is not None and level.kind == "torus" and len(self.sizes) <= (level.axes or 1)
        mesh = tuple((self.sizes[a], self.sizes[a]) for a in send.axes) if torus else None
        names = list(self.sizes)
        inner = max((names.index(a) for a in send.axes), default=0)
        stride = self.over(tuple(names[inner + 1 :]))
        return Collective(send.op, send.op, send.size, "mesh", self.over(send.axes), stride, mesh=mesh)
