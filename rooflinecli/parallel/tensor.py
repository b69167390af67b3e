"""Tensor parallelism (Megatron-LM, Shoeybi et al. 2019): heads and feed-forward columns are split over `tp` devices.

Two all-reduces per layer forward and two backward; with sequence parallelism (Korthikanti et al. 2022) an all-gather and a
reduce-scatter in place of each, and activations outside the split matmuls divided as well.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints
from rooflinecli.ledger.ledger import EVEN, Axes, Sizes, TensorSplit
from rooflinecli.ledger.ops import Collective
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import LayerSpec

HEADS = ("N",)  # axes that are split into whole units


def shard(sizes: Sizes, tp: Number, split: Axes, shared: Axes = (), over: TensorSplit = EVEN) -> None:
    """Divide the axes that tensor parallelism splits, in place; a shared one is replicated once there are fewer than tp.

    Heads that tp does not divide are padded up, so that every device (every rank of it, where `over` has several) has whole ones
    and equally many.
    """
    cached = {axis: sizes[axis] for axis in shared}
    for axis in split:
        if axis not in HEADS:
            sizes[axis] = sizes[axis] / tp
        elif over.ranks == 1.0:
            sizes[axis] = _whole(sizes[axis] / tp)
        else:
            sizes[axis] = over.ranks * _whole(sizes[axis] / (tp * over.ranks))
    for axis in shared:
        sizes[axis] = _whole(num.maximum(cached[axis] / tp, 1))
        if over.copies and "N" in sizes:
            sizes[axis] = _copied(sizes[axis], sizes["N"], cached[axis], tp * over.ranks, over)


def _copied(kv_heads: Number, queries: Number, heads: Number, ranks: Number, over: TensorSplit) -> Number:
    """KV heads of a device under an engine that copies them where `ranks` in all do not divide them."""
    copies = num.maximum(queries, kv_heads)
    if over.copies == "ranks":
        copies = num.where(constraints.divides(heads, ranks), num.maximum(over.ranks, kv_heads), copies)
    return num.where(constraints.divides(ranks, heads), kv_heads, copies)


def _whole(heads: Number) -> Number:
    """Heads padded up to a whole number; an explanation does not show it where they are whole already."""
    return heads if num.plain(heads) and num.value(heads) == int(num.value(heads)) else num.ceil(heads)


def tp_reductions_per_layer(layer: LayerSpec, layout: Layout | None = None) -> Number:
    """All-reduces of a layer's activations over the group: after attention and after the feed-forward, one if these are parallel.

    Experts that a layout keeps whole on every rank need none, unless one is shared by all tokens.
    """
    count = float((layer.attention is not None) + (layer.cross is not None) + (layer.feedforward.kind != "none"))
    if layer.parallel:
        return 1.0
    ep_within_tp = 1.0 if layout is None or layer.feedforward.kind != "moe" else layout.ep_within_tp
    if num.one(ep_within_tp) or layer.feedforward.n_shared or layer.feedforward.shared_d_ff:
        return count
    return num.where(ep_within_tp > 1, count - 1, count)


def collectives(
    layout: Layout,
    tokens: Number,
    d_model: Number,
    bytes_per_value: Number,
    layers: Number,
    branches: Number,
    backward: bool,
    again: bool = False,
    gathered_bytes: Number | None = None,
) -> list[Collective]:
    """The collectives of `layers` layers with `branches` split branches each, over `tokens` tokens.

    `again`: those of a recomputed forward pass alone; `gathered_bytes`: per value of an all-gather, where it is sent in another format.
    """
    size = tokens * d_model * bytes_per_value
    passes = 2 if backward and not again else 1
    n, stride = layout.tp, layout.stride["tp"]
    if not layout.sequence_parallel:
        return [Collective("tp.all_reduce", "all-reduce", size, "tp", n, stride, layers * branches * passes)]
    # The backward pass gathers the inputs once more, since only their shards were saved.
    gathers = layers * branches * (passes + (1 if backward and not again else 0))
    gathered = size if gathered_bytes is None else tokens * d_model * gathered_bytes
    return [
        Collective("tp.all_gather", "all-gather", gathered, "tp", n, stride, gathers),
        Collective("tp.reduce_scatter", "reduce-scatter", size, "tp", n, stride, layers * branches * passes),
    ]
