"""The keys of a GGUF file as the config.json they came from, architecture by architecture."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.errors import DataError
from rooflinecli.importers.checkpoint.gguf_hybrid import HYBRIDS
from rooflinecli.importers.checkpoint.gguf_metadata import Config, GgufMetadata, base, dense, experts
from rooflinecli.importers.checkpoint.gguf_more_architectures import MORE

__all__ = ["ARCHITECTURES", "GgufMetadata"]


def _llama(k: GgufMetadata) -> Config:
    """Llama, Mistral and Mixtral share an architecture; biases are where their tensors are."""
    if k.whole("expert_count", 0):
        config = base(k, "mixtral") | experts(k, "num_local_experts")
        return config | {"intermediate_size": k.whole("expert_feed_forward_length", k.whole("feed_forward_length"))}
    bias = {
        "attention_bias": k.has("blk.0.attn_q.bias") and k.has("blk.0.attn_output.bias"),
        "mlp_bias": k.has("blk.0.ffn_up.bias"),
    }
    return dense(k, "llama") | bias


def _qwen2(k: GgufMetadata) -> Config:
    return dense(k, "qwen2")


def _qwen3(k: GgufMetadata) -> Config:
    return dense(k, "qwen3")


def _qwen2_moe(k: GgufMetadata) -> Config:
    width = k.shape("blk.0.ffn_up_shexp.weight")[0]
    return _moe(k, "qwen2_moe") | {"shared_expert_intermediate_size": width}


def _moe(k: GgufMetadata, model_type: str) -> Config:
    width = k.shape("blk.0.ffn_up_exps.weight")[1]
    return base(k, model_type) | experts(k, "num_experts") | {"moe_intermediate_size": width}


def _qwen3_moe(k: GgufMetadata) -> Config:
    return _moe(k, "qwen3_moe")


def _gemma(k: GgufMetadata) -> Config:
    return dense(k, "gemma")


def _gemma2(k: GgufMetadata) -> Config:
    return dense(k, "gemma2") | {"sliding_window": k.whole("attention.sliding_window", 4096)}


def _gemma3(k: GgufMetadata) -> Config:
    return dense(k, "gemma3_text") | {"sliding_window": k.whole("attention.sliding_window", 1024)}


def _phi3(k: GgufMetadata) -> Config:
    config = dense(k, "phi3")
    window = k.whole("attention.sliding_window", 0)
    return config | ({"sliding_window": window} if window and window < config["max_position_embeddings"] else {})


def _gpt_oss(k: GgufMetadata) -> Config:
    window = {"sliding_window": k.whole("attention.sliding_window", 128)}
    width = k.whole("expert_feed_forward_length", 0) or k.shape("blk.0.ffn_up_exps.weight")[1]
    return base(k, "gpt_oss") | experts(k, "num_local_experts") | window | {"intermediate_size": width}


def _deepseek(k: GgufMetadata) -> Config:
    """Latent attention; files since 2025 give the widths of a head before compression apart."""
    rope, rank = k.whole("rope.dimension_count"), k.whole("attention.kv_lora_rank")
    key = k.whole("attention.key_length_mla", k.whole("attention.key_length"))
    value = k.whole("attention.value_length_mla", k.whole("attention.value_length"))
    config = base(k, "deepseek_v3")
    config.pop("head_dim", None)
    config |= experts(k, "n_routed_experts")
    return config | {
        "num_key_value_heads": config["num_attention_heads"],
        "intermediate_size": k.whole("feed_forward_length"),
        "moe_intermediate_size": k.whole("expert_feed_forward_length"),
        "n_shared_experts": k.whole("expert_shared_count", 0),
        "first_k_dense_replace": k.whole("leading_dense_block_count", 0),
        "q_lora_rank": k.whole("attention.q_lora_rank", 0) or None,
        "kv_lora_rank": rank,
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": key - rope,
        "v_head_dim": value,
    }


def _glm4_moe(k: GgufMetadata) -> Config:
    config = base(k, "glm4_moe") | experts(k, "n_routed_experts")
    return config | {
        "intermediate_size": k.whole("feed_forward_length"),
        "moe_intermediate_size": k.whole("expert_feed_forward_length"),
        "n_shared_experts": k.whole("expert_shared_count", 0),
        "first_k_dense_replace": k.whole("leading_dense_block_count", 0),
        "attention_bias": k.has("blk.0.attn_q.bias"),
        "use_qk_norm": k.has("blk.0.attn_q_norm.weight"),
    }


def _mamba(k: GgufMetadata) -> Config:
    vocab, width = k.shape("token_embd.weight")
    return {
        "model_type": "mamba",
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": k.layers,
        "intermediate_size": k.whole("ssm.inner_size"),
        "state_size": k.whole("ssm.state_size"),
        "conv_kernel": k.whole("ssm.conv_kernel"),
        "time_step_rank": k.whole("ssm.time_step_rank"),
        "tie_word_embeddings": not k.has("output.weight"),
    }


def _mamba2(k: GgufMetadata) -> Config:
    vocab, width = k.shape("token_embd.weight")
    inner, heads = k.whole("ssm.inner_size"), k.whole("ssm.time_step_rank")
    return {
        "model_type": "mamba2",
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": k.layers,
        "expand": inner // width,
        "num_heads": heads,
        "head_dim": inner // heads,
        "state_size": k.whole("ssm.state_size"),
        "conv_kernel": k.whole("ssm.conv_kernel"),
        "n_groups": k.whole("ssm.group_count"),
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
    config = dense(k, "lfm2") | {"conv_L_cache": k.whole("shortconv.l_cache"), "block_auto_adjust_ff_dim": False}
    return config | {"layer_types": _kinds(k, "conv")}


ARCHITECTURES: dict[str, Callable[[GgufMetadata], Config]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen2moe": _qwen2_moe,
    "qwen3moe": _qwen3_moe,
    "qwen3vlmoe": _qwen3_moe,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "phi3": _phi3,
    "gpt-oss": _gpt_oss,
    "deepseek2": _deepseek,
    "glm4moe": _glm4_moe,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "lfm2": _lfm2,
    **MORE,
    **HYBRIDS,
}
