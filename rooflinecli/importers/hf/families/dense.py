"""Readers of dense softmax-attention decoders that rows cannot describe."""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import Block, Row
from rooflinecli.importers.hf.decoder import decoder
from rooflinecli.importers.hf.layer_pattern import windows
from rooflinecli.specs.field_reader import ConfigFields


def internlm3(f: ConfigFields, row: Row) -> Block:
    """llama whose two biases go together. Raises DataError where they do not: transformers refuses that too."""
    renamed = {"qkv_bias": "attention_bias", "bias": "mlp_bias"}
    g = ConfigFields(
        {renamed.get(k, k): v for k, v in f.data.items()}, f.defaults, f.where, f.prefix, f.used, f.assumed
    )
    made = decoder(g, row)
    if g.flag("attention_bias") != g.flag("mlp_bias"):
        raise f.fail(
            "qkv_bias" if "qkv_bias" in f.data else "attention_bias",
            "differs from the bias of the MLP; give both the same",
        )
    f.used |= set(renamed)
    return made


def exaone4(f: ConfigFields, row: Row) -> Block:
    """Full attention on every sliding_window_pattern-th layer, or by one letter a layer, repeated (LLLG)."""
    every, n = f.raw("sliding_window_pattern"), f.integer("num_hidden_layers")
    if isinstance(every, str):
        default = [every[i % len(every)] == "L" for i in range(n)]
    else:
        step = f.integer("sliding_window_pattern", null=4)
        default = [bool((i + 1) % step) for i in range(n)]
    return decoder(f, row, layers=windows(f, default, f.optional("sliding_window")))
