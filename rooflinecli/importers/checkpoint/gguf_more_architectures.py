"""Further GGUF architectures whose keys are those of every decoder: what stands beside them is read off the tensors that are there.

Source: ggml-org/llama.cpp gguf-py constants.py and conversion scripts (gguf 0.19.0).
"""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.importers.checkpoint.gguf_metadata import Config, GgufMetadata, base, dense, experts

_Q, _OUT, _UP = "blk.0.attn_q.bias", "blk.0.attn_output.bias", "blk.0.ffn_up.bias"
# architecture -> model_type, and the switches of the config with the tensor that says they are on
_DENSE: dict[str, tuple[str, dict[str, str]]] = {
    "olmo": ("olmo", {"attention_bias": _Q}),
    "olmo2": ("olmo2", {"attention_bias": _Q}),
    "granite": ("granite", {"attention_bias": _Q, "mlp_bias": _UP}),
    "smollm3": ("smollm3", {"attention_bias": _Q, "mlp_bias": _UP}),
    "arcee": ("arcee", {"attention_bias": _Q, "mlp_bias": _UP}),
    "exaone4": ("exaone4", {}),
    "nemotron": ("nemotron", {"attention_bias": _Q, "mlp_bias": _UP}),
    "starcoder2": ("starcoder2", {"use_bias": _Q}),
    "command-r": ("cohere", {"attention_bias": _Q, "use_qk_norm": "blk.0.attn_q_norm.weight"}),
    "cohere2": ("cohere2", {"attention_bias": _Q}),
    "glm4": ("glm4", {"attention_bias": _Q}),
    "ernie4_5": ("ernie4_5", {"use_bias": _Q}),
    "hunyuan-dense": ("hunyuan_v1_dense", {"attention_bias": _Q}),
    "seed_oss": ("seed_oss", {"attention_bias": _Q, "attention_out_bias": _OUT, "mlp_bias": _UP}),
    "qwen2vl": ("qwen2", {}),
    "qwen3vl": ("qwen3", {}),
    "mistral3": ("ministral3", {}),
    "apertus": ("apertus", {"attention_bias": _Q}),
    "internlm2": ("llama", {"attention_bias": _Q, "mlp_bias": _UP}),
}
# the same for mixtures on every layer, with the name that the config gives to their count
_MIXED: dict[str, tuple[str, str, dict[str, str]]] = {
    "olmoe": ("olmoe", "num_experts", {"attention_bias": _Q}),
    "granitemoe": ("granitemoe", "num_local_experts", {"attention_bias": _Q}),
    "phimoe": ("phimoe", "num_local_experts", {"attention_bias": _Q, "lm_head_bias": "output.bias"}),
    "minimax-m2": ("minimax_m2", "num_local_experts", {}),
}
_WINDOWED = ("exaone4", "starcoder2", "cohere2")


def _dense_reader(model_type: str, switches: dict[str, str]) -> Callable[[GgufMetadata], Config]:
    def read(k: GgufMetadata) -> Config:
        config = dense(k, model_type) | {name: k.has(tensor) for name, tensor in switches.items()}
        window = k.whole("attention.sliding_window", 0)
        if model_type in _WINDOWED:
            config["sliding_window"] = window or None
        return config

    return read


def _mixed_reader(model_type: str, count: str, switches: dict[str, str]) -> Callable[[GgufMetadata], Config]:
    def read(k: GgufMetadata) -> Config:
        width = k.shape("blk.0.ffn_up_exps.weight")[1]
        said = {name: k.has(tensor) for name, tensor in switches.items()}
        return base(k, model_type) | experts(k, count) | {"intermediate_size": width} | said

    return read


def _stablelm(k: GgufMetadata) -> Config:
    """One norm where attention and MLP stand side by side."""
    config = dense(k, "stablelm")
    config.pop("head_dim", None)  # heads fill the width
    return config | {
        "use_qkv_bias": k.has(_Q),
        "qk_layernorm": k.has("blk.0.attn_q_norm.weight"),
        "use_parallel_residual": not k.has("blk.0.ffn_norm.weight"),
    }


def _dots1(k: GgufMetadata) -> Config:
    """Leading dense layers, shared experts as wide as routed ones."""
    return (
        dense(k, "dots1")
        | experts(k, "n_routed_experts")
        | {
            "moe_intermediate_size": k.whole("expert_feed_forward_length"),
            "n_shared_experts": k.whole("expert_shared_count", 0),
            "first_k_dense_replace": k.whole("leading_dense_block_count", 0),
            "attention_bias": k.has(_Q),
            "sliding_window": None,
        }
    )


MORE: dict[str, Callable[[GgufMetadata], Config]] = {
    **{name: _dense_reader(*row) for name, row in _DENSE.items()},
    **{name: _mixed_reader(*row) for name, row in _MIXED.items()},
    "stablelm": _stablelm,
    "dots1": _dots1,
}
