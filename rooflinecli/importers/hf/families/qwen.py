"""qwen2, qwen2_moe, qwen3, qwen3_moe. Source: transformers 5.23 models/{qwen2,qwen2_moe,qwen3,qwen3_moe}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import ConfigFields


def _windows(f: ConfigFields, local: list[bool]) -> list[Override]:
    """A window only where use_sliding_window says so."""
    window = f.optional("sliding_window")
    return windows(f, local, window if f.flag("use_sliding_window") else None)


def _upper(f: ConfigFields) -> list[Override]:
    """The window starts at layer max_window_layers."""
    start = f.whole("max_window_layers", null=0, least=0)
    return _windows(f, [i >= start for i in range(f.whole("num_hidden_layers"))])


def qwen2(f: ConfigFields) -> dict[str, Any]:
    """A bias on q, k and v, always."""
    return frame(f, attention(f, qkv_bias=True), feedforward(f, "gated"), layers=_upper(f))


def mimo(f: ConfigFields) -> dict[str, Any]:
    """As qwen2; its multi-token-prediction layers stand beside the model (configuration_mimo.py of XiaomiMiMo/MiMo-7B-Base)."""
    f.expect("attention_bias", (True, None), "this type has a bias on q, k and v; mend model_type")
    extra = f.whole("num_nextn_predict_layers", null=0, least=0)
    if extra:
        f.notes.append(f"{extra} multi-token-prediction layer(s) are left out, as in the published parameter count.")
    return qwen2(f)


def qwen3(f: ConfigFields) -> dict[str, Any]:
    """q and k are normalized per head; attention_bias is on q, k, v and o."""
    bias = f.flag("attention_bias")
    return frame(
        f, attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head"), feedforward(f, "gated"), layers=_upper(f)
    )


def _mixture(f: ConfigFields, block: dict[str, Any], local: list[Override], **more: Any) -> dict[str, Any]:
    """A mixture on every decoder_sparse_step-th layer except mlp_only_layers."""
    step, only = f.whole("decoder_sparse_step"), f.items("mlp_only_layers", int) or []
    where = [i not in only and (i + 1) % step == 0 for i in range(f.whole("num_hidden_layers"))]
    moe = experts(f, "moe_intermediate_size", ("num_experts", "num_local_experts"), **more)
    base, mixed = sparse(feedforward(f, "gated"), moe, where)
    return frame(f, block, base, layers=merged(local, mixed))


def qwen2_moe(f: ConfigFields) -> dict[str, Any]:
    """Every mixture has a gated shared expert of its own width; windows alternate below max_window_layers."""
    stop = f.whole("max_window_layers", null=0, least=0)
    local = _windows(f, [i % 2 == 0 and i < stop for i in range(f.whole("num_hidden_layers"))])
    return _mixture(
        f,
        attention(f, qkv_bias=f.flag("qkv_bias")),
        local,
        n_shared=1,
        shared_gate=True,
        shared_d_ff=f.whole("shared_expert_intermediate_size"),
    )


def qwen3_moe(f: ConfigFields) -> dict[str, Any]:
    """Experts alone; checkpoints written for other loaders say so of what the class has not, or always has."""
    f.expect("shared_expert_intermediate_size", (0, None), "this type has no shared expert; mend model_type")
    f.expect("use_qk_norm", (True, None), "this type always normalizes q and k; mend model_type")
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    return _mixture(f, block, _windows(f, [True] * f.whole("num_hidden_layers")))
