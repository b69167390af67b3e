"""GGUF keys -> the config.json they were converted from: rows of gguf_architectures.yaml, and readers of the architectures that rows cannot describe.

Which mixer or mixture a layer has, where layers differ, is read off its tensors. Source: ggml-org/llama.cpp gguf-py constants.py (LLM keys,
MODEL_TENSORS) and conversion scripts (gguf 0.19.0).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.importers.checkpoint.tensor_header import Header
from rooflinecli.specs.yaml_loader import Loader

Config = dict[str, Any]


@dataclass
class GgufMetadata:
    """The metadata of one file; `name` is its architecture, the prefix of the keys."""

    header: Header
    name: str
    file: str

    def get(self, key: str) -> Any:
        return self.header.metadata.get(f"{self.name}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
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

    @cached_property
    def _named(self) -> dict[str, tuple[int, ...]]:
        return {t.name: t.shape for t in self.header.tensors}

    def has(self, tensor: str) -> bool:
        return tensor in self._named

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor, outermost axis first. Raises DataError where there is none."""
        if tensor in self._named:
            return self._named[tensor]
        raise DataError(f"{self.file}: the tensor {tensor} is missing; give a whole GGUF file")

    @cached_property
    def layers(self) -> int:
        """Layers without those that only predict further tokens. Raises DataError for more than a file has tensors."""
        count = self.integer("block_count") - self.integer("nextn_predict_layers", 0)
        if not 0 < count <= len(self.header.tensors):
            raise DataError(
                f"{self.file}: {self.name}.block_count says {count} layers, and the file has {len(self.header.tensors)} tensors; give a whole GGUF file"
            )
        return count


def _model(k: GgufMetadata, model_type: str) -> Config:
    vocab, width = k.shape("token_embd.weight")
    return {
        "model_type": model_type,
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": k.layers,
        "tie_word_embeddings": not k.has("output.weight"),
    }


def base(k: GgufMetadata, model_type: str) -> Config:
    """The fields of every decoder with attention."""
    heads = k.integer("attention.head_count")
    config = _model(k, model_type) | {
        "num_attention_heads": heads,
        "num_key_value_heads": k.integer("attention.head_count_kv", heads),
        "max_position_embeddings": k.integer("context_length"),
    }
    if k.get("attention.key_length") is not None:
        config["head_dim"] = k.integer("attention.key_length")
    return config


def dense(k: GgufMetadata, model_type: str) -> Config:
    return base(k, model_type) | {"intermediate_size": k.integer("feed_forward_length")}


def experts(k: GgufMetadata, name: str) -> Config:
    """How many experts there are, and how many a token visits."""
    return {name: k.integer("expert_count"), "num_experts_per_tok": k.integer("expert_used_count")}


@cache
def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = yaml.load(Path(__file__).with_suffix(".yaml").read_text("utf-8"), Loader)
    return rows


@cache
def architectures() -> dict[str, Callable[[GgufMetadata], Config]]:
    """Architecture -> the config of a file of it."""
    return dict.fromkeys(_rows(), _from_row) | _READERS


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
    for field, (whole, parts) in row.get("quotients", {}).items():
        config[field] = _divided(k, whole, parts)
    for field, (tensor, axis) in row.get("axes", {}).items():
        config[field] = _first(k, tensor, field)[axis]
    if "other_layers" in row:
        config["layer_types"] = [_FULL if here else row["other_layers"] for here in _has(k, "attn_q.weight")]
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
    """Latent attention: a key is its rotary part and the rest."""
    config = _from_row(k)
    key = k.integer("attention.key_length_mla", k.integer("attention.key_length"))
    value = k.integer("attention.value_length_mla", k.integer("attention.value_length"))
    return config | {"qk_nope_head_dim": key - config["qk_rope_head_dim"], "v_head_dim": value}


def _stablelm(k: GgufMetadata) -> Config:
    """One norm where attention and MLP are parallel."""
    config = dense(k, "stablelm")
    config.pop("head_dim", None)  # heads fill the width
    return config | {
        "use_qkv_bias": k.has("blk.0.attn_q.bias"),
        "qk_layernorm": k.has("blk.0.attn_q_norm.weight"),
        "use_parallel_residual": not k.has("blk.0.ffn_norm.weight"),
    }


def _mamba(k: GgufMetadata) -> Config:
    return _model(k, "mamba") | {
        "intermediate_size": k.integer("ssm.inner_size"),
        "state_size": k.integer("ssm.state_size"),
        "conv_kernel": k.integer("ssm.conv_kernel"),
        "time_step_rank": k.integer("ssm.time_step_rank"),
    }


def _mamba2(k: GgufMetadata) -> Config:
    config = _model(k, "mamba2")
    return config | {
        "expand": k.integer("ssm.inner_size") // config["hidden_size"],
        "num_heads": k.integer("ssm.time_step_rank"),
        "head_dim": _divided(k, "ssm.inner_size", "ssm.time_step_rank"),
        "state_size": k.integer("ssm.state_size"),
        "conv_kernel": k.integer("ssm.conv_kernel"),
        "n_groups": k.integer("ssm.group_count"),
    }


def _kinds_by_heads(k: GgufMetadata, conv: str) -> list[str]:
    """Which layers have attention: those with key/value heads."""
    counts = k.get("attention.head_count_kv")
    if not isinstance(counts, list):
        raise DataError(
            f"{k.file}: {k.name}.attention.head_count_kv should say which layers have attention; give the model's config.json"
        )
    return ["full_attention" if n else conv for n in counts]


def _lfm2(k: GgufMetadata) -> Config:
    config = dense(k, "lfm2") | {"conv_L_cache": k.integer("shortconv.l_cache"), "block_auto_adjust_ff_dim": False}
    return config | {"layer_types": _kinds_by_heads(k, "conv")}


_LINEAR, _FULL = "linear_attention", "full_attention"


def _has(k: GgufMetadata, tensor: str) -> list[bool]:
    """Which layers have a tensor."""
    return [k.has(f"blk.{i}.{tensor}") for i in range(k.layers)]


def _kinds(k: GgufMetadata) -> list[str]:
    """Layers with queries attend; the others scan."""
    return [_FULL if here else _LINEAR for here in _has(k, "attn_q.weight")]


def _first(k: GgufMetadata, tensor: str, what: str) -> tuple[int, ...]:
    """The shape of a tensor in the first layer that has it. Raises DataError where none has."""
    here = _has(k, tensor)
    if not any(here):
        raise DataError(f"{k.file}: no layer has {tensor}, so {what} is not known; give a whole GGUF file")
    return k.shape(f"blk.{here.index(True)}.{tensor}")


def _divided(k: GgufMetadata, whole: str, parts: str) -> int:
    """The quotient of two keys. Raises DataError where the second does not divide the first."""
    total, n = k.integer(whole), k.integer(parts)
    if not n or total % n:
        raise DataError(
            f"{k.file}: {k.name}.{parts} {n} does not divide the inner size {total}; convert the model again"
        )
    return total // n


def _scan_sizes(k: GgufMetadata) -> Config:
    """The sizes of a Mamba-2 scan under the names of Bamba; time_step_rank counts its heads."""
    return {
        "mamba_n_heads": k.integer("ssm.time_step_rank"),
        "mamba_d_head": _divided(k, "ssm.inner_size", "ssm.time_step_rank"),
        "mamba_n_groups": k.integer("ssm.group_count"),
        "mamba_d_state": k.integer("ssm.state_size"),
        "mamba_d_conv": k.integer("ssm.conv_kernel"),
        "mamba_conv_bias": any(_has(k, "ssm_conv1d.bias")),
    }


def _jamba(k: GgufMetadata) -> Config:
    """Mamba-1 among attention; experts at a period, read off the layers that have a router."""
    config = base(k, "jamba") | {"intermediate_size": k.integer("feed_forward_length")}
    config.pop("head_dim", None)
    mixed = [i for i, here in enumerate(_has(k, "ffn_gate_inp.weight")) if here]
    if mixed:
        config |= experts(k, "num_experts")
        every = mixed[1] - mixed[0] if len(mixed) > 1 else k.layers
        if mixed != list(range(mixed[0], k.layers, every)):
            raise DataError(
                f"{k.file}: its experts stand at no period of layers, which is not supported; give the model's config.json"
            )
        config |= {"expert_layer_period": every, "expert_layer_offset": mixed[0]}
    return config | {
        "layers_block_type": ["attention" if kind == _FULL else "mamba" for kind in _kinds(k)],
        "num_experts": config.get("num_experts", 1),
        "mamba_d_state": k.integer("ssm.state_size"),
        "mamba_d_conv": k.integer("ssm.conv_kernel"),
        "mamba_dt_rank": k.integer("ssm.time_step_rank"),
        "mamba_expand": k.integer("ssm.inner_size") // config["hidden_size"],
        "mamba_conv_bias": any(_has(k, "ssm_conv1d.bias")),
    }


def _granite(k: GgufMetadata) -> Config:
    """Granite 4: experts with a shared MLP, or that MLP alone."""
    config = base(k, "granitemoehybrid") | _scan_sizes(k) | {"layer_types": _kinds(k)}
    config.pop("head_dim", None)
    config |= {"mamba_expand": k.integer("ssm.inner_size") // config["hidden_size"]}
    config |= {"attention_bias": any(_has(k, "attn_q.bias")), "position_embedding_type": "nope"}
    if not k.integer("expert_count", 0):
        return config | {"num_local_experts": 0, "shared_intermediate_size": k.integer("feed_forward_length")}
    shared = (
        k.integer("expert_shared_feed_forward_length", 0) or _first(k, "ffn_up_shexp.weight", "its shared expert")[0]
    )
    width = _first(k, "ffn_up_exps.weight", "the width of an expert")[1]
    return config | experts(k, "num_local_experts") | {"shared_intermediate_size": shared, "intermediate_size": width}


def _nemotron_h(k: GgufMetadata) -> Config:
    """One block a layer: a scan, attention, an MLP or a mixture, a letter each."""
    marks = {
        "M": _has(k, "ssm_in.weight"),
        "*": _has(k, "attn_q.weight"),
        "E": _has(k, "ffn_up_exps.weight"),
        "-": _has(k, "ffn_up.weight"),
    }
    letters = [next((letter for letter, here in marks.items() if here[i]), "") for i in range(k.layers)]
    if not all(letters):
        raise DataError(
            f"{k.file}: layer {letters.index('')} has no tensor of a block that is known; give the model's config.json"
        )
    config = base(k, "nemotron_h") | {
        "hybrid_override_pattern": "".join(letters),
        "mamba_num_heads": k.integer("ssm.time_step_rank"),
        "mamba_head_dim": _divided(k, "ssm.inner_size", "ssm.time_step_rank"),
        "n_groups": k.integer("ssm.group_count"),
        "ssm_state_size": k.integer("ssm.state_size"),
        "conv_kernel": k.integer("ssm.conv_kernel"),
        "use_conv_bias": any(_has(k, "ssm_conv1d.bias")),
        "mlp_bias": any(_has(k, "ffn_up.bias")),
    }
    if "-" in letters:
        config["intermediate_size"] = _first(k, "ffn_up.weight", "the width of its MLPs")[0]
    if "E" not in letters:
        return config
    up = _first(k, "ffn_up_exps.weight", "the width of an expert")
    latent = up[2] if up[2] != config["hidden_size"] else None
    shared = _first(k, "ffn_up_shexp.weight", "its shared expert")[0]
    names = {"moe_intermediate_size": up[1], "moe_shared_expert_intermediate_size": shared, "moe_latent_size": latent}
    return config | experts(k, "n_routed_experts") | names


def _gemma3n(k: GgufMetadata) -> Config:
    """Per-layer embeddings; the last layers read the cache of earlier ones, though files have their keys and values."""
    vocab, width = k.shape("per_layer_token_embd.weight")
    n = k.layers
    inner = [k.shape(f"blk.{i}.ffn_up.weight")[0] for i in range(n)]
    local = k.get("attention.sliding_window_pattern")
    kinds = [("sliding_attention" if here else _FULL) for here in local] if isinstance(local, list) else None
    return base(k, "gemma3n_text") | {
        "intermediate_size": inner,
        "vocab_size_per_layer_input": vocab,
        "hidden_size_per_layer_input": width // n,
        "num_kv_shared_layers": k.integer("attention.shared_kv_layers", 0),
        "altup_num_inputs": k.integer("altup.num_inputs", 4),
        "laurel_rank": k.shape("blk.0.laurel_l.weight")[0],
        "sliding_window": k.integer("attention.sliding_window", 512),
        "layer_types": kinds,
    }


def _gemma4(k: GgufMetadata) -> Config:
    """Heads of two widths, by the tensors of each layer; keys that serve as values have no separate matrix."""
    n, heads = k.layers, k.integer("attention.head_count")
    listed = k.get("attention.sliding_window_pattern")
    if not isinstance(listed, list) or len(listed) < n or len(set(listed[:n])) < 2:
        raise DataError(
            f"{k.file}: {k.name}.attention.sliding_window_pattern should say which layers see a window; give the model's config.json"
        )
    local = [bool(here) for here in listed[:n]]
    widths = [k.shape(f"blk.{i}.attn_q.weight")[0] // heads for i in range(n)]
    counts = k.get("attention.head_count_kv")
    keys = counts if isinstance(counts, list) else [k.integer("attention.head_count_kv", heads)] * n
    vocab, width = k.shape("token_embd.weight")
    layer = k.integer("embedding_length_per_layer_input", 0)
    inner = [k.shape(f"blk.{i}.ffn_up.weight")[0] for i in (0, n - 1)]
    config: Config = {
        "model_type": "gemma4_text",
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": n,
        "num_attention_heads": heads,
        "num_key_value_heads": keys[local.index(True)],
        "head_dim": widths[local.index(True)],
        "max_position_embeddings": k.integer("context_length"),
        "tie_word_embeddings": not k.has("output.weight"),
        "layer_types": ["sliding_attention" if here else _FULL for here in local],
        "per_layer_config": {
            str(i): {"head_dim": widths[i], "num_key_value_heads": keys[i]} for i in range(n) if not local[i]
        },
        "attention_k_eq_v": any(
            not local[i] and not k.has(f"blk.{i}.attn_v.weight") and k.has(f"blk.{i}.attn_k.weight") for i in range(n)
        ),
        "num_kv_shared_layers": k.integer("attention.shared_kv_layers", 0),
        "sliding_window": k.integer("attention.sliding_window"),
        "intermediate_size": inner[0],
        "use_double_wide_mlp": inner[1] == 2 * inner[0],
        "hidden_size_per_layer_input": layer,
        "vocab_size_per_layer_input": k.shape("per_layer_token_embd.weight")[0] if layer else vocab,
    }
    if not k.integer("expert_count", 0):
        return config
    experts_wide = {"moe_intermediate_size": _first(k, "ffn_down_exps.weight", "the width of an expert")[2]}
    counted = {"num_experts": k.integer("expert_count"), "top_k_experts": k.integer("expert_used_count")}
    return config | {"enable_moe_block": True} | counted | experts_wide


_READERS: dict[str, Callable[[GgufMetadata], Config]] = {
    "llama": _llama,
    "phi3": _phi3,
    "gpt-oss": _gpt_oss,
    "deepseek2": _deepseek,
    "stablelm": _stablelm,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "lfm2": _lfm2,
    "gemma4": _gemma4,
    "jamba": _jamba,
    "granitehybrid": _granite,
    "nemotron_h": _nemotron_h,
    "nemotron_h_moe": _nemotron_h,
    "gemma3n": _gemma3n,
}
