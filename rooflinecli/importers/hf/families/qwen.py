"""qwen2, qwen2_moe, qwen3, qwen3_moe. Source: transformers 5.23 models/{qwen2,qwen2_moe,qwen3,qwen3_moe}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import ConfigFields, Family


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


_QWEN = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "tie_word_embeddings": False,
}
_MOE = {"decoder_sparse_step": 1, "hidden_size": 2048, "num_hidden_layers": 24}
_IGNORED = frozenset({"norm_topk_prob"})
FAMILIES = {
    "qwen2": Family(qwen2, _QWEN),
    "mimo": Family(mimo, _QWEN),
    "qwen3": Family(qwen3, _QWEN | {"head_dim": 128}),
    "qwen2_moe": Family(
        qwen2_moe,
        _QWEN
        | _MOE
        | {
            "intermediate_size": 5632,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "num_experts_per_tok": 4,
            "num_experts": 60,
            "qkv_bias": True,
        },
        _IGNORED,
    ),
    "qwen3_moe": Family(
        qwen3_moe,
        _QWEN
        | _MOE
        | {
            "intermediate_size": 6144,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 768,
            "num_experts_per_tok": 8,
            "num_experts": 128,
        },
        _IGNORED | {"max_window_layers"},
    ),
}
# the text decoders of the vision-language models are the same classes but for rotary positions in three axes
FAMILIES |= {
    "qwen2_vl_text": FAMILIES["qwen2"],
    "qwen2_5_vl_text": FAMILIES["qwen2"],
    "qwen3_vl_text": FAMILIES["qwen3"],
    "qwen3_vl_moe_text": FAMILIES["qwen3_moe"],
}
