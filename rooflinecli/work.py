"""What counting hands to pricing: kernels and collectives, as sizes. Neither knows hardware; pricing knows no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rooflinecli.num import Number

MIXING = (
    "attention"  # where every class of a sequence mixer is reported; mixers name their classes, this table does not
)
GROUPS = {
    "matmul": "matmul",
    "grouped_matmul": "matmul",
    "elementwise": "elementwise",
    "gather": "elementwise",
    "optimizer": "optimizer",
}


@dataclass(frozen=True, slots=True, eq=False)
class Gradient:
    """The backward pass of a mixer's kernel: its FLOPs over the forward ones, the bytes it moves.

    scores: whether it reads or writes attention scores, which recomputing core attention repeats once they went to memory.
    """

    flops: float
    bytes: Number
    scores: bool = False


class Op(NamedTuple):
    """One kernel, its least FLOPs and bytes, and the sizes its efficiency depends on.

    kind (and variant, where a class has several) names its constants. k, n: contracted and output width of a matmul,
    longest run of keys and head width of attention, expert width of a grouped matmul. quantised: elements of the input that
    a pass of their own touches (quantised, appended to a cache, permuted). ramp: filling work per useful work, in units of
    k0. length: tokens of the sequence that attention runs over, whatever its window. items: work items that start one after the other (query tiles, cached heads). gradient: what a sequence mixer's
    kernel costs backward; contractions and elementwise passes follow a rule instead.
    """

    name: str
    kind: str
    dtype: str
    flops: Number
    bytes: Number
    count: Number = 1
    k: Number = 0
    n: Number = 0
    quantised: Number = 0
    ramp: Number = 0
    items: Number = 0
    length: Number = 0
    variant: str = ""
    gradient: Gradient | None = None

    @property
    def group(self) -> str:
        """The class it is reported under."""
        return GROUPS.get(self.kind, MIXING)


def kernel(
    *,
    name: str,
    kind: str,
    dtype: str,
    flops: Number,
    bytes: Number,
    count: Number = 1,
    k: Number = 0,
    n: Number = 0,
    quantised: Number = 0,
    ramp: Number = 0,
    items: Number = 0,
    length: Number = 0,
    variant: str = "",
    gradient: Gradient | None = None,
) -> Op:
    """An Op, in half the time that calling the class with keywords takes: a pass makes dozens."""
    fields = (name, kind, dtype, flops, bytes, count, k, n, quantised, ramp, items, length, variant, gradient)
    return tuple.__new__(Op, fields)


@dataclass(slots=True, eq=False)
class Collective:
    """A collective over one axis of a plan. `size` is the whole tensor in bytes, `axis` names who pays, `count` repeats.

    The group has `n` members, one every `stride` devices; `mesh` names members and length per torus axis where known.
    `outer_share` is the part of the bytes left for levels beyond the innermost, where copies are sent once;
    `rails` the share of the ports there that the software uses.
    """

    name: str
    op: str
    size: Number
    axis: str
    n: Number
    stride: Number
    count: Number = 1
    mesh: tuple[tuple[Number, Number], ...] | None = None
    outer_share: Number = 1.0
    rails: Number = 1.0
