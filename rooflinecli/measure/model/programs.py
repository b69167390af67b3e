"""The four timed programs: forward, a training step, prefill, and one decode step with a full cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from rooflinecli.measure.kernels.stream import adamw
from rooflinecli.measure.model.transformer import Weights, forward
from rooflinecli.specs.model import ModelSpec

PHASES = ("forward", "train", "prefill", "decode")


@dataclass(frozen=True)
class Program:
    """fn(*args) is jitted with `donate`; `carry(args, out)` gives the arguments of the next run."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    donate: tuple[int, ...] = ()
    carry: Callable[[tuple[Any, ...], Any], tuple[Any, ...]] = lambda args, out: args


def program(phase: str, spec: ModelSpec, weights: Weights, batch: int, seq: int, dtype: Any) -> Program:
    """The program of a phase on random tokens."""
    tokens = jax.random.randint(jax.random.key(3), (batch, seq), 0, spec.vocab_size)
    if phase == "train":
        return _train(spec, weights, tokens)
    if phase == "decode":
        return _decode(spec, weights, tokens[:, -1:], seq, dtype)
    if phase == "prefill":
        return Program(partial(forward, spec, last_only=True, keep=True), (weights, tokens))
    logits = jnp.ones((batch, seq, spec.vocab_size), dtype)
    return Program(
        lambda w, t, out: forward(spec, w, t)[0],
        (weights, tokens, logits),
        (2,),
        lambda args, out: (args[0], args[1], out),
    )


def loss(spec: ModelSpec, weights: Weights, tokens: jax.Array) -> jax.Array:
    """Mean cross-entropy of every position against its own target (a rolled copy), so that all S logits count."""
    logits = forward(spec, weights, tokens)[0].astype(jnp.float32)
    targets = jnp.roll(tokens, -1, axis=1)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
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


def _train(spec: ModelSpec, weights: Weights, tokens: jax.Array) -> Program:
    copies = tuple(jax.tree.map(make, weights) for make in (jnp.array, jnp.zeros_like, jnp.zeros_like))
    return Program(partial(train_step, spec), (*copies, tokens), (0, 1, 2), lambda args, out: (*out[1:], args[3]))


def _decode(spec: ModelSpec, weights: Weights, token: jax.Array, context: int, dtype: Any) -> Program:
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
