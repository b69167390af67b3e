"""Expert parallelism (GShard, Lepikhin et al. 2020): experts over `ep` replicas; an MoE all-to-all sends tokens to them and back.

In training a token crosses to another node once, however many experts it visits there, and routers visit at most four nodes
(DeepSeek-V3, section 3.2.2), so at most four copies of it use the network between nodes. In serving the backend decides what
is sent (formulas/collectives.py), and experts may be spread over tensor-parallel ranks too.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import grouped_gemm
from rooflinecli.ledger.ledger import Sizes
from rooflinecli.ledger.ops import Collective, ExpertAllToAll
from rooflinecli.specs.layout import Layout

MOST_COPIES = 4  # of a token between nodes, in training
SCALED_FP8 = 1.03125  # bytes per value of fp8 with a 32-bit scale for 128 values: what DeepEP dispatches


def shard(sizes: Sizes, ep: Number, ep_within_tp: Number, copies: Number) -> None:
    """Divide the experts and their redundant `copies` over devices, in place; those that tensor parallelism does not split (`ep_within_tp` > 1) stay
    whole."""
    if "X" not in sizes:
        return
    if num.present(copies):
        sizes["X"] = sizes["X"] + copies
    sizes["X"] = sizes["X"] / ep
    if not num.one(ep_within_tp):
        sizes["F"], sizes["ep_within_tp"] = sizes["F"] * ep_within_tp, ep_within_tp


def token_width(sizes: Sizes) -> Number:
    """Values of a token that travels to its experts: the latent width where experts work on one (Nemotron 3), else d_model."""
    return sizes.get("De", sizes["D"])


def collectives(
    layout: Layout,
    tokens: Number,
    top_k: Number,
    d_model: Number,
    bytes_per_value: Number,
    layers: Number,
    backward: bool,
) -> list[Collective]:
    """Dispatch and combine of `layers` MoE layers: an all-to-all each, forward and again backward."""
    size = tokens * top_k * d_model * bytes_per_value * layout.expert_load / layout.tp
    times = layers * (4 if backward else 2)
    between = num.minimum(top_k, MOST_COPIES) / top_k
    return [
        Collective(
            "ep.all_to_all", "all-to-all", size, "ep", layout.ep, layout.stride["ep"], times, outer_share=between
        )
    ]


def exchanges(
    layout: Layout,
    mode: str,
    tokens: Number,
    top_k: Number,
    d_model: Number,
    dispatched: Number,
    layers: Number,
    variant: str,
) -> list[ExpertAllToAll]:
    """Dispatch and combine of `layers` MoE layers in serving: `tokens` of a replica, `dispatched` bytes per value on the way out.

    Tensor-parallel ranks of a replica split its tokens; where ep includes them, all ranks take part in the all-to-all.
    """
    inside = num.maximum(layout.ep / layout.expert_replicas, 1)
    # a single replica sends nothing: its ranks have the same tokens, and their results are all-reduced as in tensor parallelism
    n = grouped_gemm.exchanging(layout.expert_replicas, inside)
    share = tokens / num.where(inside > 1, inside, layout.tp)
    stride = layout.stride["ep"]
    return [
        ExpertAllToAll(
            f"ep.{phase}", mode, phase, share, top_k, d_model, size, "ep", n, stride, layers, variant=variant
        )
        for phase, size in (("dispatch", dispatched), ("combine", 2.0))
    ]
