"""The keys of GGUF files whose layers differ in kind: which mixer or mixture a layer has is read off its tensors.

Source: ggml-org/llama.cpp gguf-py constants.py (LLM keys, MODEL_TENSORS) and conversion scripts (gguf 0.19.0).
"""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.errors import DataError
from rooflinecli.importers.checkpoint.gguf_metadata import Config, GgufMetadata, base, dense, experts

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


def _scan(k: GgufMetadata, width: str, heads: str, inner: int) -> Config:
    """The sizes of a Mamba-2 scan under the names of Bamba; time_step_rank counts its heads."""
    n = k.integer("ssm.time_step_rank")
    if not n or inner % n:
        raise DataError(
            f"{k.file}: {k.name}.ssm.time_step_rank {n} does not divide the inner size {inner}; convert the model again"
        )
    return {heads: n, width: inner // n}


def _mamba2(k: GgufMetadata) -> Config:
    inner = k.integer("ssm.inner_size")
    return _scan(k, "mamba_d_head", "mamba_n_heads", inner) | {
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
    """Granite 4: experts with a shared MLP beside them, or that MLP alone."""
    config = base(k, "granitemoehybrid") | _mamba2(k) | {"layer_types": _kinds(k)}
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


def _falcon_h1(k: GgufMetadata) -> Config:
    """Both mixers in every layer."""
    inner = k.integer("ssm.inner_size")
    return dense(k, "falcon_h1") | _mamba2(k) | {"mamba_d_ssm": inner, "mamba_rms_norm": k.has("blk.0.ssm_norm.weight")}


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
    inner = k.integer("ssm.inner_size")
    config = (
        base(k, "nemotron_h")
        | {"hybrid_override_pattern": "".join(letters)}
        | _scan(k, "mamba_head_dim", "mamba_num_heads", inner)
    )
    config |= {
        "n_groups": k.integer("ssm.group_count"),
        "ssm_state_size": k.integer("ssm.state_size"),
        "conv_kernel": k.integer("ssm.conv_kernel"),
    }
    config |= {"use_conv_bias": any(_has(k, "ssm_conv1d.bias")), "mlp_bias": any(_has(k, "ffn_up.bias"))}
    if "-" in letters:
        config["intermediate_size"] = _first(k, "ffn_up.weight", "the width of its MLPs")[0]
    if "E" not in letters:
        return config
    up = _first(k, "ffn_up_exps.weight", "the width of an expert")
    latent = up[2] if up[2] != config["hidden_size"] else None
    shared = _first(k, "ffn_up_shexp.weight", "its shared expert")[0]
    names = {"moe_intermediate_size": up[1], "moe_shared_expert_intermediate_size": shared, "moe_latent_size": latent}
    return config | experts(k, "n_routed_experts") | names


def _delta(k: GgufMetadata, config: Config) -> Config:
    """The delta rule of Qwen3-Next and Qwen3.5: the scan's keys hold the sizes of its heads."""
    values = k.integer("ssm.time_step_rank")
    return config | {
        "layer_types": _kinds(k),
        "linear_num_key_heads": k.integer("ssm.group_count"),
        "linear_num_value_heads": values,
        "linear_key_head_dim": k.integer("ssm.state_size"),
        "linear_value_head_dim": k.integer("ssm.inner_size") // values,
        "linear_conv_kernel_dim": k.integer("ssm.conv_kernel"),
    }


def _qwen_moe(model_type: str) -> Callable[[GgufMetadata], Config]:
    def read(k: GgufMetadata) -> Config:
        width = _first(k, "ffn_down_exps.weight", "the width of an expert")[2]
        shared = _first(k, "ffn_down_shexp.weight", "its shared expert")[1]
        config = base(k, model_type) | experts(k, "num_experts")
        return _delta(k, config | {"moe_intermediate_size": width, "shared_expert_intermediate_size": shared})

    return read


def _qwen3_5(k: GgufMetadata) -> Config:
    return _delta(k, dense(k, "qwen3_5_text"))


def _lfm2_moe(k: GgufMetadata) -> Config:
    """Leading dense layers, then mixtures; short convolutions between attention."""
    kinds = [_FULL if kind == _FULL else "conv" for kind in _kinds(k)]
    config = dense(k, "lfm2_moe") | experts(k, "num_experts") | {"layer_types": kinds}
    config.pop("head_dim", None)
    width = _first(k, "ffn_up_exps.weight", "the width of an expert")[1]
    return config | {
        "conv_L_cache": k.integer("shortconv.l_cache"),
        "moe_intermediate_size": width,
        "num_dense_layers": k.integer("leading_dense_block_count", 0),
    }


def _gemma3n(k: GgufMetadata) -> Config:
    """Embeddings of each layer; the last layers read the cache of earlier ones, though files keep keys and values of theirs."""
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
    """Heads of two widths, by the tensors of each layer; keys that serve as values have no matrix of their own."""
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


HYBRIDS: dict[str, Callable[[GgufMetadata], Config]] = {
    "gemma4": _gemma4,
    "jamba": _jamba,
    "granitehybrid": _granite,
    "falcon-h1": _falcon_h1,
    "nemotron_h": _nemotron_h,
    "nemotron_h_moe": _nemotron_h,
    "qwen3next": _qwen_moe("qwen3_next"),
    "qwen35": _qwen3_5,
    "qwen35moe": _qwen_moe("qwen3_5_moe_text"),
    "lfm2moe": _lfm2_moe,
    "gemma3n": _gemma3n,
}
