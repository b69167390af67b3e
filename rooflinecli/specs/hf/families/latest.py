"""Decoders with a part of their own beside the usual: mistral4, axk1, longcat_flash, flint, kolibri1, laguna, step3p5, lfm3, doge,
diffllama, gpt_neox_japanese, ctrl, modernbert-decoder. Source: transformers 5.23 models of those names."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.specs.hf.decoder import attention, experts, feedforward, frame, set_only, sparse
from rooflinecli.specs.hf.families import deepseek
from rooflinecli.specs.hf.families.hybrid import placed
from rooflinecli.specs.hf.families.latest_defaults import DEFAULTS, IGNORED
from rooflinecli.specs.hf.fields import Family, Fields
from rooflinecli.specs.hf.stack import Override, merged, windows
from rooflinecli.specs.hf.towers import Block, linear, norm, values


def _layers(f: Fields) -> int:
    return f.whole("num_hidden_layers")


def _where(f: Fields, default: list[bool]) -> list[bool]:
    """Which layers are mixtures: as mlp_layer_types lists them, else `default`."""
    listed = f.items("mlp_layer_types", str, len(default))
    return [kind == "sparse" for kind in listed] if listed else default


def _keys(block: Block) -> int:
    """Key/value heads of an attention block."""
    return int(block.get("n_kv_heads") or (1 if block["kind"] == "mqa" else block["n_heads"]))


def axk1(f: Fields) -> Block:
    """DeepSeek-V3 with a norm behind each mixture."""
    n, first = _layers(f), f.whole("first_k_dense_replace", null=1, least=0)
    f.expect(
        "moe_layer_freq",
        (1, None),
        "only a mixture on every layer after the dense ones is known; write the model as YAML",
    )
    where = _where(f, [i >= first for i in range(n)])
    shared = f.whole("n_shared_experts", null=0, least=0)
    moe = experts(f, "moe_intermediate_size", ("n_routed_experts", "num_local_experts"), n_shared=shared)
    f.optional("intermediate_size")  # of dense layers, which may not be there
    dense = moe if all(where) else feedforward(f, "gated")
    extra = f.whole("num_nextn_predict_layers", null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    mixed: list[Override] = [{"feedforward": moe, "norms": 3} if here else {} for here in where]
    return frame(f, deepseek.latent(f), dense, layers=mixed)


def longcat(f: Fields) -> Block:
    """Two latent attentions and two MLPs a layer, and one mixture beside the second half; some experts compute nothing."""
    n, width, bias = f.whole("num_layers", "num_hidden_layers"), f.whole("hidden_size"), f.flag("router_bias")
    zero, real = f.whole("zero_expert_num", null=0, least=0), f.whole("n_routed_experts", "num_local_experts")
    chosen = f.whole("moe_topk", "num_experts_per_tok")
    if chosen > real + zero:
        raise f.fail("moe_topk", f"{chosen} exceeds the {real + zero} experts; give at most that many")
    inner, dense = (
        f.whole("expert_ffn_hidden_size", "moe_intermediate_size"),
        f.whole("ffn_hidden_size", "intermediate_size"),
    )
    met = max(round(chosen * real / (real + zero)), 1)
    mlp = feedforward(f, "gated", d_ff=dense)
    moe = mlp | {"kind": "moe", "d_ff": inner, "n_experts": real, "top_k": met, "n_shared": 1, "shared_d_ff": dense}
    moe |= {"router_bias": True} if bias else {}
    pieces = (
        [linear("zero_router", zero, bias=bias), values("zero_experts", zero, width=2 * inner * width)] if zero else []
    )
    if zero:
        f.notes.append(
            f"{zero} of {real + zero} experts compute nothing: of the {chosen} that a token is sent to, {met} are counted, as an even router has it."
        )
    f.optional("num_key_value_heads")
    both = f.whole("qk_nope_head_dim") + f.whole("qk_rope_head_dim")
    f.expect("qk_head_dim", (both, None), f"qk_nope_head_dim and qk_rope_head_dim come to {both}; make them agree")
    pair: list[Override] = [{"feedforward": moe} | ({"pieces": pieces} if pieces else {}), {}]
    return frame(f, deepseek.latent(f), mlp, layers=pair * n)


def _mixture(
    f: Fields, block: Block, local: list[Override], where: list[bool], count: tuple[str, ...], **more: Any
) -> Block:
    """Experts of moe_intermediate_size with a shared one of its own width."""
    moe = experts(
        f,
        "moe_intermediate_size",
        count,
        n_shared=1,
        shared_d_ff=f.whole("shared_expert_intermediate_size", "share_expert_dim"),
        **more,
    )
    base, mixed = sparse(moe if all(where) else feedforward(f, "gated"), moe, where)
    return frame(f, block, base, layers=merged(local, mixed))


def flint(f: Fields) -> Block:
    """qwen3_moe with a sink per head, a shared expert, and a window on most layers."""
    n, only = _layers(f), f.items("mlp_only_layers", int)
    step = f.whole("decoder_sparse_step")
    where = [i not in ([0, 1] if only is None else only) and (i + 1) % step == 0 for i in range(n)]
    local = windows(f, [not (i < 2 or i % 4 == 1 or i == n - 1) for i in range(n)], f.optional("sliding_window"))
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head", sinks=True)
    return _mixture(f, block, local, where, ("num_experts", "num_local_experts"))


def kolibri(f: Fields) -> Block:
    """A mixture on every layer, four norms, a window on four layers of five."""
    n = _layers(f)
    local = windows(f, [(i + 1) % 5 != 0 for i in range(n)], f.optional("sliding_window"))
    made = _mixture(f, attention(f, qk_norm="head"), local, [True] * n, ("num_local_experts", "num_experts"))
    return made | {"norms": 4}


def _gated_heads(
    f: Fields, heads: list[int], local: list[Override], whole: bool = False, **more: Any
) -> list[Override]:
    """Attention of each layer's own heads with a gate for each head (or as wide as all, where `whole`)."""
    made: list[Override] = []
    for count, seen in zip(heads, local, strict=True):
        g = Fields({**f.data, "num_attention_heads": count}, f.defaults, f.where, f.prefix)
        block = attention(g, **more) | seen.get("attention", {})
        gate = {} if whole else {"pieces": [linear("head_gate", count, bias=False)]}
        made.append({"attention": block | ({"out_gate": True} if whole else {})} | gate)
    f.used |= {"num_attention_heads", "num_key_value_heads", "head_dim"}
    return made


def laguna(f: Fields) -> Block:
    """Head counts by layer, a gate of the output for each head or as wide as all of them; the router's correction is a parameter."""
    n, bias = _layers(f), f.flag("attention_bias")
    heads = f.items("num_attention_heads_per_layer", int, n) or [f.whole("num_attention_heads")] * n
    local = windows(f, [False] * n, f.optional("sliding_window"))
    gating = f.raw("gating")
    f.expect(
        "gating",
        (True, "per-head", "per-element", "per_element"),
        "only gates per head or per element are read; write the model as YAML",
    )
    layers = _gated_heads(
        f, heads, local, gating not in (True, "per-head"), qkv_bias=bias, out_bias=bias, qk_norm="head"
    )
    where = _where(f, [i > 0 for i in range(n)])
    shared = f.whole("shared_expert_intermediate_size")
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


def step3(f: Fields) -> Block:
    """Layers with a window have a head count of their own; a gate for each head."""
    n = _layers(f)
    extra = f.whole("num_nextn_predict_layers", null=0, least=0)
    data = dict(f.data)
    for name in ("layer_types", "mlp_layer_types"):
        if extra and isinstance(data.get(name), list) and len(data[name]) == n + extra:
            data[name] = data[name][:n]
    g = Fields(data, f.defaults, f.where, f.prefix, f.used, f.assumed)
    f.expect("attention_bias", (False, None), "the class builds no biases; mend it")
    f.expect("mlp_bias", (False, None), "the class builds no biases; mend it")
    other = f.raw("attention_other_setting")
    own = other.get("num_attention_heads") if isinstance(other, dict) else None
    count = f.whole("num_attention_heads")
    near = f.whole("num_sliding_attention_heads", null=own if isinstance(own, int) else count)
    local = windows(g, [False] * n, f.optional("sliding_window"))
    kinds = g.items("layer_types", str, n) or ["full_attention"] * n
    heads = [near if kind == "sliding_attention" else count for kind in kinds]
    layers = _gated_heads(f, heads, local, qk_norm="head")
    first = f.whole("first_k_dense_replace", null=3, least=0)
    listed = f.raw("moe_layers_enum")
    named = {int(i) for i in listed.split(",") if i.strip().isdigit()} if isinstance(listed, str) else None
    where = _where(g, [i in named if named is not None else i >= first for i in range(n)])
    f.optional("n_shared_experts")
    moe = experts(
        f,
        "moe_intermediate_size",
        ("n_routed_experts", "num_experts", "moe_num_experts"),
        "num_experts_per_tok",
        n_shared=1,
        shared_d_ff=f.whole("share_expert_dim"),
    )
    base, mixed = sparse(moe if all(where) else feedforward(f, "gated"), moe, where)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    f.used |= {"mtp_layer_types", "mtp_mlp_layer_types"}
    return frame(f, None, base, layers=merged_blocks(layers, mixed))


def lfm3(f: Fields) -> Block:
    """Short convolutions, attention over all, and over a window, with a gate for each head; norms behind the blocks too."""
    n, d, bias = _layers(f), f.whole("hidden_size"), f.flag("attention_bias")
    kinds = f.items("layer_types", str, n) or [
        "full_attention" if i % 4 == 2 else "sliding_attention" if i % 4 == 0 and i > 0 else "conv" for i in range(n)
    ]
    conv: Block = {"kind": "short-conv", "n_heads": d, "head_dim": 1, "sizes": {"taps": f.whole("conv_L_cache")}}
    conv |= {"conv_bias": True} if f.flag("conv_bias") else {}
    heads = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    blocks = {
        "conv": conv,
        "full_attention": heads,
        "sliding_attention": heads | set_only({"window": f.optional("sliding_window")}),
    }
    unknown = set(kinds) - set(blocks)
    if unknown:
        raise f.fail("layer_types", f"'{unknown.pop()}' is not a layer this importer knows; known: {', '.join(blocks)}")
    layers = placed(kinds, blocks)
    if f.flag("use_attention_gate", True):
        gate = linear("head_gate", heads["n_heads"], bias=False)
        layers = [
            layer | ({"pieces": [gate]} if kind != "conv" else {}) for layer, kind in zip(layers, kinds, strict=True)
        ]
    norms = {"norms": 4} if f.flag("use_sandwich_norm", True) else {}
    return frame(f, None, feedforward(f, "gated"), layers=layers) | norms


def doge(f: Fields) -> Block:
    """A learned scale of each residual, a mask made of the values; where is_moe says so, experts of one vector each."""
    bias, d = f.flag("attention_bias"), f.whole("hidden_size")
    heads = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    keys = _keys(heads)
    mask = linear("mask", keys, input=keys * heads["head_dim"], bias=bias)
    pieces = [{"kind": "scale", "name": "residual", "rows": 2}, mask, values("mask_scale", width=keys)]
    n, chosen = f.whole("num_experts"), f.whole("num_experts_per_tok")
    if f.flag("is_moe"):
        pieces += [linear("retrieval", 2 * math.isqrt(n), bias=False), values("expert_vectors", 2 * n)]
        f.notes.append(
            f"Experts are vectors: a token meets {chosen} of {n}, whose products are not counted among the FLOPs."
        )
    mlp = feedforward(f, "gated", bias=f.flag("mlp_bias"))
    local = windows(f, [True] * _layers(f), f.optional("sliding_window"))
    return frame(f, heads, mlp, layers=local, pieces=pieces, width=d)


def diffllama(f: Fields) -> Block:
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias)
    keys = _keys(block)
    if keys % 2:
        raise f.fail("num_key_value_heads", f"{keys} heads have no two halves; give an even count")
    return frame(f, block | {"kind": "differential", "n_kv_heads": keys}, feedforward(f, "gated"), layers=_layers(f))


def neox_japanese(f: Fields) -> Block:
    """GPT-NeoX without biases, but for the output of the last layer's attention."""
    n, d = _layers(f), f.whole("hidden_size")
    last: list[Override] = [*({} for _ in range(n - 1)), {"pieces": [values("out_bias")]}]
    mlp = feedforward(f, "dense", d_ff=d * f.whole("intermediate_multiple_size"))
    return frame(f, attention(f, kv=None, head_dim=False), mlp, layers=last, norm="layernorm")


def ctrl(f: Fields) -> Block:
    """Sines for positions, a head with a bias."""
    n, d = f.whole("n_layer", "num_hidden_layers"), f.whole("n_embd", "hidden_size")
    block = attention(f, heads="n_head", kv=None, width=d, head_dim=False, qkv_bias=True, out_bias=True)
    mlp = feedforward(f, "dense", d_ff=f.whole("dff"), bias=True)
    context = f.optional("n_positions", "max_position_embeddings")
    return frame(
        f,
        block,
        mlp,
        layers=n,
        norm="layernorm",
        width=d,
        context=context,
        lm_head_bias=True,
        positions={"kind": "sinusoidal"},
    )


def modernbert_decoder(f: Fields) -> Block:
    """ModernBERT that writes: two of three layers see a window; a matrix and a norm before the head."""
    n, bias, width = _layers(f), f.flag("attention_bias"), f.whole("hidden_size")
    every = f.whole("global_attn_every_n_layers", null=3)
    half = f.whole("local_attention", null=0, least=0) // 2
    f.used.add("sliding_window")  # half of local_attention, whatever is written
    local = windows(f, [i % every != 0 for i in range(n)], half or None)
    local[0] = {**local[0], "norms": 1}
    kind = "layernorm" if f.flag("norm_bias") else "layernorm_nobias"
    block = attention(f, kv=None, head_dim=False, qkv_bias=bias, out_bias=bias)
    after = [linear("head_dense", width, bias=f.flag("classifier_bias")), norm("head_norm", kind)]
    built = frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=local, norm=kind)
    return built | {"embedding_norm": True, "after": after} | set_only({"lm_head_bias": f.flag("decoder_bias")})


_READERS = {
    "mistral4": deepseek.deepseek,
    "axk1": axk1,
    "longcat_flash": longcat,
    "flint": flint,
    "kolibri1": kolibri,
    "laguna": laguna,
    "step3p5": step3,
    "lfm3": lfm3,
    "doge": doge,
    "diffllama": diffllama,
    "gpt_neox_japanese": neox_japanese,
    "ctrl": ctrl,
    "modernbert-decoder": modernbert_decoder,
}
FAMILIES = {name: Family(read, DEFAULTS[name], IGNORED.get(name, frozenset())) for name, read in _READERS.items()}
