"""XLA matmuls: x[m, k] @ w[k, n], and the ragged one where each row block has its own weight."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.kernels.base import Kernel, normal


def multiply(x: jax.Array, w: jax.Array) -> jax.Array:
    """x[m, k] @ w[k, n] in x's dtype; int8 and fp8 accumulate wider, as their units do."""
    if x.dtype == jnp.int8:
        return jnp.matmul(x, w, preferred_element_type=jnp.int32)
    if x.dtype.itemsize == 1:
        return jnp.matmul(x, w, preferred_element_type=jnp.bfloat16)
    return x @ w


def _tf32(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.matmul(x, w, precision=jax.lax.DotAlgorithmPreset.TF32_TF32_F32)


def _fp32(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.matmul(x, w, precision=jax.lax.Precision.HIGHEST)


def build(case: KernelCase) -> Kernel:
    """Weights rotate past the cache; the activations are hot, as if the layer before had just written them."""
    m, n, k = (case.sizes[a] for a in "mnk")
    x = normal(1, (m, k), case.dtype)
    fn = {"tf32": _tf32, "fp32": _fp32}.get(case.dtype, multiply)
    return Kernel(lambda w, x: fn(x, w), lambda i: (normal(100 + i, (k, n), case.dtype, k**-0.5),), (x,))


def build_training(case: KernelCase) -> Kernel:
    """y = x @ w, dx = dy @ w^T and dw = x^T @ dy in one program, as a training step runs them."""
    m, n, k = (case.sizes[a] for a in "mnk")
    fn = {"tf32": _tf32, "fp32": _fp32}.get(case.dtype, multiply)

    def step(w: jax.Array, x: jax.Array, dy: jax.Array) -> tuple[jax.Array, ...]:
        y, back = jax.vjp(fn, x, w)
        return (y, *back(dy))

    return Kernel(
        step,
        lambda i: (normal(100 + i, (k, n), case.dtype, k**-0.5),),
        (normal(1, (m, k), case.dtype), normal(2, (m, n), case.dtype)),
    )


def uneven(tokens: int, groups: int) -> list[int]:
    """Row counts of a ragged batch: 1:2:3:... shares, at least one row each, summing to `tokens`."""
    total = groups * (groups + 1) // 2
    sizes = [max(1, tokens * (g + 1) // total) for g in range(groups)]
    sizes[-1] += tokens - sum(sizes)
    return sizes


def build_grouped(case: KernelCase) -> Kernel:
    t, n, k, g = (case.sizes[a] for a in "tnkg")
    x = normal(1, (t, k), case.dtype)
    sizes = jnp.array(uneven(t, g), jnp.int32)
    return Kernel(partial(_ragged, sizes), lambda i: (normal(100 + i, (g, k, n), case.dtype, k**-0.5),), (x,))


def _ragged(sizes: jax.Array, w: jax.Array, x: jax.Array) -> jax.Array:
    """x[t, k] whose row blocks meet w[g, k, n] each in its own group -> [t, n]."""
    return jax.lax.ragged_dot(x, w, sizes)
