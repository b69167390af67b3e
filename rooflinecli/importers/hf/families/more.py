"""Further decoders of softmax attention: arcee, ministral, ministral3, seed_oss, smollm3, olmo3, olmoe, exaone4, cohere2, ernie4_5 and its
mixture, hunyuan dense and mixture, nemotron, persimmon, stablelm, gpt_bigcode. Source: transformers 5.23 models of those names."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.layer_pattern import merged, windows
from rooflinecli.specs.field_reader import ConfigFields

Block = dict[str, Any]


def _layers(f: ConfigFields) -> int:
    return f.whole("num_hidden_layers")


def arcee(f: ConfigFields) -> Block:
    """Llama with a plain MLP of squared ReLU."""
    bias = f.flag("attention_bias")
    mlp = feedforward(f, "dense", bias=f.flag("mlp_bias"))
    return frame(f, attention(f, qkv_bias=bias, out_bias=bias), mlp, layers=_layers(f))


def ministral(f: ConfigFields) -> Block:
    """A window on the layers that layer_types names, else on all."""
    local = windows(f, [True] * _layers(f), f.optional("sliding_window"))
    return frame(f, attention(f), feedforward(f, "gated"), layers=local)


def seed_oss(f: ConfigFields) -> Block:
    """attention_bias is on q, k and v, attention_out_bias on the output, mlp_bias on all of the MLP."""
    block = attention(f, qkv_bias=f.flag("attention_bias"), out_bias=f.flag("attention_out_bias"))
    return frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=_layers(f))


def smollm3(f: ConfigFields) -> Block:
    """Some layers without positions, some with a window."""
    n, bias, every = _layers(f), f.flag("attention_bias"), f.whole("no_rope_layer_interval", null=4)
    rope = f.items("no_rope_layers", int, n) or [int((i + 1) % every != 0) for i in range(n)]
    window = f.optional("sliding_window") if f.flag("use_sliding_window") else None
    local = windows(f, [bool(window) and not r for r in rope], window)
    plain = [{} if r else {"attention": {"rotary": False}} for r in rope]
    block = attention(f, qkv_bias=bias, out_bias=bias)
    return frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=merged(local, plain))


def olmo3(f: ConfigFields) -> Block:
    """olmo2 with a window on three layers of four."""
    bias = f.flag("attention_bias")
    local = windows(f, [bool((i + 1) % 4) for i in range(_layers(f))], f.optional("sliding_window"))
    block = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="full")
    return frame(f, block, feedforward(f, "gated"), layers=local)


def olmoe(f: ConfigFields) -> Block:
    """A mixture on every layer; q and k normalized over their full width."""
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="full")
    return frame(f, block, experts(f, "intermediate_size", ("num_experts",)), layers=_layers(f))


def exaone4_windows(f: ConfigFields) -> list[Block]:
    """Full attention on every sliding_window_pattern-th layer."""
    every, n = f.raw("sliding_window_pattern"), _layers(f)
    if isinstance(every, str):  # LLLG: one letter a layer, repeated
        default = [every[i % len(every)] == "L" for i in range(n)]
    else:
        step = f.whole("sliding_window_pattern", null=4)
        default = [bool((i + 1) % step) for i in range(n)]
    return windows(f, default, f.optional("sliding_window"))


def exaone4(f: ConfigFields) -> Block:
    """Norms after the blocks, q and k normalized per head."""
    return frame(f, attention(f, qk_norm="head"), feedforward(f, "gated"), layers=exaone4_windows(f))


def cohere2(f: ConfigFields) -> Block:
    """cohere with a window on three layers of four; the fourth has no positions."""
    n, bias = _layers(f), f.flag("attention_bias")
    every = f.whole("sliding_window_pattern", null=4)
    local = windows(f, [bool((i + 1) % every) for i in range(n)], f.optional("sliding_window"))
    placed = [layer or {"attention": {"rotary": False}} for layer in local]
    block = attention(f, qkv_bias=bias, out_bias=bias)
    mlp = feedforward(f, "gated")
    return frame(f, block, mlp, layers=placed, norm="layernorm_nobias", parallel=True, norms=1)


def ernie(f: ConfigFields) -> Block:
    """use_bias is on every linear layer but the head."""
    bias = f.flag("use_bias")
    return frame(f, attention(f, qkv_bias=bias, out_bias=bias), feedforward(f, "gated", bias=bias), layers=_layers(f))


def ernie_moe(f: ConfigFields) -> Block:
    """Mixtures from one layer to another, at an interval; the router's correction bias is a parameter here."""
    n, bias = _layers(f), f.flag("use_bias")
    first, last = f.whole("moe_layer_start_index", least=0), f.whole("moe_layer_end_index", least=-1)
    every = f.whole("moe_layer_interval")
    last = n - 1 if last < 0 else last
    where = [first <= i <= last and (i + 1) % every == 0 for i in range(n)]
    shared = f.whole("moe_num_shared_experts", null=0, least=0)
    moe = experts(
        f, "moe_intermediate_size", ("moe_num_experts",), "moe_k", n_shared=shared, shared_bias=bias, score_bias=True
    )
    moe |= {"bias": False}
    base, mixed = sparse(feedforward(f, "gated", bias=bias), moe, where)
    block = attention(f, qkv_bias=bias, out_bias=bias)
    return frame(f, block, base, layers=mixed, lm_head_bias=bias)  # the dense ernie4_5 has no bias there


def hunyuan(f: ConfigFields) -> Block:
    """q and k normalized per head."""
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    return frame(f, block, feedforward(f, "gated"), layers=_layers(f))


def hunyuan_moe(f: ConfigFields) -> Block:
    """A shared MLP as wide as an expert beside the experts of every layer. Raises DataError where layers differ."""
    bias = f.flag("attention_bias")
    for name in ("num_experts", "moe_topk"):
        if isinstance(f.raw(name), list):
            raise f.fail(name, "a list by layer is not read; give one number, or write the model as YAML")
    moe = experts(f, "intermediate_size", ("num_experts",), "moe_topk", n_shared=1)
    return frame(f, attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head"), moe, layers=_layers(f))


def nemotron(f: ConfigFields) -> Block:
    """LayerNorm with a bias, a plain MLP of squared ReLU."""
    bias = f.flag("attention_bias")
    mlp = feedforward(f, "dense", bias=f.flag("mlp_bias"))
    heads = f.whole("num_attention_heads")
    block = attention(f, n_kv=f.whole("num_key_value_heads", null=heads), qkv_bias=bias, out_bias=bias)
    return frame(f, block, mlp, layers=_layers(f), norm="layernorm")


def persimmon(f: ConfigFields) -> Block:
    """Biases everywhere; qk_layernorm is a LayerNorm of head_dim with a bias."""
    norm = "head_bias" if f.flag("qk_layernorm") else "none"
    block = attention(f, kv=None, head_dim=False, qkv_bias=True, out_bias=True, qk_norm=norm)
    return frame(f, block, feedforward(f, "dense", bias=True), layers=_layers(f), norm="layernorm")


def stablelm(f: ConfigFields) -> Block:
    """LayerNorm; qk_layernorm has a scale per head and channel; one norm where attention and MLP stand side by side."""
    beside = f.flag("use_parallel_residual")
    norm = "head_layernorm" if f.flag("qk_layernorm") else "none"
    block = attention(f, head_dim=False, qkv_bias=f.flag("use_qkv_bias"), qk_norm=norm)
    return frame(
        f,
        block,
        feedforward(f, "gated"),
        layers=_layers(f),
        norm="layernorm",
        parallel=beside,
        norms=1 if beside else 2,
    )


def gpt_bigcode(f: ConfigFields) -> Block:
    """GPT-2 with one key/value head where multi_query says so."""
    width, heads = f.whole("n_embd", "hidden_size"), f.whole("n_head", "num_attention_heads")
    n_kv = 1 if f.flag("multi_query", True) else heads
    block = attention(f, heads="n_head", n_kv=n_kv, width=width, head_dim=False, qkv_bias=True, out_bias=True)
    inner = f.whole("n_inner", "intermediate_size", null=4 * width)
    length = f.whole("n_positions", "max_position_embeddings")
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=inner, bias=True),
        layers=f.whole("n_layer", "num_hidden_layers"),
        norm="layernorm",
        width=width,
        context=length,
        positions={"kind": "learned", "length": length},
    )
