"""mamba, falcon_mamba, mamba2: nothing but state-space layers. Source: transformers 5.23 models/{mamba,falcon_mamba,mamba2}."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.importers.hf.decoder import frame
from rooflinecli.importers.hf.hybrid_layers import selective, ssd
from rooflinecli.specs.field_reader import MISSING, ConfigFields

_NONE = {"kind": "none"}


def mamba(f: ConfigFields) -> dict[str, Any]:
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


def mamba2(f: ConfigFields) -> dict[str, Any]:
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


def _stack(f: ConfigFields, block: dict[str, Any]) -> dict[str, Any]:
    """Layers of one mixer behind one norm each."""
    return frame(f, block, _NONE, layers=f.integer("num_hidden_layers", "n_layer"), norms=1, positions={"kind": "none"})
