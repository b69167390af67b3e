"""Expert parallelism (GShard, Lepikhin et al. 2020): experts over `ep` replicas; tokens travel to them and back.

A token crosses to another node once, however many experts it visits there, and routers visit at most four nodes
(DeepSeek-V3, section 3.2.2), so at most four copies of it use the network between nodes.
"""

from __future__ import annotations

from rooflinecli import num
from rooflinecli.ledger import Sizes
from rooflinecli.num import Number
from rooflinecli.specs.plan import Plan
from rooflinecli.work import Collective

COPIES = 4


def shard(sizes: Sizes, ep: Number, apart: Number) -> None:
    """Divide the experts held per device, in place; those that tensor parallelism does not cut (`apart` > 1) stay whole."""
    if "X" not in sizes:
        return
    sizes["X"] = sizes["X"] / ep
    if not (num.plain(apart) and num.value(apart) == 1):
        sizes["F"], sizes["apart"] = sizes["F"] * apart, apart


def collectives(
    plan: Plan, tokens: Number, top_k: Number, d_model: Number, bytes_per_value: Number, layers: Number, backward: bool
) -> list[Collective]:
    """Dispatch and combine of `layers` MoE layers: an all-to-all each, forward and again backward."""
    size = tokens * top_k * d_model * bytes_per_value * plan.imbalance / plan.tp
    times = layers * (4 if backward else 2)
    between = num.minimum(top_k, COPIES) / top_k
    return [
        Collective("ep.all_to_all", "all-to-all", size, "ep", plan.ep, plan.stride["ep"], times, outer_share=between)
    ]
