"""Memory streams, elementwise operations and reductions, the optimizer's update and the embedding gather."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.kernels.base import Kernel, normal


def _copy(x: jax.Array) -> jax.Array:
    return -x  # a plain copy would be elided; a sign flip costs the same traffic


def _triad(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + 0.5 * y  # McCalpin, STREAM


def _read(x: jax.Array) -> jax.Array:
    return jnp.max(x.reshape(-1, 1024), axis=0)


def _layernorm(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return _rmsnorm(wide - wide.mean(-1, keepdims=True)).astype(x.dtype)


def _rmsnorm(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def _swiglu(gate: jax.Array, up: jax.Array) -> jax.Array:
    return jax.nn.silu(gate) * up


def adamw(p: jax.Array, g: jax.Array, m: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One AdamW update (Loshchilov, Hutter 2019) of a float32 parameter: 4 tensors read, 3 written."""
    m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
    return p - 3e-4 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * p), m, v


# name -> (function, operands read)
ROWS: dict[str, tuple[Callable[..., jax.Array], int]] = {
    "copy": (_copy, 1),
    "triad": (_triad, 2),
    "read": (_read, 1),
    "layernorm": (_layernorm, 1),
    "rmsnorm": (_rmsnorm, 1),
    "gelu": (jax.nn.gelu, 1),
    "swiglu": (_swiglu, 2),
    "residual": (jnp.add, 2),
    "softmax": (jax.nn.softmax, 1),
}


def build(case: KernelCase) -> Kernel:
    """An operation over x[rows, width]; every operand streams from memory."""
    fn, operands = ROWS[case.op]
    shape = (case.sizes["rows"], case.sizes["width"])
    return Kernel(fn, lambda i: tuple(normal(operands * i + j, shape, case.dtype) for j in range(operands)))


def build_optimizer(case: KernelCase) -> Kernel:
    shape = (case.sizes["rows"], case.sizes["width"])
    return Kernel(
        adamw,
        lambda i: (
            *(normal(3 * i + j, shape, "fp32", 0.1) for j in range(3)),
            jnp.abs(normal(3 * i + 7, shape, "fp32", 0.01)),
        ),
    )


def build_gather(case: KernelCase) -> Kernel:
    """Rows of a table by random token ids, as an embedding does."""
    tokens, width, table = (case.sizes[a] for a in ("tokens", "width", "table"))
    rows = normal(5, (table, width), case.dtype)
    return Kernel(
        lambda ids, rows: rows[ids], lambda i: (jax.random.randint(jax.random.key(i), (tokens,), 0, table),), (rows,)
    )
