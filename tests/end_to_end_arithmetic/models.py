"""Models small enough to multiply out by hand; widths differ wherever two could be mistaken for each other."""

from __future__ import annotations

# 4 query and 2 key/value heads of 32 at a width of 256, so that heads x head_dim is not d_model
_DENSE = """
d_model: 256
vocab_size: 1000
attention: {kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 32}
feedforward: {kind: gated, d_ff: 512}
"""
_MOE = """
d_model: 256
vocab_size: 1000
attention: {kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 32}
feedforward: {kind: moe, n_experts: 8, top_k: 2, d_ff: 160, n_shared: 1, shared_d_ff: 192}
layers:
  - {repeat: 2, feedforward: {kind: gated, d_ff: 512}}
  - {repeat: 4}
"""
_ENCODER = """
d_model: 256
attention: {kind: mha, n_heads: 8, head_dim: 32, causal: false, qkv_bias: true, out_bias: true}
feedforward: {kind: dense, d_ff: 512, bias: true}
norm: layernorm
positions: {kind: learned, length: 50}
patches: {image: 112, patch: 16}
n_classes: 10
max_context: 50
layers: 6
"""
_TEXT = """towers:
  - name: text
    source: by hand
    d_model: 256
    vocab_size: 1000
    attention: {kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 32}
    feedforward: {kind: gated, d_ff: 512}
    lm_head: false
    projection_dim: 64
    max_context: 40
    layers: 2
"""
MODELS = {
    "dense": _DENSE + "layers: 6\n",
    "tied": _DENSE + "layers: 6\ntied_embeddings: true\n",
    "windowed": _DENSE
    + "layers:\n  - {repeat: 2, pattern: [{attention: {window: 64}}, {}, {attention: {chunk: 96}}]}\n",
    # two layers that see everything before four that keep a cache
    "prefix": _DENSE + "layers:\n  - {repeat: 2, attention: {causal: false}}\n  - {repeat: 4}\n",
    # checkpoints stored narrower: all linear layers in eight bits, or in four with a scale and a zero point per 64
    "eight": _DENSE + "layers: 6\nquantization: {dtype: fp8}\n",
    "four": _DENSE + "layers: 6\nquantization: {dtype: int4, group_size: 64, scale_bits: 16, zero_bits: 8}\n",
    "moe": _MOE,
    "eight_experts": _MOE + "quantization: {dtype: fp8, applies_to: experts}\n",
    "mla": """
d_model: 256
vocab_size: 1000
attention: {kind: mla, n_heads: 4, q_lora_rank: 96, kv_lora_rank: 64, qk_nope_head_dim: 32, qk_rope_head_dim: 16, v_head_dim: 24}
feedforward: {kind: gated, d_ff: 512}
layers: 6
""",
    "mla_wide": """
d_model: 256
vocab_size: 1000
attention: {kind: mla, n_heads: 72, kv_lora_rank: 64, qk_nope_head_dim: 32, qk_rope_head_dim: 16, v_head_dim: 24}
feedforward: {kind: gated, d_ff: 512}
layers: 6
""",
    "encoder": _ENCODER,
    "pair": _ENCODER + _TEXT,
}
