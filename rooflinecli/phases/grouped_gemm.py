"""All routed experts of one layer as one grouped GEMM: both products, and the passes over routed slots around them.

Counted for the busiest rank of an expert group, since the others wait for it; FLOPs and bytes of the floor are the mean over ranks.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import grouped_gemm as f
from rooflinecli.ledger.ops import ExpertWorkload, Op


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """A layer of routed experts on one rank: d_model, an expert's width here, its matrices (3 gated, 2 not), experts and top_k."""

    d_model: Number
    width: Number
    matrices: float
    experts: Number
    top_k: Number


@dataclass(frozen=True, slots=True)
class ExpertStorage:
    """Bytes per weight, per value read and written, compute format, and kernels (a variant of the class `routed_experts`)."""

    weight: float
    read: float
    written: float
    compute: str
    variant: str


def busiest_rank_share(
    tokens: Number, shape: ExpertShape, ep: Number, balanced: bool, given: Number | None = None
) -> Number:
    """Slots of the busiest of `ep` ranks over the mean: as given, else by expert placement."""
    if given is not None:
        return num.minimum(ep, given)
    if balanced:
        return f.busiest_rank_balanced(ep, tokens * shape.top_k)
    return f.busiest_rank_load(ep, shape.experts, f.SPREAD)


def experts_op(
    name: str,
    tokens: Number,
    shape: ExpertShape,
    stored: ExpertStorage,
    ep: Number,
    share: Number,
    even: bool = False,
    skew: float = f.SKEW,
) -> Op:
    """The experts of the busiest rank for `tokens` of the whole group; it gets `share` times the mean of the slots.

    `shape.experts` counts copies of redundant experts too. even: routing that fills every expert before it repeats one;
    skew: how uneven it is otherwise.
    """
    slots = tokens * shape.top_k
    held, mu = shape.experts / ep, tokens * shape.top_k / shape.experts
    rows, fair = f.rows_of_busiest(f.expert_rows(slots, ep, share), slots), f.expert_rows(slots, ep, 1.0)
    one = f.of_one_token(tokens, shape.top_k, ep)
    visits = share * mu
    # even routing gives every slot another expert until all have work
    spread = num.minimum(held, fair) if even else f.expected_active_experts(held, visits, skew)
    active = f.experts_of_busiest(spread, one, rows)
    least = num.maximum(f.expected_active_experts(held, mu, f.LEAST_SKEW), one)
    sizes = (shape.matrices, shape.d_model, shape.width)
    fewest = f.expert_weight_bytes(least, *sizes, stored.weight)
    moved = f.expert_token_bytes(fair, shape.top_k, shape.d_model, stored.read, stored.written)
    return Op(
        name=name, kind="routed_experts", dtype=stored.compute, flops=f.expert_flops(fair, *sizes), bytes=fewest + moved,
        k=shape.d_model, n=shape.width, variant=stored.variant,
        routed=ExpertWorkload(rows=rows, slots=slots, active=active, held=held, flops=f.expert_flops(rows, *sizes), weights=f.expert_weight_bytes(active, *sizes, stored.weight), least=fewest),
    )  # fmt: skip
