"""Axis sizes on one device: the model's, divided as the layout splits them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.ledger.ledger import Layer, Ledger, Sizes
from rooflinecli.parallel import expert, tensor
from rooflinecli.specs.layout import Layout

_FIELDS: dict[str, tuple[str | int, ...]] = {
    "D": ("d_model",),
    "V": ("vocab_size",),
    "N": ("attention", "n_heads"),
    "K": ("attention", "n_kv_heads"),
    "H": ("attention", "head_dim"),
    "F": ("feedforward", "d_ff"),
    "E": ("feedforward", "n_experts"),
    "X": ("feedforward", "n_experts"),
    "Fe": ("feedforward", "d_ff"),
    "top_k": ("feedforward", "top_k"),
    "Fs": ("feedforward", "shared_d_ff"),
    "R": ("attention", "kv_lora_rank"),
    "P": ("attention", "qk_rope_head_dim"),
    "Q": ("attention", "q_lora_rank"),
    "Hv": ("attention", "v_head_dim"),
    "positions": ("positions",),
}

OUTER = ("V",)  # what tensor parallelism splits before and after the layers


def _lifted(axes: dict[str, int], document: Any, lift: PlainLift) -> Sizes:
    if not lift.traced:
        return dict(axes)
    return {
        a: lift(a, float(v), "1", document.location(*_FIELDS.get(a, ()))) if a != "one" else 1 for a, v in axes.items()
    }


def pass_axis_sizes(batch: Number, queries: Number, keys: Number, logits: Number, layout: Layout) -> Sizes:
    """B, S, T, O of one device's share of the work, and the tokens Z outside tensor parallelism (norms, residuals)."""
    outside = queries / layout.tp if layout.sequence_parallel else queries
    return {"B": batch, "S": queries, "T": keys, "O": logits, "Z": outside}


def layer_sizes(layer: Layer, work: Sizes, layout: Layout, document: object, lift: PlainLift) -> Sizes:
    """All sizes a layer's rows need, sharded."""
    tp, ep, ep_within_tp, copies = layout.tp, layout.ep, layout.ep_within_tp, layout.redundant_experts
    if tp.__class__ is ep.__class__ is ep_within_tp.__class__ is copies.__class__ is float and not lift.traced:
        return layer.sizes({**_plain_sharded(layer, tp, ep, ep_within_tp, copies, None, PLAIN), **work})
    return layer.sizes({**_sharded(layer, tp, ep, ep_within_tp, copies, document, lift), **work})


def _sharded(
    layer: Layer, tp: Number, ep: Number, ep_within_tp: Number, copies: Number, document: object, lift: PlainLift
) -> Sizes:
    """Sizes of the model under its sharding, whatever the work."""
    sizes = _lifted(layer.axes, document, lift)
    tensor.shard(sizes, tp, layer.split, layer.shared, layer.over)
    expert.shard(sizes, ep, ep_within_tp, copies)
    return sizes


_plain_sharded = lru_cache(maxsize=1024)(_sharded)  # for plain numbers: every pass of every phase needs them


def stem_head_axis_sizes(ledger: Ledger, work: Sizes, layout: Layout, document: object, lift: PlainLift) -> Sizes:
    """Sizes for the rows before and after the layers, sharded by vocabulary where the engine does so."""
    tp = 1.0 if ledger.over.replicates_lm_head else layout.tp
    plain = tp.__class__ is float and not lift.traced and not ledger.towers  # inputs of an encoder may be arrays
    given = (None, PLAIN) if plain else (document, lift)
    sizes = {**(_plain_sharded_outside if plain else _sharded_outside)(ledger, tp, *given), **work}
    for name, rule in ledger.derived:
        sizes[name] = rule(sizes)
    return sizes


def _sharded_outside(ledger: Ledger, tp: Number, document: object, lift: PlainLift) -> Sizes:
    """Sizes of stem and head under their sharding."""
    sizes = _lifted(ledger.axes, document, lift)
    tensor.shard(sizes, tp, OUTER)
    return sizes


_plain_sharded_outside = lru_cache(maxsize=256)(_sharded_outside)
