"""Linear attention with full attention on some layers: gated delta rule, Kimi delta attention, lightning attention.

Source: transformers 5.23 models/{qwen3_next,qwen3_5,qwen3_5_moe,olmo_hybrid,kimi_linear,minimax}.
"""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import (
    Block,
    Row,
)
from rooflinecli.importers.hf.decoder import decoder, period, row_attention
from rooflinecli.importers.hf.hybrid_layers import layer_kinds, placed
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
