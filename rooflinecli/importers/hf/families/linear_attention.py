"""Linear attention with full attention on some layers: gated delta rule, Kimi delta attention, lightning attention.

Source: transformers 5.23 models/{qwen3_next,qwen3_5,qwen3_5_moe,olmo_hybrid,kimi_linear,minimax}.
"""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import (
    Block,
    Row,
    attention,
    experts,
    feedforward,
    frame,
    mixture_layers,
    set_only,
    sparse,
)
from rooflinecli.importers.hf.decoder import decoder, period, row_attention
from rooflinecli.importers.hf.hybrid_layers import layer_kinds, placed
from rooflinecli.importers.hf.layer_pattern import merged
from rooflinecli.specs.field_reader import ConfigFields

CHUNK = 64  # tokens of a chunk of the delta rule, in transformers and in flash-linear-attention
BOTH = ("recurrent", "attention")


def _delta(f: ConfigFields) -> Block:
    """Gated DeltaNet: value heads share key heads."""
    heads, keys = f.integer("linear_num_value_heads"), f.integer("linear_num_key_heads")
    if heads % keys:
        raise f.fail("linear_num_key_heads", f"{keys} key heads do not divide {heads} value heads; give a divisor")
    return {
        "kind": "gated-delta",
        "n_heads": heads,
        "n_kv_heads": keys,
        "head_dim": f.integer("linear_key_head_dim"),
        "v_head_dim": f.integer("linear_value_head_dim"),
        "sizes": {"taps": f.integer("linear_conv_kernel_dim"), "chunk": CHUNK},
    }


def gated_delta(f: ConfigFields, row: Row) -> Block:
    """Full attention on every n-th layer, the delta rule elsewhere."""
    n, every = f.integer("num_hidden_layers"), period(f, row["full_every"])
    kinds = layer_kinds(f, ("layer_types",), ["recurrent" if (i + 1) % every else "attention" for i in range(n)], BOTH)
    full = row_attention(f, row["full_attention"], f.integer("hidden_size"))
    return decoder(f, row, layers=placed(kinds, {"recurrent": _delta(f), "attention": full}))


def kimi_linear(f: ConfigFields) -> Block:
    """Kimi delta attention, with latent attention without positions on some layers; attention_bias is on its down-projection and output."""
    n = f.integer("num_hidden_layers")
    f.expect(
        "tie_word_embeddings",
        (False, None),
        "transformers ties nothing here, so the head would be counted or not; give false",
    )
    nested = f.raw("linear_attn_config")
    inner = ConfigFields(nested, {}, f.where, (*f.prefix, "linear_attn_config")) if isinstance(nested, dict) else None
    if inner is not None:  # as on the Hub: layers counted from 1
        full = {i - 1 for i in inner.items("full_attn_layers", int) or []}
        heads, width, taps = (
            inner.integer("num_heads"),
            inner.integer("head_dim"),
            inner.integer("short_conv_kernel_size"),
        )
        default = ["attention" if i in full else "recurrent" for i in range(n)]
    else:
        heads, width, taps = (f.integer(k) for k in ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"))
        default = ["recurrent" if (i + 1) % 4 and i != n - 1 else "attention" for i in range(n)]
    kinds = layer_kinds(f, ("layer_types",), default, BOTH)
    bias = f.flag("attention_bias")
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    latent = {"kind": "mla", "n_heads": f.integer("num_attention_heads"), **{name: f.integer(name) for name in names}}
    latent |= set_only({"q_lora_rank": f.optional("q_lora_rank"), "qkv_bias": bias, "out_bias": bias})
    delta = {"kind": "kimi-delta", "n_heads": heads, "head_dim": width, "sizes": {"taps": taps, "chunk": CHUNK}}
    first = f.integer("first_k_dense_replace", null=1, least=0)
    where = mixture_layers(f, [i >= first for i in range(n)])
    moe = experts(
        f,
        "moe_intermediate_size",
        ("num_experts", "n_routed_experts", "num_local_experts"),
        top_k="num_experts_per_token",
        n_shared=f.integer("num_shared_experts", "n_shared_experts", null=1, least=0),
    )
    base, mixed = sparse(feedforward(f, "gated"), moe, where)
    layers = merged(placed(kinds, {"recurrent": delta, "attention": latent}), mixed)
    return frame(f, None, base, layers=layers, context=f.optional("model_max_length"))


def minimax(f: ConfigFields, row: Row) -> Block:
    """Lightning attention and grouped-query attention; a mixture on every layer. attn_type_list is the older name: 0 linear, 1 full."""
    n, older = f.integer("num_hidden_layers"), f.items("attn_type_list", int)
    default = [BOTH[i] for i in older] if older else ["recurrent" if i % 2 else "attention" for i in range(n)]
    kinds = layer_kinds(f, ("layer_types",), default, BOTH)
    full = attention(f)
    lightning = {
        "kind": "lightning",
        "n_heads": full["n_heads"],
        "head_dim": full["head_dim"],
        "sizes": {"chunk": f.integer("block_size")},
    }
    return decoder(f, row, layers=placed(kinds, {"recurrent": lightning, "attention": full}))
