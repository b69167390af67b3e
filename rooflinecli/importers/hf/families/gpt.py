"""Readers of GPT-2-like decoders that rows cannot describe. Source: transformers 5.23 models of those names."""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import Block, attention, feedforward, frame
from rooflinecli.importers.hf.ignored_fields import NOISE
from rooflinecli.specs.field_reader import ConfigFields


def mpt(f: ConfigFields) -> Block:
    """ALiBi, LayerNorm without bias, no bias anywhere, a feed-forward of four times the width always."""
    width, inner = f.integer("d_model"), nested(f, "attn_config", _MPT)
    inner.expect(
        "attn_type", ("multihead_attention",), "transformers builds multihead_attention; write the model as YAML"
    )
    inner.expect("qk_ln", (False,), "transformers builds no norm of q and k here; write the model as YAML")
    inner.expect(
        "kv_n_heads", (None, f.integer("n_heads")), "transformers builds as many keys as heads; write the model as YAML"
    )
    ratio = f.integer("expansion_ratio", null=4)
    if ratio != 4:
        f.notes.append(
            f"expansion_ratio {ratio} is not used: transformers always builds a feed-forward of 4 x d_model."
        )
    f.expect("no_bias", (True,), "transformers builds no biases; write the model as YAML")
    inner.finish(NOISE)
    return frame(
        f,
        attention(f, heads="n_heads", kv=None, width=width, head_dim=False),
        feedforward(f, "dense", d_ff=4 * width),
        layers=f.integer("n_layers"),
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


def nested(f: ConfigFields, name: str, ignored: set[str]) -> ConfigFields:
    """A block inside the config, with what changes no shape in it marked as read."""
    data = f.raw(name)
    if not isinstance(data, dict):
        data = {}
    inner = ConfigFields(data, {}, f.where, (*f.prefix, name))
    inner.used |= ignored | {"is_encoder_decoder", "add_cross_attention"}
    return inner
