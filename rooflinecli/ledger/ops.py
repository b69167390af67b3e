"""Kernels and collectives as sizes, from counting to pricing. Counting knows no hardware; pricing knows no model."""

from __future__ import annotations

from typing import NamedTuple

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import INF, Number

MIXING = "attention"  # group of every class of a sequence mixer
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
    """Work of a layer's experts on the busiest rank of their group: rows of the GEMM, FLOPs and bytes.

    slots: routed slots of the whole group. active: experts with work, weights: their bytes; held: all experts of the rank. FLOPs and
    bytes of an Op are those of the mean rank and of the fewest experts that could have work, whose weights are `least` bytes. crowded: 1 where enough sequences decode that an
    engine runs at the limit of its memory, else 0.
    """

    rows: Number
    slots: Number
    active: Number
    flops: Number
    weights: Number
    held: Number
    crowded: Number = 0.0
    least: Number = 0.0


class Op(NamedTuple):
    """One kernel, its least FLOPs and bytes, and the sizes its efficiency depends on.

    kind (and variant, where a class has several) names its constants. k, n: contracted and output width of a matmul,
    longest run of keys and head width of attention, expert width of a grouped matmul. quantized: elements of the input that
    a separate pass touches (quantized, appended to a cache, permuted). ramp: filling work per useful work, in units of
    k0. length: tokens of the sequence that attention runs over, whatever its window. items: work items that start one after
    the other (query tiles, KV heads). sharing: query heads that read one KV head. gradient: the backward pass of a sequence mixer's
    kernel; contractions and elementwise passes follow a rule instead. routed: work of all experts of a layer (kind routed_experts).
    backward: it computes a gradient, with constants of backward kernels.
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
    def read_and_written(self) -> Number:
        """Bytes that the expected time is of: of experts those that tokens are expected to visit on the busiest rank, not the fewest."""
        return self.bytes if self.routed is None else self.bytes + self.routed.weights - self.routed.least

    @property
    def group(self) -> str:
        """The class it is reported under."""
        return GROUPS.get(self.kind, MIXING)


def matmul(
    name: str,
    dtype: str,
    flops: Number,
    bytes: Number,
    m: Number,
    k: Number,
    n: Number,
    ramp: Number,
    variant: str = "",
) -> Op:
    """A matmul of m rows, k contracted and n output widths that quantizes its input."""
    return Op(name, "matmul", dtype, flops, bytes, k=k, n=n, quantized=m * k, ramp=ramp, variant=variant)


@dataclass(slots=True, eq=False)
class Collective:
    """A collective over one axis of a layout. `size` is the whole tensor in bytes, `axis` the parallel axis it is charged to.

    The group has `n` members, one every `stride` devices; `mesh` names members and length per torus axis where known.
    `outer_share` is the part of the bytes left for levels beyond the innermost, where copies are sent once;
    `rails` the fraction of the ports there that the software uses. `library` is an engine's, which may have custom all-reduce kernels.
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
