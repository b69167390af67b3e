"""falcon and cohere2_moe: attention and MLP side by side. Source: transformers 5.23 models/{falcon,cohere2_moe}."""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import Block, attention, experts, feedforward, frame, mixture_layers, sparse
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import ConfigFields


def falcon(f: ConfigFields) -> Block:
    """The 40B architecture has grouped heads and two norms; the 7B one a single key/value head and one norm."""
    width, new = f.integer("hidden_size", "n_embed"), f.flag("new_decoder_architecture")
    heads = f.integer("num_attention_heads", "n_head")
    grouped = f.integer("num_kv_heads", null=heads)
    multi_query, parallel = f.flag("multi_query"), f.flag("parallel_attn")
    kv = grouped if new else 1 if multi_query else heads
    norm_count = f.integer("num_ln_in_parallel_attn", null=2 if new else 1)
    bias, alibi = f.flag("bias"), f.flag("alibi")
    block = attention(f, n_kv=kv, width=width, head_dim=False, qkv_bias=bias, out_bias=bias)
    inner = f.integer("ffn_hidden_size", null=4 * width)
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=inner, bias=bias),
        layers=f.integer("num_hidden_layers", "n_layer"),
        norm="layernorm",
        width=width,
        parallel=parallel,
        norms=1 if parallel and norm_count != 2 else 2,
        positions={"kind": "alibi"} if alibi else None,
    )


def cohere2_moe(f: ConfigFields) -> Block:
    """cohere2 with mixtures after the leading dense layers; a LayerNorm without bias, or an RMSNorm if rms_norm_eps is set."""
    n, bias = f.integer("num_hidden_layers"), f.flag("attention_bias")
    first = f.integer("first_k_dense_replace", null=0, least=0)
    near, every = f.integer("prefix_dense_sliding_window_pattern", null=1), f.integer("sliding_window_pattern", null=4)
    usual = [bool((i + 1) % near) for i in range(min(first, n))] + [bool((i + 1) % every) for i in range(n - first)]
    local = windows(f, usual, f.optional("sliding_window"))
    where = mixture_layers(f, [i >= first for i in range(n)])
    shared = f.integer("num_shared_experts", null=0, least=0)
    moe = experts(f, "intermediate_size", ("num_experts", "num_local_experts"), n_shared=shared)
    inner = f.optional("prefix_dense_intermediate_size")
    if not all(where) and not inner:
        raise f.fail("prefix_dense_intermediate_size", "required where layers are dense; add it")
    base, mixed = sparse(feedforward(f, "gated", d_ff=inner or moe["d_ff"]), moe, where)
    roped = [
        not layer and (where[i] or near != 1) for i, layer in enumerate(local)
    ]  # dense layers in front keep positions
    plain: list[Override] = [{"attention": {"rotary": False}} if here else {} for here in roped]
    norm = "layernorm_nobias" if f.data.get("rms_norm_eps") is None else "rmsnorm"
    block = attention(f, qkv_bias=bias, out_bias=bias)
    return frame(f, block, base, layers=merged(local, plain, mixed), norm=norm, parallel=True, norms=1)
