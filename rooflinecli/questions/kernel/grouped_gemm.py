"""`roofline kernel grouped`: the routed experts of one layer, both products and what lies between, on the busiest rank of a group."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, busiest_rank_share, experts_op
from rooflinecli.price.chip import Chip
from rooflinecli.quantization.formats import formats
from rooflinecli.questions.kernel.answer import alone, sizes
from rooflinecli.specs.hardware import HardwareSpec

GATED, UNGATED = 3.0, 2.0  # matrices of an expert


def kernel_grouped(
    tokens: Number,
    d_model: Number,
    width: Number,
    experts: Number,
    top_k: Number,
    hardware: HardwareSpec,
    *,
    ep: Number = 1.0,
    tp: Number = 1.0,
    redundant: Number = 0.0,
    gated: bool = True,
    balanced: bool = False,
    imbalance: Number | None = None,
    dtype: str = "bf16",
    weight_dtype: str | None = None,
    library: str = "vllm",
    lift: PlainLift = PLAIN,
) -> dict[str, Any]:
    """`tokens` of the whole group of `ep` ranks meet `experts` experts `width` wide (split over `tp`), `top_k` each.

    imbalance: slots of the busiest rank over an even share; without it, it follows from how unevenly a router visits
    experts, or with `balanced` from chance alone. Raises UsageError for a format that the chip does not have.
    """
    f = formats(dtype, None, weight_dtype, hardware.peak, hardware.name)
    tokens, d, wide, count, top, ranks, split, copies = sizes(
        lift, T=tokens, D=d_model, F=width, E=experts, k=top_k, ep=ep, tp=tp, redundant=redundant
    )
    shape = ExpertShape(d, wide / split, GATED if gated else UNGATED, count + copies, top)
    given = None if imbalance is None else sizes(lift, I=imbalance)[0]
    share = busiest_rank_share(tokens, shape, ranks, balanced, given)
    stored = ExpertStorage(f.expert_weight, f.matmul_input, f.activation, f.compute, f"{f.expert_format}@{library}")
    op = experts_op("experts", tokens, shape, stored, ranks, share)
    assert op.routed is not None
    answer = alone(op, dtype, Chip(hardware, lift))
    return answer | {
        "busiest_over_even": share,
        "rows": op.routed.rows,
        "experts_with_work": op.routed.active,
        "experts_held": shape.experts / ranks,
    }
