"""Readers of mixture-of-experts decoders that rows cannot describe. Source: transformers 5.23 models of those names."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.blocks import (
    Block,
    attention,
    experts,
    feedforward,
    frame,
    leave_out_predictions,
    linear,
    mixture_layers,
    sparse,
)
from rooflinecli.importers.hf.families.gpt import nested
from rooflinecli.importers.hf.ignored_fields import NOISE
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import ConfigFields


def dbrx(f: ConfigFields) -> Block:
    """Nested attn_config and ffn_config; LayerNorm without bias."""
    width = f.integer("d_model")
    inner, ffn = nested(f, "attn_config", {"attn_pdrop", "clip_qkv"}), nested(f, "ffn_config", _DBRX)
    kv = inner.integer("kv_n_heads", null=1)
    stated = f.raw("num_key_value_heads")
    if isinstance(stated, int) and "kv_n_heads" in inner.data and stated != kv:
        raise f.fail("num_key_value_heads", f"{stated} disagrees with attn_config.kv_n_heads {kv}; keep one")
    count, chosen = ffn.integer("moe_num_experts", null=4), ffn.integer("moe_top_k", null=1)
    if chosen > count:
        raise ffn.fail("moe_top_k", f"{chosen} exceeds the {count} experts; give at most that many")
    if ffn.integer("hidden_size", null=width) != width:
        raise ffn.fail("hidden_size", f"differs from d_model {width}; give the same")
    moe = {"kind": "moe", "d_ff": ffn.integer("ffn_hidden_size", null=3584), "n_experts": count, "top_k": chosen}
    block = attention(f, heads="n_heads", n_kv=kv, width=width, head_dim=False)
    for part in (inner, ffn):
        part.finish(NOISE)
    return frame(
        f,
        block,
        moe,
        layers=f.integer("n_layers"),
        norm="layernorm_nobias",
        width=width,
        context=f.optional("max_seq_len"),
    )


_DBRX = {"ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights", "uniform_expert_assignment"}


def _gated_heads(
    f: ConfigFields, heads: list[int], local: list[Override], whole: bool = False, **more: Any
) -> list[Override]:
    """Attention with a head count per layer and an output gate per head (per element, where `whole`)."""
    made: list[Override] = []
    for count, seen in zip(heads, local, strict=True):
        g = ConfigFields({**f.data, "num_attention_heads": count}, f.defaults, f.where, f.prefix)
        block = attention(g, **more) | seen.get("attention", {})
        gate = {} if whole else {"pieces": [linear("head_gate", count, bias=False)]}
        made.append({"attention": block | ({"out_gate": True} if whole else {})} | gate)
    f.used |= {"num_attention_heads", "num_key_value_heads", "head_dim"}
    return made


def laguna(f: ConfigFields) -> Block:
    """Head counts per layer, an output gate per head or per element; the router's correction bias is a parameter."""
    n, bias = f.integer("num_hidden_layers"), f.flag("attention_bias")
    heads = f.items("num_attention_heads_per_layer", int, n) or [f.integer("num_attention_heads")] * n
    local = windows(f, [False] * n, f.optional("sliding_window"))
    gating = f.raw("gating")
    f.expect(
        "gating",
        (True, "per-head", "per-element", "per_element"),
        "only gates per head or per element are supported; write the model as YAML",
    )
    layers = _gated_heads(
        f, heads, local, gating not in (True, "per-head"), qkv_bias=bias, out_bias=bias, qk_norm="head"
    )
    where = mixture_layers(f, [i > 0 for i in range(n)])
    shared = f.integer("shared_expert_intermediate_size")
    moe = experts(
        f,
        "moe_intermediate_size",
        ("num_experts", "num_local_experts"),
        n_shared=1,
        shared_d_ff=shared,
        score_bias=True,
    )
    base, mixed = sparse(moe if all(where) else feedforward(f, "gated"), moe, where)
    return frame(f, None, base, layers=merged_blocks(layers, mixed))


def merged_blocks(*parts: list[Override]) -> list[Override]:
    """Overrides of the same layers as one, each key of one of them alone."""
    return [{key: value for part in layer for key, value in part.items()} for layer in zip(*parts, strict=True)]


def step3(f: ConfigFields) -> Block:
    """Sliding-window layers have another head count; an output gate per head."""
    n = f.integer("num_hidden_layers")
    extra = f.integer("num_nextn_predict_layers", null=0, least=0)
    data = dict(f.data)
    for name in ("layer_types", "mlp_layer_types"):
        if extra and isinstance(data.get(name), list) and len(data[name]) == n + extra:
            data[name] = data[name][:n]
    g = ConfigFields(data, f.defaults, f.where, f.prefix, f.used, f.assumed)
    f.expect("attention_bias", (False, None), "the class builds no biases; fix it")
    f.expect("mlp_bias", (False, None), "the class builds no biases; fix it")
    other = f.raw("attention_other_setting")
    own = other.get("num_attention_heads") if isinstance(other, dict) else None
    count = f.integer("num_attention_heads")
    near = f.integer("num_sliding_attention_heads", null=own if isinstance(own, int) else count)
    local = windows(g, [False] * n, f.optional("sliding_window"))
    kinds = g.items("layer_types", str, n) or ["full_attention"] * n
    heads = [near if kind == "sliding_attention" else count for kind in kinds]
    layers = _gated_heads(f, heads, local, qk_norm="head")
    first = f.integer("first_k_dense_replace", null=3, least=0)
    listed = f.raw("moe_layers_enum")
    named = {int(i) for i in listed.split(",") if i.strip().isdigit()} if isinstance(listed, str) else None
    where = mixture_layers(g, [i in named if named is not None else i >= first for i in range(n)])
    f.optional("n_shared_experts")
    moe = experts(
        f,
        "moe_intermediate_size",
        ("n_routed_experts", "num_experts", "moe_num_experts"),
        "num_experts_per_tok",
        n_shared=1,
        shared_d_ff=f.integer("share_expert_dim"),
    )
    base, mixed = sparse(moe if all(where) else feedforward(f, "gated"), moe, where)
    leave_out_predictions(f, "num_nextn_predict_layers")
    f.used |= {"mtp_layer_types", "mtp_mlp_layer_types"}
    return frame(f, None, base, layers=merged_blocks(layers, mixed))


def mimo_v2(f: ConfigFields) -> Block:
    """Values narrower than keys; layers with a window have twice the key/value heads and a sink per head."""
    n, bias = f.integer("num_hidden_layers"), f.flag("attention_bias")
    size = f.optional("sliding_window_size")  # as on the Hub: tokens before the query
    window = size + 1 if size else f.optional("sliding_window")
    f.used.add("sliding_window")
    usual = [i != 0 and bool((i + 1) % 6) for i in range(n)]
    places = windows(f, _switched(f, "hybrid_layer_pattern", n) or usual, window)
    heads = attention(f, qkv_bias=bias)
    v_dim, keys = f.integer("v_head_dim"), 1 if heads["kind"] == "mqa" else heads["n_heads"]
    keys = heads["n_kv_heads"] if heads["kind"] == "gqa" else keys
    if heads["n_heads"] % (2 * keys):
        raise f.fail("num_key_value_heads", f"twice {keys} do not divide {heads['n_heads']} heads; give a divisor")
    _same_in_windows(f, heads["n_heads"], 2 * keys, heads["head_dim"], v_dim)
    block = heads | {"kind": "asymmetric-gqa", "n_kv_heads": keys, "v_head_dim": v_dim}
    twice: list[Override] = [{"attention": {"n_kv_heads": 2 * keys, "sinks": True}} if here else {} for here in places]
    moe = experts(f, "moe_intermediate_size", ("n_routed_experts", "num_local_experts"))
    where = mixture_layers(f, _switched(f, "moe_layer_freq", n) or [i > 0 for i in range(n)])
    base, mixed = sparse(feedforward(f, "gated"), moe, where)
    return frame(f, block, base, layers=merged(places, twice, mixed))


def _switched(f: ConfigFields, name: str, n: int) -> list[bool] | None:
    """A list of 0 and 1, one a layer, as files on the Hub write it."""
    listed = f.items(name, int, n)
    return [bool(switch) for switch in listed] if listed else None


def _same_in_windows(f: ConfigFields, heads: int, keys: int, width: int, v_dim: int) -> None:
    """Check that the Hub's fields of sliding-window layers agree with the class. Raises DataError."""
    of = {"num_attention_heads": heads, "num_key_value_heads": keys, "head_dim": width, "v_head_dim": v_dim}
    for name, made in of.items():
        f.expect(f"swa_{name}", (made, None), f"the class has {made}; fix it")
    f.expect("add_swa_attention_sink_bias", (True, None), "the class has a sink on layers with a window; fix it")
    f.expect("add_full_attention_sink_bias", (False, None), "the class has no sink on other layers; fix it")
