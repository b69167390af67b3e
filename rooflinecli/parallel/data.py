"""Data parallelism and ZeRO/FSDP (Rajbhandari et al. 2020): replicas all-reduce gradients, or shard the model state.

Stage 0 all-reduces gradients; 1 and 2 reduce-scatter gradients and all-gather updated weights, 2 with a reduce-scatter for every
micro-batch (DeepSpeed's stage 2, FSDP's SHARD_GRAD_OP); 3 gathers weights before they are used, forward and backward, and
reduce-scatters gradients, every micro-batch. With a shard group smaller than
the replicas (HSDP) the groups all-reduce their shard of the gradients. A layer is a bucket, sent when it is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.ledger.ops import Collective
from rooflinecli.specs.layout import Layout


class ReplicaGroup(NamedTuple):
    """Devices with copies of the same parameters: `all` of them, `part` of which form a shard group, one every `stride` devices."""

    all: Number
    part: Number
    stride: Number


def group(layout: Layout, experts: bool) -> ReplicaGroup:
    """The group of a parameter; experts have ep times fewer copies, and more where tensor ranks have them whole.

    A shard group has every expert: ep splits the devices of the group, and what is left of them shards each expert (torchtitan's
    `dp_shard_mod_ep`, dp_shard x cp x tp / ep of ParallelDims; Megatron-LM's expert data parallel ranks over
    --num-distributed-optimizer-instances).
    """
    if not experts:
        every = layout.replicas
        return ReplicaGroup(
            every, every if layout.shard is None else num.minimum(layout.partition, every), layout.replica_stride
        )
    ep_within_tp = layout.ep_within_tp
    every = layout.replicas * ep_within_tp / layout.ep
    part = every if layout.shard is None else layout.partition * ep_within_tp / layout.ep
    return ReplicaGroup(every, part, layout.replica_stride * layout.ep / ep_within_tp)


def collectives(
    layout: Layout, params: Number, weight_bytes: Number, gradient_bytes: Number, buckets: Number, experts: bool = False
) -> list[Collective]:
    """Per optimizer step (stages 0 to 2) or per micro-batch (stage 3), for `params` parameters on a device of a replica."""
    g = group(layout, experts)
    weights, gradients = params * weight_bytes / buckets, params * gradient_bytes / buckets
    if layout.zero == 0:
        return [Collective("dp.all_reduce", "all-reduce", gradients, "dp", g.all, g.stride, buckets)]
    gathers = 2 if layout.zero == 3 else 1
    moves = [
        Collective("dp.reduce_scatter", "reduce-scatter", gradients, "dp", g.part, g.stride, buckets),
        Collective("dp.all_gather", "all-gather", weights, "dp", g.part, g.stride, buckets * gathers),
    ]
    if layout.zero == 3 or layout.shard is None:
        return moves
    return [*moves, *shard_group_all_reduce(layout, params, gradient_bytes, buckets, experts)]


def members_in_host(layout: Layout, per_host: Number, experts: bool = False) -> Number:
    """Members of a shard group in one host of `per_host` devices, over which ZeRO++'s hpZ splits a copy of the weights."""
    g = group(layout, experts)
    return num.minimum(g.part, num.maximum(num.floor(per_host / g.stride), 1.0))


def backward_with_hpz(
    layout: Layout, moves: list[Collective], per_host: Number, experts: bool = False
) -> list[Collective]:
    """A micro-batch's collectives of stage 3, one of the two gathers of each layer inside the host (hpZ, Wang et al. 2023, section 3.2)."""
    scatter, gather = moves
    once = replace(gather, count=gather.count / 2)
    return [scatter, once, replace(once, name="dp.all_gather_host", n=members_in_host(layout, per_host, experts))]


def shard_group_all_reduce(
    layout: Layout, params: Number, gradient_bytes: Number, buckets: Number, experts: bool = False
) -> list[Collective]:
    """HSDP: the all-reduce of gradient shards among shard groups, once per optimizer step."""
    if layout.shard is None:
        return []
    g = group(layout, experts)
    shard = params * gradient_bytes / buckets / g.part
    return [Collective("dp.all_reduce", "all-reduce", shard, "dp", g.all / g.part, g.stride * g.part, buckets)]


ZERO = {"optimizer": 1, "gradients": 2, "weights": 3}  # the stage from which a state is partitioned


def shards(layout: Layout, state: str, experts: bool = False) -> Number:
    """Devices over which a state is partitioned, by ZeRO stage; in a pipeline weights stay whole between micro-batches."""
    if layout.zero < ZERO[state]:
        return 1.0
    n = group(layout, experts).part
    return num.where(layout.pp > 1, 1.0, n) if state == "weights" else n
