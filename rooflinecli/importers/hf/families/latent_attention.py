"""Readers of latent attention with an indexer, a norm after mixtures, or two attentions per layer, and of compressed attention (deepseek_v4).

Source: transformers 5.23 models/{deepseek_v32,glm_moe_dsa,axk1,longcat_flash,deepseek_v4}. Tables of token to expert and the router's
correction bias are buffers; older files of deepseek_v4 have compress_ratios, num_hash_layers and qk_rope_head_dim.
"""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import (
    Block,
    Row,
    experts,
    frame,
    latent,
    leave_out_predictions,
)
from rooflinecli.importers.hf.decoder import decoder
from rooflinecli.importers.hf.layer_pattern import Override
from rooflinecli.specs.field_reader import ConfigFields


def deepseek_v32(f: ConfigFields, row: Row, shared: list[bool] | None = None) -> Block:
    """Latent attention over the keys that an indexer picks; a layer where `shared` is true takes those of the layer before."""
    sizes = {
        "index_heads": f.integer("index_n_heads"),
        "index_width": f.integer("index_head_dim"),
        "index_top": f.integer("index_topk"),
    }
    block = {**latent(f), "kind": "sparse-mla", "sizes": sizes}
    again = {"attention": {"sizes": {**sizes, "index_reused": 1}}}
    layers = [again if here else {} for here in shared] if shared and any(shared) else None
    return decoder(f, row, block=block, layers=layers)


def glm_moe_dsa(f: ConfigFields, row: Row) -> Block:
    """deepseek_v32, where a layer may attend to what the indexer of the last layer that has one picked."""
    kinds = f.items("layer_types", str, f.integer("num_hidden_layers"))
    if kinds and not set(kinds) <= {"indexed_attention", "deepseek_sparse_attention"}:
        raise f.fail("layer_types", "layers of another attention are not supported; write the model as YAML")
    return deepseek_v32(f, row, shared=_reused(f))


def _reused(f: ConfigFields) -> list[bool]:
    """Whether each layer reuses the keys picked before it: a list, a pattern of letters, or every index_topk_freq-th picks."""
    n = f.integer("num_hidden_layers")
    types = f.items("indexer_types", str, n)
    letters = f.raw("index_topk_pattern")
    if not types and isinstance(letters, str):
        types = [{"F": "full", "S": "shared"}.get(letter, letter) for letter in letters]
    every, first = f.integer("index_topk_freq", null=1), f.integer("index_skip_topk_offset", null=2, least=0)
    types = types or ["shared" if max(i - first + 1, 0) % every else "full" for i in range(n)]
    if len(types) != n or not set(types) <= {"full", "shared"} or types[0] == "shared":
        raise f.fail("indexer_types", f"expected full or shared for each of {n} layers, the first full; fix it")
    return [kind == "shared" for kind in types]


_KINDS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
_SLIDING, _SPARSE, _HEAVY = _KINDS.values()


def deepseek_v4(f: ConfigFields) -> Block:
    """Sinks on every head; one shared expert of a routed one's width."""
    f.expect("attention_bias", (False, None), "no projection of this type has one; fix it")
    f.expect("num_key_value_heads", (1, None), "keys and values are one head; fix it")
    kinds = _v4_kinds(f)
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
    leave_out_predictions(f, "num_nextn_predict_layers", "num_mtp_layers")
    return frame(f, block, moe, layers=_v4_layers(f, kinds, sizes), streams=f.integer("hc_mult"))


def _v4_kinds(f: ConfigFields) -> list[str]:
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


def _v4_layers(f: ConfigFields, kinds: list[str], sizes: dict[str, int]) -> list[Override]:
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
