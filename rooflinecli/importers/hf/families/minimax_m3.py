"""minimax_m3: grouped-query attention over picked blocks of keys, mixtures with one shared expert behind leading dense layers.

The router's correction bias is a buffer. Source: transformers 5.23 models/minimax_m3_vl, whose text decoder it is; files on the Hub write
sparse_attention_config and moe_layer_freq.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import Block, attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.layer_pattern import Override, merged
from rooflinecli.specs.field_reader import ConfigFields

_SIZES = {
    "index_heads": ("index_n_heads", "sparse_num_index_heads", 4),
    "index_width": ("index_head_dim", "sparse_index_dim", 128),
    "index_top": ("index_topk_blocks", "sparse_topk_blocks", 16),
    "index_block": ("index_block_size", "sparse_block_size", 128),
}


def minimax_m3(f: ConfigFields) -> dict[str, Any]:
    """q and k normalized per head; an indexer on the layers that the config lists."""
    f.expect("use_qk_norm", (True, None), "this type always normalizes q and k; fix it")
    f.expect("attention_output_gate", (False, None), "a gate on the output is not supported; write the model as YAML")
    f.expect("n_shared_experts", (1, None), "this type has one shared expert; fix it")
    n = f.integer("num_hidden_layers")
    shared = f.integer("shared_intermediate_size")
    moe = experts(f, "intermediate_size", ("num_local_experts",), n_shared=1, shared_d_ff=shared)
    dense = feedforward(f, "gated", "dense_intermediate_size")
    base, mixed = sparse(dense, moe, _listed(f, n, "mlp_layer_types", "sparse", "moe_layer_freq", True))
    extra = f.integer("num_nextn_predict_layers", "num_mtp_layers", null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    block = attention(f, qk_norm="head")
    return frame(f, block, base, layers=merged(_picking(f, n), mixed))


def _listed(f: ConfigFields, n: int, names: str, meant: str, switches: str, default: bool) -> list[bool]:
    """Which layers are of the kind `meant`: a list of names, or one of switches as on the Hub."""
    named, numbers = f.items(names, str, n), f.items(switches, int, n)
    if named:
        return [kind == meant for kind in named]
    return [bool(number) for number in numbers] if numbers else [default] * n


def _picking(f: ConfigFields, n: int) -> list[Override]:
    """The indexer of each layer that has one."""
    given = f.raw("sparse_attention_config")
    inner = ConfigFields(given if isinstance(given, dict) else {}, {}, f.where, (*f.prefix, "sparse_attention_config"))
    inner.expect("use_sparse_attention", (True, None), "attention over every key is another model; write it as YAML")
    where = f.items("layer_types", str, n)
    known = {"minimax_m3_sparse", "full_attention"}
    if where and not set(where) <= known:
        raise f.fail("layer_types", f"expected {' or '.join(sorted(known))} for each of {n} layers; fix it")
    picks = [kind == "minimax_m3_sparse" for kind in where] if where else None
    if picks is None:
        listed = inner.items("sparse_attention_freq", int, n)
        picks = [bool(number) for number in listed] if listed else [False] * n
    sizes = {name: inner.integer(hub, null=f.integer(own, null=usual)) for name, (own, hub, usual) in _SIZES.items()}
    block: Block = {"attention": {"kind": "sparse-gqa", "sizes": sizes}}
    return [block if here else {} for here in picks]
