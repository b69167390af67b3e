"""Decoders of softmax attention that need a line or two beside the usual: apertus, bitnet, dbrx, mpt, olmo, phimoe and others.

Source: transformers 5.23 models of those names.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.families import deepseek, gemma, gpt, more
from rooflinecli.importers.hf.families.hybrid_ssm import placed
from rooflinecli.importers.hf.families.linear_attention import delta
from rooflinecli.importers.hf.hybrid_layers import layer_kinds
from rooflinecli.importers.hf.ignored_fields import NOISE
from rooflinecli.importers.hf.layer_pattern import merged, windows
from rooflinecli.specs.field_reader import ConfigFields

Block = dict[str, Any]


def _layers(f: ConfigFields) -> int:
    return f.whole("num_hidden_layers")


def _attention(f: ConfigFields, **more: Any) -> Block:
    """attention_bias on q, k, v and o."""
    bias = f.flag("attention_bias")
    return attention(f, qkv_bias=bias, out_bias=bias, **more)


def _windows(f: ConfigFields, every: int, first: bool = False) -> list[Block]:
    """A window on all layers but every n-th; on all but the first of n where `first`."""
    full = 0 if first else every - 1
    return windows(f, [i % every != full for i in range(_layers(f))], f.optional("sliding_window"))


def _sparse(f: ConfigFields, moe: Block, dense_first: int, bias: bool = False) -> tuple[Block, list[Block]]:
    """Mixtures where mlp_layer_types says so, else behind the leading dense layers."""
    n = _layers(f)
    listed = f.items("mlp_layer_types", str, n)
    f.expect(
        "moe_layer_freq",
        (1, None),
        "only a mixture on every layer after the dense ones is known; write the model as YAML",
    )
    extra = f.whole("num_nextn_predict_layers", "num_mtp_layers", null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    where = [kind == "sparse" for kind in listed] if listed else [i >= dense_first for i in range(n)]
    moe = moe | {"bias": False} if bias else moe
    f.optional("intermediate_size")  # of dense layers, which may not be there
    return sparse(moe if all(where) else feedforward(f, "gated", bias=bias), moe, where)


def apertus(f: ConfigFields) -> Block:
    """q and k normalized per head; a plain MLP whose activation (xIELU) has two learned scalars."""
    mlp = feedforward(f, "dense") | {"scalars": 2}
    return frame(f, _attention(f, qk_norm="head"), mlp, layers=_layers(f))


def bitnet(f: ConfigFields) -> Block:
    """llama with a norm before the output projection and one before the down projection."""
    return frame(f, _attention(f, out_norm=True), feedforward(f, "gated") | {"inner_norm": True}, layers=_layers(f))


def dbrx(f: ConfigFields) -> Block:
    """Attention and experts in blocks of their own; LayerNorm without bias."""
    width = f.whole("d_model")
    inner, ffn = _nested(f, "attn_config", {"attn_pdrop", "clip_qkv"}), _nested(f, "ffn_config", _DBRX)
    kv = inner.whole("kv_n_heads", null=1)
    said = f.raw("num_key_value_heads")
    if isinstance(said, int) and "kv_n_heads" in inner.data and said != kv:
        raise f.fail("num_key_value_heads", f"{said} disagrees with attn_config.kv_n_heads {kv}; keep one")
    count, chosen = ffn.whole("moe_num_experts", null=4), ffn.whole("moe_top_k", null=1)
    if chosen > count:
        raise ffn.fail("moe_top_k", f"{chosen} exceeds the {count} experts; give at most that many")
    if ffn.whole("hidden_size", null=width) != width:
        raise ffn.fail("hidden_size", f"differs from d_model {width}; give the same")
    moe = {"kind": "moe", "d_ff": ffn.whole("ffn_hidden_size", null=3584), "n_experts": count, "top_k": chosen}
    block = attention(f, heads="n_heads", n_kv=kv, width=width, head_dim=False)
    for nested in (inner, ffn):
        nested.finish(NOISE)
    return frame(
        f,
        block,
        moe,
        layers=f.whole("n_layers"),
        norm="layernorm_nobias",
        width=width,
        context=f.optional("max_seq_len"),
    )


_DBRX = {"ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights", "uniform_expert_assignment"}


def _nested(f: ConfigFields, name: str, ignored: set[str]) -> ConfigFields:
    """A block inside the config, with what changes no shape in it marked as read."""
    data = f.raw(name)
    if not isinstance(data, dict):
        data = {}
    inner = ConfigFields(data, {}, f.where, (*f.prefix, name))
    inner.used |= ignored | {"is_encoder_decoder", "add_cross_attention"}
    return inner


def mpt(f: ConfigFields) -> Block:
    """ALiBi, LayerNorm without bias, no bias anywhere, a feed-forward of four times the width always."""
    width, inner = f.whole("d_model"), _nested(f, "attn_config", _MPT)
    inner.expect(
        "attn_type", ("multihead_attention",), "transformers builds multihead_attention; write the model as YAML"
    )
    inner.expect("qk_ln", (False,), "transformers builds no norm of q and k here; write the model as YAML")
    inner.expect(
        "kv_n_heads", (None, f.whole("n_heads")), "transformers builds as many keys as heads; write the model as YAML"
    )
    ratio = f.whole("expansion_ratio", null=4)
    if ratio != 4:
        f.notes.append(
            f"expansion_ratio {ratio} is not used: transformers builds a feed-forward of 4 x d_model whatever it says."
        )
    f.expect("no_bias", (True,), "transformers builds no biases; write the model as YAML")
    inner.finish(NOISE)
    return frame(
        f,
        attention(f, heads="n_heads", kv=None, width=width, head_dim=False),
        feedforward(f, "dense", d_ff=4 * width),
        layers=f.whole("n_layers"),
        norm="layernorm_nobias",
        width=width,
        context=f.optional("max_seq_len"),
        positions={"kind": "alibi"},
    )


_MPT = {
    "attn_impl",
    "alibi",
    "alibi_bias_max",
    "attn_pdrop",
    "clip_qkv",
    "prefix_lm",
    "softmax_scale",
    "attn_uses_sequence_id",
}


def olmo(f: ConfigFields) -> Block:
    """Norms without parameters."""
    return frame(f, _attention(f), feedforward(f, "gated"), layers=_layers(f), norm="none")


def nanochat(f: ConfigFields) -> Block:
    """A plain MLP; norms, those of q and k too, without parameters."""
    return frame(f, _attention(f), feedforward(f, "dense"), layers=_layers(f), norm="none")


def helium(f: ConfigFields) -> Block:
    """attention_bias is on q, k and v only."""
    block = attention(f, qkv_bias=f.flag("attention_bias"))
    if block["n_heads"] * block["head_dim"] != f.whole("hidden_size"):
        raise f.fail(
            "head_dim",
            "times the heads is not the hidden size, which its output projection is built for; make them agree",
        )
    return frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=_layers(f))


def jais2(f: ConfigFields) -> Block:
    """LayerNorm with a bias, a plain MLP."""
    mlp = feedforward(f, "dense", bias=f.flag("mlp_bias"))
    return frame(f, _attention(f), mlp, layers=_layers(f), norm="layernorm")


def cwm(f: ConfigFields) -> Block:
    """llama with a window on three layers of four, the first one full."""
    return frame(f, attention(f), feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=_windows(f, 4, first=True))


def vaultgemma(f: ConfigFields) -> Block:
    """gemma2 with two norms a layer."""
    return gemma.gemma2(f) | {"norms": 2}


def latent(f: ConfigFields) -> Block:
    """Latent attention and a dense MLP (MiniCPM3, Youtu)."""
    return frame(f, deepseek.latent(f), feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=_layers(f))


def phimoe(f: ConfigFields) -> Block:
    """LayerNorm with a bias; the head has one where lm_head_bias says so. Its router picks two."""
    f.expect("num_experts_per_tok", (2,), "its router always picks two; give 2")
    moe = experts(f, "intermediate_size", ("num_local_experts", "num_experts"))
    block = _attention(f, window=f.optional("sliding_window"))
    return frame(f, block, moe, layers=_layers(f), norm="layernorm", lm_head_bias=f.flag("lm_head_bias"))


def granitemoe(f: ConfigFields) -> Block:
    """A mixture on every layer; a shared expert of its own width where the config gives one."""
    shared = f.optional("shared_intermediate_size")
    more: Block = {"n_shared": 1, "shared_d_ff": shared} if shared else {}
    moe = experts(f, "intermediate_size", ("num_local_experts", "num_experts"), **more)
    return frame(f, _attention(f), moe, layers=_layers(f))


def flex_olmo(f: ConfigFields) -> Block:
    """olmo2 with a mixture on every layer."""
    moe = experts(f, "intermediate_size", ("num_experts", "num_local_experts"))
    return frame(f, _attention(f, qk_norm="full"), moe, layers=_layers(f))


def dots1(f: ConfigFields) -> Block:
    """q and k normalized per head; leading dense layers; a window from layer max_window_layers on."""
    n = _layers(f)
    start = f.whole("max_window_layers", null=n, least=0)
    local = windows(f, [i >= start for i in range(n)], f.optional("sliding_window"))
    moe = experts(
        f, "moe_intermediate_size", ("n_routed_experts",), n_shared=f.whole("n_shared_experts", null=0, least=0)
    )
    base, mixed = _sparse(f, moe, f.whole("first_k_dense_replace", null=0, least=0))
    return frame(f, _attention(f, qk_norm="head"), base, layers=merged(local, mixed))


def exaone_moe(f: ConfigFields) -> Block:
    """exaone4 with mixtures behind the leading dense layers."""
    plain = more.exaone4_windows(f)
    shared = f.whole("num_shared_experts", null=0, least=0)
    moe = experts(f, "moe_intermediate_size", ("num_experts", "num_local_experts"), n_shared=shared)
    base, mixed = _sparse(f, moe, f.whole("first_k_dense_replace", null=1, least=0))
    return frame(f, attention(f, qk_norm="head"), base, layers=merged(plain, mixed))


def hy_v3(f: ConfigFields) -> Block:
    """q and k normalized per head; mlp_bias on the dense layers and the shared expert."""
    bias = f.flag("mlp_bias")
    shared = f.whole("num_shared_experts", null=0, least=0)
    moe = experts(f, "moe_intermediate_size", ("num_experts", "num_local_experts"), n_shared=shared, shared_bias=bias)
    base, mixed = _sparse(f, moe, f.whole("first_k_dense_replace", null=1, least=0), bias=bias)
    return frame(f, _attention(f, qk_norm="head"), base, layers=mixed)


def solar_open(f: ConfigFields) -> Block:
    """A mixture with a shared expert on every layer; attention_bias is on q, k and v only."""
    moe = experts(
        f, "moe_intermediate_size", ("n_routed_experts",), n_shared=f.whole("n_shared_experts", null=0, least=0)
    )
    return frame(f, attention(f, qkv_bias=f.flag("attention_bias")), moe, layers=_layers(f))


def mellum(f: ConfigFields) -> Block:
    """q and k normalized per head; mixtures and windows where the config lists them."""
    moe = experts(f, "moe_intermediate_size", ("num_local_experts", "num_experts"))
    base, mixed = _sparse(f, moe, 0)
    local = windows(f, [False] * _layers(f), f.optional("sliding_window"))
    return frame(f, _attention(f, qk_norm="head"), base, layers=merged(local, mixed))


def afmoe(f: ConfigFields) -> Block:
    """A gate as wide as q on the output, four norms, and the router's correction bias as a parameter."""
    f.expect("attention_bias", (False,), "a bias beside a gate that has none is not read; write the model as YAML")
    shared = f.whole("num_shared_experts", null=0, least=0)
    moe = experts(f, "moe_intermediate_size", ("num_experts", "num_local_experts"), n_shared=shared, score_bias=True)
    base, mixed = _sparse(f, moe, f.whole("num_dense_layers", null=0, least=0))
    local = _windows(f, f.whole("global_attn_every_n_layers"))
    block = attention(f, qk_norm="head", out_gate=True)
    return frame(f, block, base, layers=merged(local, mixed), norms=4)


def glm_moe_dsa(f: ConfigFields) -> Block:
    """deepseek_v32, where a layer may attend to what the indexer of the last layer that has one picked."""
    kinds = f.items("layer_types", str, _layers(f))
    if kinds and not set(kinds) <= {"indexed_attention", "deepseek_sparse_attention"}:
        raise f.fail("layer_types", "layers of other attention are not read; write the model as YAML")
    return deepseek.deepseek_v32(f, shared=_reused(f))


def _reused(f: ConfigFields) -> list[bool]:
    """Whether each layer reuses the keys picked before it: a list, a pattern of letters, or every index_topk_freq-th picks."""
    n = _layers(f)
    said = f.items("indexer_types", str, n)
    letters = f.raw("index_topk_pattern")
    if not said and isinstance(letters, str):
        said = [{"F": "full", "S": "shared"}.get(letter, letter) for letter in letters]
    every, first = f.whole("index_topk_freq", null=1), f.whole("index_skip_topk_offset", null=2, least=0)
    said = said or ["shared" if max(i - first + 1, 0) % every else "full" for i in range(n)]
    if len(said) != n or not set(said) <= {"full", "shared"} or said[0] == "shared":
        raise f.fail("indexer_types", f"expected full or shared for each of {n} layers, the first full; mend it")
    return [kind == "shared" for kind in said]


def olmo_hybrid(f: ConfigFields) -> Block:
    """Gated DeltaNet with full attention on every fourth layer, whose q and k are normalized over their full width."""
    n = _layers(f)
    default = ["recurrent" if (i + 1) % 4 else "attention" for i in range(n)]
    kinds = layer_kinds(f, ("layer_types",), default, ("recurrent", "attention"))
    layers = placed(kinds, {"recurrent": delta(f), "attention": _attention(f, qk_norm="full")})
    return frame(f, None, feedforward(f, "gated"), layers=layers)


def gpt_neo(f: ConfigFields) -> Block:
    """GPT-2 without a bias on q, k and v; a window on the layers that attention_types calls local."""
    width, n = f.whole("hidden_size"), f.whole("num_layers", "num_hidden_layers")
    kinds: list[str] = []
    pattern = f.items("attention_types", list) or [[["global", "local"], n // 2]]
    for entry in pattern:
        if len(entry) != 2 or not isinstance(entry[0], list) or not isinstance(entry[1], int):
            raise f.fail("attention_types", "expected pairs of a list of kinds and how often; mend it")
        kinds += entry[0] * entry[1]
    if len(kinds) != n or not set(kinds) <= {"global", "local"}:
        raise f.fail("attention_types", f"gives {len(kinds)} layers of global or local for {n}; mend it")
    window, rows = f.whole("window_size"), f.whole("max_position_embeddings")
    block = attention(f, heads="num_heads", kv=None, width=width, head_dim=False, out_bias=True)
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=f.whole("intermediate_size", null=4 * width), bias=True),
        layers=[{"attention": {"window": window}} if kind == "local" else {} for kind in kinds],
        norm="layernorm",
        width=width,
        positions={"kind": "learned", "length": rows},
    )


def xglm(f: ConfigFields) -> Block:
    """Sinusoidal positions, biases everywhere."""
    width = f.whole("d_model", "hidden_size")
    block = attention(f, heads="attention_heads", kv=None, width=width, head_dim=False, qkv_bias=True, out_bias=True)
    return frame(
        f,
        block,
        feedforward(f, "dense", "ffn_dim", bias=True),
        layers=f.whole("num_layers", "num_hidden_layers"),
        norm="layernorm",
        width=width,
        positions={"kind": "sinusoidal"},
    )


def openai_gpt(f: ConfigFields) -> Block:
    """GPT-1: GPT-2 without the final norm, a feed-forward of four times the width."""
    return gpt.gpt2(f) | {"final_norm": False}


def biogpt(f: ConfigFields) -> Block:
    """Learned positions with two rows more, biases everywhere."""
    rows = f.whole("max_position_embeddings")
    block = attention(f, kv=None, head_dim=False, qkv_bias=True, out_bias=True)
    positions = {"kind": "learned", "length": rows + 2}
    mlp = feedforward(f, "dense", bias=True)
    return frame(f, block, mlp, layers=_layers(f), norm="layernorm", positions=positions)
