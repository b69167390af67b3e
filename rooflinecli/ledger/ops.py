"""What counting hands to pricing: kernels and collectives, as sizes. Neither knows hardware; pricing knows no model."""

from __future__ import annotations

from typing import NamedTuple

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import INF, Number

MIXING = (
    "attention"  # where every class of a sequence mixer is reported; mixers name their classes, this table does not
)
GROUPS = {
    "matmul": "matmul",
    "grouped_matmul": "matmul",
    "routed_experts": "matmul",
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


@dataclass(frozen=True, slots=True, eq=False)
class ExpertWorkload:
    """What a layer's experts meet on the busiest rank of their group: rows to multiply and what that takes.

    slots: routed slots of the whole group. active: experts with work, weights: their bytes; held: all experts of the rank. An Op's own FLOPs and bytes are
    those of an even share and of the fewest experts that could have work. crowded: 1 where so many sequences decode that an
    engine runs at the limit of its memory, else 0.
    """

    rows: Number
    slots: Number
    active: Number
    flops: Number
    weights: Number
    held: Number
    crowded: Number = 0.0


class Op(NamedTuple):
    """One kernel, its least FLOPs and bytes, and the sizes its efficiency depends on.

    kind (and variant, where a class has several) names its constants. k, n: contracted and output width of a matmul,
    longest run of keys and head width of attention, expert width of a grouped matmul. quantized: elements of the input that
    a pass of their own touches (quantized, appended to a cache, permuted). ramp: filling work per useful work, in units of
    k0. length: tokens of the sequence that attention runs over, whatever its window. items: work items that start one after
    the other (query tiles, cached heads). sharing: query heads that read one cached head. gradient: what a sequence mixer's kernel costs
    backward; contractions and elementwise passes follow a rule instead. routed: what all experts of a layer meet
    (kind routed_experts), both products and what lies between. backward: it carries a gradient, which its kernels do at a rate of their own.
    """

    name: str
    kind: str
    dtype: str
    flops: Number
    bytes: Number
    count: Number = 1
    k: Number = 0
    n: Number = 0
    quantized: Number = 0
    ramp: Number = 0
    items: Number = 0
    length: Number = 0
    variant: str = ""
    gradient: Gradient | None = None
    routed: ExpertWorkload | None = None
    sharing: Number = 1
    backward: bool = False

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
    quantized: Number = 0,
    ramp: Number = 0,
    items: Number = 0,
    length: Number = 0,
    variant: str = "",
    gradient: Gradient | None = None,
    routed: ExpertWorkload | None = None,
    sharing: Number = 1,
    backward: bool = False,
) -> Op:
    """An Op, in half the time that calling the class with keywords takes: a pass makes dozens."""
    sizes = (flops, bytes, count, k, n, quantized, ramp, items, length)
    return tuple.__new__(Op, (name, kind, dtype, *sizes, variant, gradient, routed, sharing, backward))


@dataclass(slots=True, eq=False)
class Collective:
    """A collective over one axis of a plan. `size` is the whole tensor in bytes, `axis` names who pays, `count` repeats.

    The group has `n` members, one every `stride` devices; `mesh` names members and length per torus axis where known.
    `outer_share` is the part of the bytes left for levels beyond the innermost, where copies are sent once;
    `rails` the share of the ports there that the software uses. `library` is an engine's that may reduce by kernels of its own.
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
    library: str = ""


@dataclass(slots=True, eq=False)
class ExpertAllToAll:
    """Tokens of every rank to the ranks of their experts (phase dispatch), or results back (combine).

    tokens: of one rank. mode names the kernels and with the phase their constants; `variant` a library's own. The group has
    `n` ranks, one every `stride` devices; `limit` is the most nodes that a token's experts may be on.
    """

    name: str
    mode: str
    phase: str
    tokens: Number
    top_k: Number
    d_model: Number
    bytes_per_value: Number
    axis: str
    n: Number
    stride: Number
    count: Number = 1
    limit: Number = INF
    variant: str = ""
