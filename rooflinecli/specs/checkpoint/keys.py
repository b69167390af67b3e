"""The keys of a GGUF file as the config.json they came from, architecture by architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rooflinecli.errors import DataError
from rooflinecli.specs.checkpoint.tensors import Header

Config = dict[str, Any]


@dataclass
class Keys:
    """The metadata of one file; `name` is its architecture, the prefix of the keys."""

    header: Header
    name: str
    file: str

    def get(self, key: str) -> Any:
        return self.header.metadata.get(f"{self.name}.{key}")

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; of an array by layer, the one value that its layers with any share. Raises DataError."""
        value = self.get(key)
        if isinstance(value, list):
            distinct = {v for v in value if v}
            value = distinct.pop() if len(distinct) == 1 else value
        if value is None:
            if default is None:
                raise DataError(f"{self.file}: the key {self.name}.{key} is missing; convert the model again")
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise DataError(
                f"{self.file}: {self.name}.{key} is {str(value)[:60]}, and only one whole number for all layers is read; "
                "give the model's config.json"
            )
        return value

    def has(self, tensor: str) -> bool:
        return any(t.name == tensor for t in self.header.tensors)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor, outermost axis first. Raises DataError where there is none."""
        for t in self.header.tensors:
            if t.name == tensor:
                return t.shape
        raise DataError(f"{self.file}: the tensor {tensor} is missing; give a whole GGUF file")

    @property
    def layers(self) -> int:
        """Layers without those that only predict further tokens."""
        return self.whole("block_count") - self.whole("nextn_predict_layers", 0)


def _base(k: Keys, model_type: str) -> Config:
    """What every decoder has."""
    heads = k.whole("attention.head_count")
    vocab, width = k.shape("token_embd.weight")
    config: Config = {
        "model_type": model_type,
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": k.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": k.whole("attention.head_count_kv", heads),
        "max_position_embeddings": k.whole("context_length"),
        "tie_word_embeddings": not k.has("output.weight"),
    }
    if k.get("attention.key_length") is not None:
        config["head_dim"] = k.whole("attention.key_length")
    return config


def _dense(k: Keys, model_type: str) -> Config:
    return _base(k, model_type) | {"intermediate_size": k.whole("feed_forward_length")}


def _llama(k: Keys) -> Config:
    """Llama, Mistral and Mixtral share an architecture; biases are where their tensors are."""
    if k.whole("expert_count", 0):
        config = _base(k, "mixtral") | _experts(k, "num_local_experts")
        return config | {"intermediate_size": k.whole("expert_feed_forward_length", k.whole("feed_forward_length"))}
    bias = {
        "attention_bias": k.has("blk.0.attn_q.bias") and k.has("blk.0.attn_output.bias"),
        "mlp_bias": k.has("blk.0.ffn_up.bias"),
    }
    return _dense(k, "llama") | bias


def _experts(k: Keys, name: str) -> Config:
    return {name: k.whole("expert_count"), "num_experts_per_tok": k.whole("expert_used_count")}


def _qwen2(k: Keys) -> Config:
    return _dense(k, "qwen2")


def _qwen3(k: Keys) -> Config:
    return _dense(k, "qwen3")


def _qwen2_moe(k: Keys) -> Config:
    width = k.shape("blk.0.ffn_up_shexp.weight")[0]
    return _moe(k, "qwen2_moe") | {"shared_expert_intermediate_size": width}


def _moe(k: Keys, model_type: str) -> Config:
    width = k.shape("blk.0.ffn_up_exps.weight")[1]
    return _base(k, model_type) | _experts(k, "num_experts") | {"moe_intermediate_size": width}


def _qwen3_moe(k: Keys) -> Config:
    return _moe(k, "qwen3_moe")


def _gemma(k: Keys) -> Config:
    return _dense(k, "gemma")


def _gemma2(k: Keys) -> Config:
    return _dense(k, "gemma2") | {"sliding_window": k.whole("attention.sliding_window", 4096)}


def _gemma3(k: Keys) -> Config:
    return _dense(k, "gemma3_text") | {"sliding_window": k.whole("attention.sliding_window", 1024)}


def _phi3(k: Keys) -> Config:
    config = _dense(k, "phi3")
    window = k.whole("attention.sliding_window", 0)
    return config | ({"sliding_window": window} if window and window < config["max_position_embeddings"] else {})


def _gpt_oss(k: Keys) -> Config:
    window = {"sliding_window": k.whole("attention.sliding_window", 128)}
    width = k.whole("expert_feed_forward_length", 0) or k.shape("blk.0.ffn_up_exps.weight")[1]
    return _base(k, "gpt_oss") | _experts(k, "num_local_experts") | window | {"intermediate_size": width}


def _deepseek(k: Keys) -> Config:
    """Latent attention; files since 2025 give the widths of a head before compression apart."""
    rope, rank = k.whole("rope.dimension_count"), k.whole("attention.kv_lora_rank")
    key = k.whole("attention.key_length_mla", k.whole("attention.key_length"))
    value = k.whole("attention.value_length_mla", k.whole("attention.value_length"))
    config = _base(k, "deepseek_v3")
    config.pop("head_dim", None)
    config |= _experts(k, "n_routed_experts")
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


def _glm4_moe(k: Keys) -> Config:
    config = _base(k, "glm4_moe") | _experts(k, "n_routed_experts")
    return config | {
        "intermediate_size": k.whole("feed_forward_length"),
        "moe_intermediate_size": k.whole("expert_feed_forward_length"),
        "n_shared_experts": k.whole("expert_shared_count", 0),
        "first_k_dense_replace": k.whole("leading_dense_block_count", 0),
        "attention_bias": k.has("blk.0.attn_q.bias"),
        "use_qk_norm": k.has("blk.0.attn_q_norm.weight"),
    }


def _mamba(k: Keys) -> Config:
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


def _mamba2(k: Keys) -> Config:
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


def _kinds(k: Keys, conv: str) -> list[str]:
    """Which layers have attention: those with key/value heads."""
    counts = k.get("attention.head_count_kv")
    if not isinstance(counts, list):
        raise DataError(
            f"{k.file}: {k.name}.attention.head_count_kv should say which layers have attention; give the model's config.json"
        )
    return ["full_attention" if n else conv for n in counts]


def _lfm2(k: Keys) -> Config:
    config = _dense(k, "lfm2") | {"conv_L_cache": k.whole("shortconv.l_cache"), "block_auto_adjust_ff_dim": False}
    return config | {"layer_types": _kinds(k, "conv")}


ARCHITECTURES: dict[str, Callable[[Keys], Config]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen2moe": _qwen2_moe,
    "qwen3moe": _qwen3_moe,
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
}
