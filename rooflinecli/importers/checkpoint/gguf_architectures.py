"""The keys of a GGUF file as the config.json they came from: rows of gguf_architectures.yaml, and the architectures that a row cannot say."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.core.errors import DataError
from rooflinecli.importers.checkpoint.gguf_hybrid import HYBRIDS
from rooflinecli.importers.checkpoint.gguf_metadata import Config, GgufMetadata, base, dense, experts
from rooflinecli.specs.yaml_loader import Loader

__all__ = ["GgufMetadata", "architectures"]


@cache
def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = yaml.load(Path(__file__).with_suffix(".yaml").read_text("utf-8"), Loader)
    return rows


@cache
def architectures() -> dict[str, Callable[[GgufMetadata], Config]]:
    """Architecture -> the config of a file of it."""
    return dict.fromkeys(_rows(), _from_row) | _READERS | HYBRIDS


def _from_row(k: GgufMetadata) -> Config:
    row = _rows()[k.name]
    config = base(k, row["model_type"])
    if not row.get("head_dim", True):
        config.pop("head_dim", None)
    keys = row.get("keys", {})
    if "experts" in row:
        config |= experts(k, row["experts"])
    else:
        keys = {"intermediate_size": "feed_forward_length", **keys}
    for field, key in keys.items():
        config[field] = k.integer(key) if isinstance(key, str) else k.integer(*key)
    for field, key in row.get("or_none", {}).items():
        config[field] = k.integer(key, 0) or None
    for field, (tensor, axis) in row.get("axes", {}).items():
        config[field] = k.shape(tensor)[axis]
    for field, tensor in row.get("has", {}).items():
        config[field] = k.has(tensor)
    config |= row.get("fixed", {})
    return config


def _llama(k: GgufMetadata) -> Config:
    """Llama, Mistral and Mixtral share an architecture; biases are where their tensors are."""
    if k.integer("expert_count", 0):
        config = base(k, "mixtral") | experts(k, "num_local_experts")
        return config | {"intermediate_size": k.integer("expert_feed_forward_length", k.integer("feed_forward_length"))}
    bias = {
        "attention_bias": k.has("blk.0.attn_q.bias") and k.has("blk.0.attn_output.bias"),
        "mlp_bias": k.has("blk.0.ffn_up.bias"),
    }
    return dense(k, "llama") | bias


def _phi3(k: GgufMetadata) -> Config:
    config = dense(k, "phi3")
    window = k.integer("attention.sliding_window", 0)
    return config | ({"sliding_window": window} if window and window < config["max_position_embeddings"] else {})


def _gpt_oss(k: GgufMetadata) -> Config:
    window = {"sliding_window": k.integer("attention.sliding_window", 128)}
    width = k.integer("expert_feed_forward_length", 0) or k.shape("blk.0.ffn_up_exps.weight")[1]
    return base(k, "gpt_oss") | experts(k, "num_local_experts") | window | {"intermediate_size": width}


def _deepseek(k: GgufMetadata) -> Config:
    """Latent attention: a key is as wide as its rotary part and the rest."""
    config = _from_row(k)
    key = k.integer("attention.key_length_mla", k.integer("attention.key_length"))
    value = k.integer("attention.value_length_mla", k.integer("attention.value_length"))
    return config | {"qk_nope_head_dim": key - config["qk_rope_head_dim"], "v_head_dim": value}


def _stablelm(k: GgufMetadata) -> Config:
    """One norm where attention and MLP stand side by side."""
    config = dense(k, "stablelm")
    config.pop("head_dim", None)  # heads fill the width
    return config | {
        "use_qkv_bias": k.has("blk.0.attn_q.bias"),
        "qk_layernorm": k.has("blk.0.attn_q_norm.weight"),
        "use_parallel_residual": not k.has("blk.0.ffn_norm.weight"),
    }


def _mamba(k: GgufMetadata) -> Config:
    vocab, width = k.shape("token_embd.weight")
    return {
        "model_type": "mamba",
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": k.layers,
        "intermediate_size": k.integer("ssm.inner_size"),
        "state_size": k.integer("ssm.state_size"),
        "conv_kernel": k.integer("ssm.conv_kernel"),
        "time_step_rank": k.integer("ssm.time_step_rank"),
        "tie_word_embeddings": not k.has("output.weight"),
    }


def _mamba2(k: GgufMetadata) -> Config:
    vocab, width = k.shape("token_embd.weight")
    inner, heads = k.integer("ssm.inner_size"), k.integer("ssm.time_step_rank")
    return {
        "model_type": "mamba2",
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": k.layers,
        "expand": inner // width,
        "num_heads": heads,
        "head_dim": inner // heads,
        "state_size": k.integer("ssm.state_size"),
        "conv_kernel": k.integer("ssm.conv_kernel"),
        "n_groups": k.integer("ssm.group_count"),
        "tie_word_embeddings": not k.has("output.weight"),
    }


def _kinds(k: GgufMetadata, conv: str) -> list[str]:
    """Which layers have attention: those with key/value heads."""
    counts = k.get("attention.head_count_kv")
    if not isinstance(counts, list):
        raise DataError(
            f"{k.file}: {k.name}.attention.head_count_kv should say which layers have attention; give the model's config.json"
        )
    return ["full_attention" if n else conv for n in counts]


def _lfm2(k: GgufMetadata) -> Config:
    config = dense(k, "lfm2") | {"conv_L_cache": k.integer("shortconv.l_cache"), "block_auto_adjust_ff_dim": False}
    return config | {"layer_types": _kinds(k, "conv")}


_READERS: dict[str, Callable[[GgufMetadata], Config]] = {
    "llama": _llama,
    "phi3": _phi3,
    "gpt-oss": _gpt_oss,
    "deepseek2": _deepseek,
    "stablelm": _stablelm,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "lfm2": _lfm2,
}
