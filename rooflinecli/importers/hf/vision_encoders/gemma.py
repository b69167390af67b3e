"""gemma4_vision. Source: transformers 5.23 models/gemma4/modeling_gemma4.py, Gemma4VisionModel."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import attention, feedforward
from rooflinecli.importers.hf.vision_encoders import Block, EncoderFamily, linear, side, table
from rooflinecli.specs.field_reader import ConfigFields


def gemma4(v: ConfigFields) -> Block:
    """Rotary in two axes, four norms a layer, q and k normalized per head, no biases; two tables of positions, none after the layers."""
    width = v.whole("hidden_size")
    patch = linear("patches", width, input=3 * side(v, "patch_size") ** 2, bias=False)
    return {
        "d_model": width,
        "norm": "rmsnorm",
        "norms": 4,
        "final_norm": False,
        "attention": attention(v, qk_norm="head") | {"causal": False},
        "feedforward": feedforward(v, "gated"),
        "layers": v.whole("num_hidden_layers"),
        "before": [patch, table("positions", 2 * v.whole("position_embedding_size"))],
    }


_GEMMA4 = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "head_dim": 64,
    "hidden_activation": "gelu_pytorch_tanh",
    "patch_size": 16,
    "position_embedding_size": 10240,
    "pooling_kernel_size": 3,
}
# bounds of the inputs of a matrix and of the pooled tokens are buffers; attention_bias is not read by the class
_IGNORED = frozenset(
    {
        "use_clipped_linears",
        "standardize",
        "max_position_embeddings",
        "attention_bias",
        "default_output_length",
        "global_head_dim",
        "image_seq_length",
        "video_seq_length",
    }
)
TOWERS = {"gemma4_vision": EncoderFamily(gemma4, _GEMMA4, _IGNORED)}
