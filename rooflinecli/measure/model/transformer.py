"""A plain JAX transformer: random weights, one forward pass over tokens with or without a key/value cache, and the program of each phase;
which models it can build.

Shapes: tokens [B, S]; stream x [B, S, D]; q [B, S, N, H]; k, v [B, S, K, H]; cache per layer [B, T, K, H] twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import Json
from rooflinecli.measure.kernels.xla import adamw
from rooflinecli.specs.document import Document
from rooflinecli.specs.figure import differs
from rooflinecli.specs.model import AttentionSpec, FeedForwardSpec, LayerSpec, ModelSpec, load_model, model_from

Cache = list[tuple[jax.Array, jax.Array]]
_ACTIVATIONS = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False), "gelu_tanh": jax.nn.gelu, "gelu_new": jax.nn.gelu, "gelu_pytorch_tanh": jax.nn.gelu,
    "silu": jax.nn.silu, "swish": jax.nn.silu, "relu": jax.nn.relu, "relu2": lambda x: jnp.square(jax.nn.relu(x)),
}  # fmt: skip


def forward(
    spec: ModelSpec,
    weights: Weights,
    tokens: jax.Array,
    *,
    cache: Cache | None = None,
    last_only: bool = False,
    keep: bool = False,
) -> tuple[jax.Array, Cache]:
    """Logits [B, S or 1, V] and the cache ([] unless `keep` or `cache`).

    With `cache`, tokens are the newest ones and land in its last slots: the cache is full afterward.
    """
    length = tokens.shape[1]
    start = cache[0][0].shape[1] - length if cache else 0
    x = weights["embedding"][tokens]
    if "positions" in weights:
        x = x + weights["positions"][start : start + length]
    kept: Cache = []
    groups = [group for group in spec.layers for _ in range(group.repeat)]
    for i, (group, layer) in enumerate(zip(groups, weights["layers"], strict=True)):
        x, held = _layer(spec, group, layer, x, start, cache[i] if cache else None)
        if keep or cache:
            kept.append(held)
    if last_only:
        x = x[:, -1:]
    if "final_norm" in weights:
        x = norm(spec.norm, weights["final_norm"], x)
    logits = x @ weights["head"] if "head" in weights else jnp.einsum("bsd,vd->bsv", x, weights["embedding"])
    return (logits + weights["head_bias"] if "head_bias" in weights else logits), kept


def _layer(
    spec: ModelSpec,
    group: LayerSpec,
    layer: Weights,
    x: jax.Array,
    start: int,
    cache: tuple[jax.Array, jax.Array] | None,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    assert group.attention is not None
    first = norm(spec.norm, layer["norms"][0], x)
    attended, held = attention(group.attention, spec, layer, first, start, cache)
    if group.parallel:
        second = norm(spec.norm, layer["norms"][-1], x) if group.norms > 1 else first
        return x + attended + feedforward(group.feedforward, layer, second), held
    x = x + attended
    return x + feedforward(group.feedforward, layer, norm(spec.norm, layer["norms"][1], x)), held


def norm(kind: str, weights: Weights, x: jax.Array) -> jax.Array:
    """RMSNorm or LayerNorm over the last axis, in float32."""
    if kind == "none":
        return x
    wide = x.astype(jnp.float32)
    if kind != "rmsnorm":
        wide = wide - wide.mean(-1, keepdims=True)
    wide = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5)
    out = wide.astype(x.dtype) * weights["scale"]
    return out + weights["shift"] if "shift" in weights else out


def linear(weights: Weights, x: jax.Array) -> jax.Array:
    y = x @ weights["w"]
    return y + weights["b"] if "b" in weights else y


def attention(
    a: AttentionSpec,
    spec: ModelSpec,
    layer: Weights,
    x: jax.Array,
    start: int,
    cache: tuple[jax.Array, jax.Array] | None,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Grouped-query attention over x[B, S, D], causal; the newest tokens against the cache when there is one."""
    b, s, _ = x.shape
    h, kv, hd = a.n_heads, a.n_kv_heads or a.n_heads, a.head_dim or 0
    qkv = linear(layer["qkv"], x).reshape(b, s, h + 2 * kv, hd)
    q, k, v = qkv[:, :, :h], qkv[:, :, h : h + kv], qkv[:, :, h + kv :]
    if "q_norm" in layer:
        q, k = norm("rmsnorm", layer["q_norm"], q), norm("rmsnorm", layer["k_norm"], k)
    if spec.positions.kind == "rotary" and a.rotary:
        q, k = rotary(q, start), rotary(k, start)
    if cache is not None:
        k, v = (
            jax.lax.dynamic_update_slice_in_dim(old, new, start, axis=1) for old, new in zip(cache, (k, v), strict=True)
        )
    out = jax.nn.dot_product_attention(q, k, v, is_causal=cache is None)
    return linear(layer["out"], out.reshape(b, s, h * hd)), (k, v)


def rotary(x: jax.Array, start: int, base: float = 10000.0) -> jax.Array:
    """Rotary positions (Su et al. 2021) on x[B, S, heads, H], halves rotated against each other."""
    half = x.shape[-1] // 2
    angle = (start + jnp.arange(x.shape[1]))[:, None] / base ** (jnp.arange(half) / half)
    cos, sin = (f(angle)[None, :, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    one, two, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return jnp.concatenate([one * cos - two * sin, two * cos + one * sin, rest], axis=-1)


def feedforward(f: FeedForwardSpec, layer: Weights, x: jax.Array) -> jax.Array:
    """down(act(up(x))), gated or not; for MoE, the routed and the shared experts."""
    if f.kind != "moe":
        return linear(layer["down"], _activated(f, f.kind == "gated", linear(layer["up"], x)))
    routed = experts(f, layer, x.reshape(-1, x.shape[-1])).reshape(x.shape)
    return routed + linear(layer["down"], _activated(f, f.gated, linear(layer["up"], x))) if "up" in layer else routed


def _activated(f: FeedForwardSpec, gated: bool, u: jax.Array) -> jax.Array:
    if not gated:
        return _ACTIVATIONS[f.activation](u)
    gate, u = jnp.split(u, 2, axis=-1)
    return _ACTIVATIONS[f.activation](gate) * u


def experts(f: FeedForwardSpec, layer: Weights, x: jax.Array) -> jax.Array:
    """x[T, D] through the top_k of E experts each (Shazeer et al. 2017), sorted by expert into ragged matmuls; none is dropped."""
    top_k = f.top_k or 1
    best, who = jax.lax.top_k(linear(layer["router"], x), top_k)
    share = jax.nn.softmax(best.astype(jnp.float32), axis=-1).astype(x.dtype).reshape(-1)
    order = jnp.argsort(who.reshape(-1))
    rows = jnp.bincount(who.reshape(-1), length=f.n_experts or 1).astype(jnp.int32)
    token = order // top_k
    hidden = _activated(f, f.gated, jax.lax.ragged_dot(x[token], layer["experts_up"], rows))
    y = jax.lax.ragged_dot(hidden, layer["experts_down"], rows) * share[order][:, None]
    return jnp.zeros_like(x).at[token].add(y)


Weights = Json


def initial(spec: ModelSpec, dtype: DTypeLike, seed: int = 0) -> Weights:
    """{'embedding': [V, D], 'layers': [...], ...}; matrices normal with deviation 0.02, scales one, shifts zero."""
    counter = iter(range(10**9))

    def matrix(*shape: int) -> jax.Array:
        return (0.02 * jax.random.normal(jax.random.key(seed * 7919 + next(counter)), shape)).astype(dtype)

    d, v = spec.d_model, spec.vocab_size
    weights: Weights = {"embedding": matrix(v, d)}
    if spec.positions.kind == "learned":
        weights["positions"] = matrix(spec.positions.length or 0, d)
    weights["layers"] = [
        _layer_weights(group, spec, matrix, dtype) for group in spec.layers for _ in range(group.repeat)
    ]
    if spec.final_norm:
        weights["final_norm"] = _norm(spec.norm, d, dtype)
    if not spec.tied_embeddings:
        weights["head"] = matrix(d, v)
    if spec.lm_head_bias:
        weights["head_bias"] = jnp.zeros((v,), dtype)
    return weights


def _norm(kind: str, width: int, dtype: DTypeLike) -> Weights:
    """Scale, and shift for a layernorm; nothing for 'none'."""
    result: Weights = {} if kind == "none" else {"scale": jnp.ones((width,), dtype)}
    return result | ({"shift": jnp.zeros((width,), dtype)} if kind == "layernorm" else {})


def _linear(matrix: Callable[..., jax.Array], rows: int, columns: int, bias: bool, dtype: DTypeLike) -> Weights:
    return {"w": matrix(rows, columns)} | ({"b": jnp.zeros((columns,), dtype)} if bias else {})


def _layer_weights(group: LayerSpec, spec: ModelSpec, matrix: Callable[..., jax.Array], dtype: DTypeLike) -> Weights:
    a, f, d = group.attention, group.feedforward, spec.d_model
    assert a is not None
    h, kv, hd = a.n_heads, a.n_kv_heads or a.n_heads, a.head_dim or 0
    layer: Weights = {
        "norms": [_norm(spec.norm, d, dtype) for _ in range(group.norms)], "qkv": _linear(matrix, d, (h + 2 * kv) * hd, a.qkv_bias, dtype),
        "out": _linear(matrix, h * hd, d, a.out_bias, dtype), **(_experts if f.kind == "moe" else _dense)(f, d, matrix, dtype),
    }  # fmt: skip
    if a.qk_norm == "head":
        layer |= {name: {"scale": jnp.ones((hd,), dtype)} for name in ("q_norm", "k_norm")}
    return layer


def _dense(f: FeedForwardSpec, d: int, matrix: Callable[..., jax.Array], dtype: DTypeLike) -> Weights:
    ff = f.d_ff or 0
    return {
        "up": _linear(matrix, d, ff * (2 if f.kind == "gated" else 1), f.bias, dtype),
        "down": _linear(matrix, ff, d, f.bias, dtype),
    }


def _experts(f: FeedForwardSpec, d: int, matrix: Callable[..., jax.Array], dtype: DTypeLike) -> Weights:
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


PHASES = ("forward", "train", "prefill", "decode")


@dataclass(frozen=True)
class Program:
    """fn(*args) is jitted with `donate`; `carry(args, out)` gives the arguments of the next run."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    donate: tuple[int, ...] = ()
    carry: Callable[[tuple[Any, ...], Any], tuple[Any, ...]] = lambda args, out: args


def program(phase: str, spec: ModelSpec, weights: Weights, batch: int, seq: int, dtype: DTypeLike) -> Program:
    """The program of a phase on random tokens."""
    tokens = jax.random.randint(jax.random.key(3), (batch, seq), 0, spec.vocab_size)
    if phase == "train":
        copies = tuple(jax.tree.map(make, weights) for make in (jnp.array, jnp.zeros_like, jnp.zeros_like))
        return Program(partial(train_step, spec), (*copies, tokens), (0, 1, 2), lambda args, out: (*out[1:], args[3]))
    if phase == "decode":
        return _decode(spec, weights, tokens[:, -1:], seq, dtype)
    if phase == "prefill":
        return Program(partial(forward, spec, last_only=True, keep=True), (weights, tokens))
    logits = jnp.ones((batch, seq, spec.vocab_size), dtype)
    return Program(
        lambda w, t, out: forward(spec, w, t)[0], (weights, tokens, logits), (2,), lambda args, out: (args[0], args[1], out),
    )  # fmt: skip


def loss(spec: ModelSpec, weights: Weights, tokens: jax.Array) -> jax.Array:
    """Mean cross-entropy of every position against its own target (a rolled copy), so that all S logits count."""
    logits = forward(spec, weights, tokens)[0].astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, jnp.roll(tokens, -1, axis=1)[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def train_step(
    spec: ModelSpec, weights: Weights, first: Weights, second: Weights, tokens: jax.Array
) -> tuple[Any, ...]:
    """Loss, gradients and AdamW: (loss, weights, first moments, second moments)."""
    value, gradients = jax.value_and_grad(partial(loss, spec))(weights, tokens)
    updated = jax.tree.map(adamw, weights, gradients, first, second)
    leaves: Any = jax.tree.structure(weights)
    parts = [jax.tree.unflatten(leaves, part) for part in zip(*leaves.flatten_up_to(updated), strict=True)]
    return (value, *parts)


def _decode(spec: ModelSpec, weights: Weights, token: jax.Array, context: int, dtype: DTypeLike) -> Program:
    """One new token per sequence; the cache, donated and carried on, holds `context` tokens with the new one."""
    batch = token.shape[0]
    cache = []
    for i, group in enumerate(g for g in spec.layers for _ in range(g.repeat)):
        a = group.attention
        assert a is not None
        shape = (batch, context, a.n_kv_heads or a.n_heads, a.head_dim or 0)
        cache.append(tuple(jax.random.normal(jax.random.key(50 + 2 * i + j), shape).astype(dtype) for j in range(2)))
    fn = lambda w, t, held: forward(spec, w, t, cache=held)  # noqa: E731
    return Program(fn, (weights, token, cache), (2,), lambda args, out: (args[0], args[1], out[1]))


def scaled(name: str, layers: int | None, d_model: int | None, vocab: int | None) -> ModelSpec:
    """The model called `name`, scaled down where asked: heads, d_ff and key/value heads shrink with the width.

    Raises UsageError for what cannot be scaled or built.
    """
    spec = load_model(name)
    data = {k: v for k, v in spec.to_dict(differs).items() if k != "parameters_published"}
    data["layers"] = [_scaled_layer(group, spec.d_model, d_model) for group in _first(spec.layers, layers)]
    data |= {k: v for k, v in (("d_model", d_model), ("vocab_size", vocab)) if v is not None}
    small = model_from(Document(data, spec.document.path))
    check(small)
    return small


def _first(groups: list[LayerSpec], layers: int | None) -> list[LayerSpec]:
    """The first `layers` layers."""
    if layers is None:
        return groups
    kept: list[LayerSpec] = []
    for group in groups:
        take = min(group.repeat, layers - sum(g.repeat for g in kept))
        if take > 0:
            kept.append(group.with_changes(repeat=take))
    return kept


def _scaled_layer(group: LayerSpec, old: int, new: int | None) -> Json:
    """A layer group as data, its width scaled from `old` to `new`: head_dim stays, heads and d_ff shrink in proportion."""
    data = group.to_dict(lambda field, value: value is not None)
    if new is None:
        return data
    attention, feedforward = data.get("attention"), data["feedforward"]
    if attention:
        heads = max(1, round(attention["n_heads"] * new / old))
        share = attention["n_heads"] // (attention.get("n_kv_heads") or attention["n_heads"])
        kv = max(1, heads // share)
        attention |= {"n_heads": heads - heads % kv, "n_kv_heads": kv}
    for width in ("d_ff", "shared_d_ff"):
        if feedforward.get(width):
            feedforward[width] = max(8, round(feedforward[width] * new / old / 8) * 8)
    return data


def check(spec: ModelSpec) -> None:
    """Raises UsageError naming what the JAX transformer cannot build."""
    why = _unsupported_model(spec)
    for group in spec.layers:
        why = why or _unsupported_attention(group.attention) or _unsupported_feedforward(group)
    if why:
        raise UsageError(
            f"{spec.name}: measure model builds decoder transformers with MHA or GQA, dense or with experts, and this one has {why}; "
            "try gpt2 or llama-3.2-1b with --layers and --d-model"
        )


def _unsupported_model(spec: ModelSpec) -> str:
    if not spec.vocab_size or spec.patches or spec.towers or not spec.lm_head:
        return "no vocabulary or language-model head"
    if spec.both_ways:
        return "attention both ways"
    if spec.before or spec.after or any(group.pieces or group.cross for group in spec.layers):
        return "modules outside its layers"
    if spec.embedding_dim or spec.embedding_norm or spec.pre_norm or spec.n_classes or spec.projection_dim:
        return "an embedding of another width, or norms around it"
    if spec.positions.kind not in ("rotary", "learned", "none"):
        return f"{spec.positions.kind} positions"
    return ""


def _unsupported_attention(a: AttentionSpec | None) -> str:
    if a is None or a.kind not in ("mha", "mqa", "gqa"):
        return "no attention, or attention of another kind"
    if a.chunk or a.window or a.sinks or not a.causal:
        return "windows, chunks, sinks or bidirectional attention"
    return f"a {a.qk_norm} q/k norm" if a.qk_norm not in ("none", "head") else ""


def _unsupported_feedforward(group: LayerSpec) -> str:
    f = group.feedforward
    if f.kind not in ("dense", "gated", "moe"):
        return f"a {f.kind} feed-forward"
    if f.kind == "moe" and (f.latent_dim or f.score_bias or f.shared_gate or f.bias):
        return "experts with biases, a latent width or a shared gate"
    if f.activation not in _ACTIVATIONS:
        return f"the activation {f.activation}"
    if group.norms not in (1, 2) or (group.norms == 1 and not group.parallel):
        return f"{group.norms} norms per layer"
    return ""
