"""clip_vision_model, siglip_vision_model, pixtral, internvl_vision. Source: transformers 5.23 models/{clip,siglip,pixtral,internvl}/modeling_*.py."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.vision_encoders import (
    Block,
    linear,
    mha,
    norm,
    patches,
    side,
    table,
    values,
)
from rooflinecli.specs.field_reader import ConfigFields

_NONE = {"kind": "none"}


def _stack(v: ConfigFields, attention: Block, mlp: Block, norm: str, **more: object) -> Block:
    return {
        "d_model": v.integer("hidden_size"),
        "norm": norm,
        "positions": _NONE,
        "attention": attention,
        "feedforward": mlp,
        "layers": v.integer("num_hidden_layers"),
        **more,
    }


def _patches(v: ConfigFields) -> int:
    return (side(v, "image_size") // side(v, "patch_size")) ** 2


def clip(v: ConfigFields) -> Block:
    """A class token before the patches, a norm before the layers and one after."""
    width = v.integer("hidden_size")
    before = [patches(v, width, bias=False, less=1), values("class_token"), table("positions", _patches(v) + 1)]
    block = mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True)
    return _stack(v, block, feedforward(v, "dense", bias=True), "layernorm", before=before, pre_norm=True)


def siglip(v: ConfigFields) -> Block:
    """No class token; the head that pools by a learned query is there unless vision_use_head is off."""
    width = v.integer("hidden_size")
    before = [patches(v, width, bias=True), table("positions", _patches(v))]
    block = mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True)
    more = {"after": _pooling(v, width)} if v.flag("vision_use_head", True) else {}
    return _stack(v, block, feedforward(v, "dense", bias=True), "layernorm", before=before, **more)


def idefics3(v: ConfigFields) -> Block:
    """SigLIP without the head that pools."""
    made = siglip(v)
    made.pop("after", None)
    return made


def _pooling(v: ConfigFields, width: int) -> list[Block]:
    """A learned query attends to every patch, an MLP follows."""
    inner = v.integer("intermediate_size")
    return [
        values("probe"),
        linear("pool_kv", 2 * width),
        linear("pool_q", width, once=True),
        {"kind": "pool", "name": "pool"},
        linear("pool_out", width, once=True),
        norm("pool_norm", "layernorm", once=True),
        linear("pool_up", inner, once=True),
        linear("pool_down", width, input=inner, once=True),
    ]


def pixtral(v: ConfigFields) -> Block:
    """As a llama without causality: rotary in two axes, gated, no biases; a norm before the layers, none after."""
    width = v.integer("hidden_size")
    v.expect("head_dim", (width // v.integer("num_attention_heads"), None), "heads fill the width")
    block = mha(v, "num_attention_heads", width)
    _ = side(v, "image_size")
    made = _stack(v, block, feedforward(v, "gated"), "rmsnorm", before=[patches(v, width, bias=False)])
    return made | {"pre_norm": True, "final_norm": False, "positions": {"kind": "rotary"}}


def internvl(v: ConfigFields) -> Block:
    """A class token, a mask token if enabled, two learned scales a layer; a norm after the layers unless it pools by the mean."""
    width, kind = v.integer("hidden_size"), v.text("norm_type", default="layer_norm")
    if kind not in ("layer_norm", "rms_norm"):
        raise v.fail("norm_type", f"'{kind}' is not a supported norm; supported: layer_norm, rms_norm")
    before = [patches(v, width, bias=True, less=1), values("class_token")]
    before += [values("mask_token")] if v.flag("use_mask_token") else []
    before += [table("positions", _patches(v) + 1)] if v.flag("use_absolute_position_embeddings", True) else []
    bias = v.flag("attention_bias")
    qk = "full" if v.flag("use_qk_norm") else "none"
    block = mha(v, "num_attention_heads", width, qkv_bias=bias, out_bias=True, qk_norm=qk)
    scales = [{"kind": "scale", "name": "scale", "rows": 2}]
    norms = "layernorm" if kind == "layer_norm" else "rmsnorm"
    made = _stack(v, block, feedforward(v, "dense", bias=True), norms, before=before, pieces=scales, final_norm=False)
    if not v.flag("use_mean_pooling", True):
        made["after"] = [norm("final_norm", "layernorm")]
    return made


def text_tower(t: ConfigFields, causal: bool) -> Block:
    """The text encoder of CLIP or SigLIP."""
    width, rows = t.integer("hidden_size"), t.integer("max_position_embeddings")
    block = mha(t, "num_attention_heads", width, qkv_bias=True, out_bias=True) | {"causal": causal}
    made: Block = {"d_model": width, "vocab_size": t.integer("vocab_size"), "norm": "layernorm", "lm_head": False}
    made |= {"positions": {"kind": "learned", "length": rows}, "max_context": rows, "attention": block}
    return made | {"feedforward": feedforward(t, "dense", bias=True), "layers": t.integer("num_hidden_layers")}
