"""Random weights of a model: one dict per layer, shapes read off the spec. Fused as the ledger has them: qkv, gate and up."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rooflinecli.specs.model import FeedForwardSpec, LayerSpec, ModelSpec

Weights = dict[str, Any]


def initial(spec: ModelSpec, dtype: Any, seed: int = 0) -> Weights:
    """{'embedding': [V, D], 'layers': [...], ...}; matrices normal with deviation 0.02, scales one, shifts zero."""
    counter = iter(range(10**9))

    def matrix(*shape: int) -> jax.Array:
        return (0.02 * jax.random.normal(jax.random.key(seed * 7919 + next(counter)), shape)).astype(dtype)

    d, v = spec.d_model, spec.vocab_size
    weights: Weights = {"embedding": matrix(v, d)}
    if spec.positions.kind == "learned":
        weights["positions"] = matrix(spec.positions.length or 0, d)
    weights["layers"] = [_layer(group, spec, matrix, dtype) for group in spec.layers for _ in range(group.repeat)]
    if spec.final_norm:
        weights["final_norm"] = _norm(spec.norm, d, dtype)
    if not spec.tied_embeddings:
        weights["head"] = matrix(d, v)
    if spec.lm_head_bias:
        weights["head_bias"] = jnp.zeros((v,), dtype)
    return weights


def _norm(kind: str, width: int, dtype: Any) -> Weights:
    """Scale, and shift for a layernorm; nothing for 'none'."""
    result: Weights = {} if kind == "none" else {"scale": jnp.ones((width,), dtype)}
    return result | ({"shift": jnp.zeros((width,), dtype)} if kind == "layernorm" else {})


def _linear(matrix: Any, rows: int, columns: int, bias: bool, dtype: Any) -> Weights:
    return {"w": matrix(rows, columns)} | ({"b": jnp.zeros((columns,), dtype)} if bias else {})


def _layer(group: LayerSpec, spec: ModelSpec, matrix: Any, dtype: Any) -> Weights:
    a, f, d = group.attention, group.feedforward, spec.d_model
    assert a is not None
    h, kv, hd = a.n_heads, a.n_kv_heads or a.n_heads, a.head_dim or 0
    layer: Weights = {
        "norms": [_norm(spec.norm, d, dtype) for _ in range(group.norms)],
        "qkv": _linear(matrix, d, (h + 2 * kv) * hd, a.qkv_bias, dtype),
        "out": _linear(matrix, h * hd, d, a.out_bias, dtype),
        **(_experts if f.kind == "moe" else _dense)(f, d, matrix, dtype),
    }
    if a.qk_norm == "head":
        layer["q_norm"] = layer["k_norm"] = {"scale": jnp.ones((hd,), dtype)}
        layer["k_norm"] = {"scale": jnp.ones((hd,), dtype)}
    return layer


def _dense(f: FeedForwardSpec, d: int, matrix: Any, dtype: Any) -> Weights:
    ff = f.d_ff or 0
    return {
        "up": _linear(matrix, d, ff * (2 if f.kind == "gated" else 1), f.bias, dtype),
        "down": _linear(matrix, ff, d, f.bias, dtype),
    }


def _experts(f: FeedForwardSpec, d: int, matrix: Any, dtype: Any) -> Weights:
    """A router [D, E], all experts in one array each way, and the shared expert where there is one."""
    e, ff, columns = f.n_experts or 0, f.d_ff or 0, 2 if f.gated else 1
    layer: Weights = {
        "router": _linear(matrix, d, e, f.router_bias, dtype),
        "experts_up": matrix(e, d, columns * ff),
        "experts_down": matrix(e, ff, d),
    }
    shared = f.shared_d_ff or f.n_shared * ff
    if shared:
        bias = bool(f.shared_bias)
        layer["up"] = _linear(matrix, d, columns * shared, bias, dtype)
        layer["down"] = _linear(matrix, shared, d, bias, dtype)
    return layer


def count(weights: Weights) -> int:
    """Parameters in all."""
    return sum(int(leaf.size) for leaf in jax.tree.leaves(weights))
