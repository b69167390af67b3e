"""State-space layers, alone (mamba, falcon_mamba, mamba2) or with attention layers (jamba, bamba, granitemoehybrid, falcon_h1).

Source: transformers 5.23 models of those names.
"""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.importers.hf.blocks import Block, Row, attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.decoder import decoder
from rooflinecli.importers.hf.hybrid_layers import layer_kinds, placed, selective, ssd
from rooflinecli.importers.hf.layer_pattern import merged
from rooflinecli.specs.field_reader import MISSING, ConfigFields


def jamba(f: ConfigFields) -> Block:
    """Mamba-1 with norms on dt, B and C; attention at every period, without positions; experts at another period."""
    n = f.integer("num_hidden_layers")
    bias = f.flag("mamba_proj_bias")
    inner = f.integer("mamba_expand") * f.integer("hidden_size")
    rank = f.raw("mamba_dt_rank")
    blocks = {
        "recurrent": selective(
            f,
            inner,
            state="mamba_d_state",
            taps="mamba_d_conv",
            rank=-(-f.integer("hidden_size") // 16) if rank in (MISSING, None, "auto") else f.integer("mamba_dt_rank"),
            qkv_bias=bias,
            out_bias=bias,
            conv_bias=f.flag("mamba_conv_bias"),
            qk_norm="full",
        ),
        "attention": attention(f, head_dim=False) | {"rotary": False},
    }
    period, offset = f.integer("attn_layer_period"), f.integer("attn_layer_offset", least=0)
    kinds = layer_kinds(
        f,
        ("layers_block_type", "layer_types"),
        ["attention" if i % period == offset else "recurrent" for i in range(n)],
        ("recurrent", "attention"),
    )
    every, first = f.integer("expert_layer_period"), f.integer("expert_layer_offset", least=0)
    dense = feedforward(f, "gated")
    if f.integer("num_experts") == 1:
        f.raw("num_experts_per_tok")
        return frame(f, None, dense, layers=placed(kinds, blocks))
    base, mixed = sparse(
        dense, experts(f, "intermediate_size", ("num_experts",)), [i % every == first for i in range(n)]
    )
    return frame(f, None, base, layers=merged(placed(kinds, blocks), mixed))


def _mamba2(f: ConfigFields, inner: int, out_bias: str = "mamba_proj_bias", **more: Any) -> Block:
    """The names of Bamba, which Granite and Falcon-H1 share."""
    heads = f.integer("mamba_n_heads")
    head = f.raw("mamba_d_head")
    width = inner // heads if head in (MISSING, None, "auto") else f.integer("mamba_d_head")
    return ssd(
        f,
        heads=heads,
        head_dim=width,
        inner=inner,
        field="mamba_n_heads",
        groups="mamba_n_groups",
        state="mamba_d_state",
        taps="mamba_d_conv",
        chunk="mamba_chunk_size",
        qkv_bias=f.flag("mamba_proj_bias"),
        out_bias=f.flag(out_bias),
        conv_bias=f.flag("mamba_conv_bias"),
        **more,
    )


def _inner(f: ConfigFields) -> int:
    return f.integer("mamba_expand") * f.integer("hidden_size")


def bamba(f: ConfigFields, row: Row) -> Block:
    """Attention at attn_layer_indices, Mamba-2 elsewhere; a gated MLP everywhere."""
    n, bias = f.integer("num_hidden_layers"), f.flag("attention_bias")
    at = set(f.items("attn_layer_indices", int) or [])
    if at and not all(0 <= i < n for i in at):
        raise f.fail("attn_layer_indices", f"names a layer outside the {n} there are")
    kinds = layer_kinds(
        f,
        ("layer_types", "layers_block_type"),
        ["attention" if i in at else "recurrent" for i in range(n)],
        ("recurrent", "attention"),
    )
    blocks = {
        "recurrent": _mamba2(f, _inner(f)),
        "attention": attention(f, head_dim=False, qkv_bias=bias, out_bias=bias),
    }
    return decoder(f, row, layers=placed(kinds, blocks))


def granite(f: ConfigFields) -> Block:
    """A shared MLP on every layer, plus experts if there are any; attention without positions unless position_embedding_type is rope."""
    n, bias = f.integer("num_hidden_layers"), f.flag("attention_bias")
    kinds = layer_kinds(f, ("layer_types", "layers_block_type"), ["recurrent"] * n, ("recurrent", "attention"))
    heads = attention(f, head_dim=False, qkv_bias=bias, out_bias=bias)
    if f.text("position_embedding_type") != "rope":
        heads["rotary"] = False
    blocks = {"recurrent": _mamba2(f, _inner(f)), "attention": heads}
    shared = f.integer("shared_intermediate_size")
    if f.optional("num_local_experts"):
        block = experts(f, "intermediate_size", ("num_local_experts",), n_shared=1, shared_d_ff=shared)
    else:
        f.raw("num_experts_per_tok"), f.raw("intermediate_size")
        block = feedforward(f, "gated", d_ff=shared)
    used = {kind: blocks[kind] for kind in set(kinds)}
    return frame(f, None, block, layers=placed(kinds, used))


def falcon_h1(f: ConfigFields) -> Block:
    """Both mixers in every layer, in parallel."""
    inner = f.integer("mamba_d_ssm", null=_inner(f))
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias)
    scan = _mamba2(f, inner, "projectors_bias")
    sizes = {**scan["sizes"], "ssm_heads": scan["n_heads"], "ssm_head_dim": scan["head_dim"]}
    sizes |= {name: 1 for name, key in (("ssm_bias", "qkv_bias"), ("ssm_out_bias", "out_bias")) if scan.get(key)}
    block |= {"kind": "attention-ssm", "n_kv_heads": f.integer("num_key_value_heads"), "sizes": sizes}
    block |= {"conv_bias": scan.get("conv_bias", False), "gated_norm": f.flag("mamba_rms_norm")}
    return frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=f.integer("num_hidden_layers"))


_NO_MLP = {"kind": "none"}


def mamba(f: ConfigFields) -> Block:
    """use_bias is on both projections; the rank of dt is d_model / 16, rounded up, unless given."""
    d = f.integer("hidden_size")
    inner = f.integer("intermediate_size", "d_inner", null=int(f.integer("expand") * d))
    bias = f.flag("use_bias")
    block = selective(
        f,
        inner,
        state="state_size",
        taps="conv_kernel",
        rank=_rank(f, d),
        qkv_bias=bias,
        out_bias=bias,
        conv_bias=f.flag("use_conv_bias"),
    )
    return _stack(f, block)


def _rank(f: ConfigFields, d: int) -> int:
    if f.raw("time_step_rank", "dt_rank") in (MISSING, None, "auto"):
        return math.ceil(d / 16)
    return f.integer("time_step_rank", "dt_rank")


def mamba2(f: ConfigFields) -> Block:
    """The inner width is expand x d_model; heads x head_dim must equal it."""
    bias = f.flag("use_bias")
    block = ssd(
        f,
        heads=f.integer("num_heads"),
        head_dim=f.integer("head_dim"),
        inner=int(f.integer("expand") * f.integer("hidden_size")),
        field="num_heads",
        groups="n_groups",
        state="state_size",
        taps="conv_kernel",
        chunk="chunk_size",
        qkv_bias=bias,
        out_bias=bias,
        conv_bias=f.flag("use_conv_bias"),
    )
    return _stack(f, block)


def _stack(f: ConfigFields, block: dict[str, Any]) -> Block:
    """Layers of one mixer behind one norm each."""
    return frame(
        f, block, _NO_MLP, layers=f.integer("num_hidden_layers", "n_layer"), norms=1, positions={"kind": "none"}
    )
