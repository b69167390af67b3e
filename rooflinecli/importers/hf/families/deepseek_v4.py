"""deepseek_v4: windows with compressed entries before them, residual streams mixed by hyper-connections, mixtures on every layer.

Layers that route by a hash of the token have the same matrices. Tables of token to expert and the router's correction are buffers.
Source: transformers 5.23 models/deepseek_v4; older files write compress_ratios, num_hash_layers and qk_rope_head_dim.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import experts, frame
from rooflinecli.importers.hf.layer_pattern import Override
from rooflinecli.specs.field_reader import ConfigFields

_KINDS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
_SLIDING, _SPARSE, _HEAVY = _KINDS.values()


def deepseek_v4(f: ConfigFields) -> dict[str, Any]:
    """Sinks on every head; one shared expert of a routed one's width."""
    f.expect("attention_bias", (False, None), "no projection of this type has one; fix it")
    f.expect("num_key_value_heads", (1, None), "keys and values are one head; fix it")
    kinds = _kinds(f)
    sizes = {
        "query_rank": f.integer("q_lora_rank"),
        "out_rank": f.integer("o_lora_rank"),
        "out_groups": f.integer("o_groups"),
    }
    heads = f.integer("num_attention_heads")
    if heads % sizes["out_groups"]:
        raise f.fail("o_groups", f"{sizes['out_groups']} groups do not divide {heads} heads; give a divisor")
    block = {"kind": "compressed", "n_heads": heads, "head_dim": f.integer("head_dim"), "sinks": True}
    block |= {"window": f.integer("sliding_window"), "sizes": sizes}
    moe = experts(
        f,
        "moe_intermediate_size",
        ("n_routed_experts", "num_local_experts"),
        n_shared=1,
    )
    bias = f.flag("mlp_bias")
    f.expect("n_shared_experts", (1, None), "the class builds one shared expert; give 1")
    moe |= {"shared_bias": True} if bias else {}
    extra = f.integer("num_nextn_predict_layers", "num_mtp_layers", null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    return frame(f, block, moe, layers=_layers(f, kinds, sizes), streams=f.integer("hc_mult"))


def _kinds(f: ConfigFields) -> list[str]:
    """The attention of each layer; entries behind the last layer belong to further predictions."""
    n = f.integer("num_hidden_layers")
    named, ratios = f.items("layer_types", str), f.items("compress_ratios", int)
    if ratios and not set(ratios) <= set(_KINDS):
        raise f.fail("compress_ratios", f"expected {', '.join(map(str, _KINDS))} for each layer; fix it")
    listed = named or [_KINDS[r] for r in ratios or ()]
    kinds = listed or [_HEAVY if i < 2 or i % 2 == 0 else _SPARSE for i in range(n)]
    if len(kinds) < n or not set(kinds) <= set(_KINDS.values()):
        field = "layer_types" if named else "compress_ratios"
        raise f.fail(field, f"expected one of {', '.join(_KINDS.values())} for each of {n} layers; fix it")
    return kinds[:n]


def _layers(f: ConfigFields, kinds: list[str], sizes: dict[str, int]) -> list[Override]:
    """Sizes of each kind of layer in addition to the window."""
    rates = f.raw("compress_rates")
    given = rates if isinstance(rates, dict) else {}
    sparse, heavy = (given.get(_SPARSE, 4), given.get(_HEAVY, 128))
    sparse = f.integer("compress_rate_csa", null=sparse)
    heavy = f.integer("compress_rate_hca", null=heavy)
    indexer = {
        "index_heads": f.integer("index_n_heads"),
        "index_width": f.integer("index_head_dim"),
        "index_top": f.integer("index_topk"),
    }
    blocks: dict[str, Override] = {
        _SLIDING: {},
        _SPARSE: {"attention": {"sizes": {**sizes, "rate": sparse, **indexer}}},
        _HEAVY: {"attention": {"sizes": {**sizes, "rate": heavy}}},
    }
    return [blocks[kind] for kind in kinds]
