"""Pallas kernels in the portable form: grids of blocks with an accumulator in scratch. Compiled for TPU, interpreted on CPU.

Tiled matmul after the JAX Pallas guide; flash attention after Dao et al. 2022 (algorithm 1) with the running maximum and
sum of Milakov, Gimelshein 2018. Accumulation is float32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

_MASKED = -1e30  # finite, so that a fully masked block subtracts to zero instead of NaN


def _params(*semantics: str) -> Any:
    """Compiler parameters, whose class lost its TPU prefix in jax 0.7."""
    kind: Any = getattr(pltpu, "CompilerParams", None) or vars(pltpu)["TPUCompilerParams"]
    return kind(dimension_semantics=semantics)


def _matmul_kernel(x_ref: Any, w_ref: Any, o_ref: Any, acc_ref: Any, *, steps: int) -> None:
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _() -> None:
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == steps - 1)
    def _() -> None:
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def matmul(
    x: jax.Array, w: jax.Array, *, tile: tuple[int, int, int] = (512, 512, 512), interpret: bool = False
) -> jax.Array:
    """x[m, k] @ w[k, n]. Tiles (m, n, k) shrink to the operands and must divide them; raises ValueError otherwise."""
    (m, k), n = x.shape, w.shape[1]
    tm, tn, tk = (min(t, s) for t, s in zip(tile, (m, n, k), strict=True))
    if m % tm or n % tn or k % tk:
        raise ValueError(f"tile {(tm, tn, tk)} does not divide m, n, k = {(m, n, k)}")
    call = pl.pallas_call(
        partial(_matmul_kernel, steps=k // tk),
        grid=(m // tm, n // tn, k // tk),
        in_specs=[pl.BlockSpec((tm, tk), lambda i, j, s: (i, s)), pl.BlockSpec((tk, tn), lambda i, j, s: (s, j))],
        out_specs=pl.BlockSpec((tm, tn), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        interpret=interpret,
        compiler_params=_params("parallel", "parallel", "arbitrary"),
    )
    return call(x, w)


def _flash_kernel(
    q_ref: Any,
    k_ref: Any,
    v_ref: Any,
    o_ref: Any,
    m_ref: Any,
    l_ref: Any,
    acc_ref: Any,
    *,
    causal: bool,
    scale: float,
    steps: int,
) -> None:
    row, step = pl.program_id(1), pl.program_id(2)  # read here: inside a loop or a branch they do not lower
    tq, tk = q_ref.shape[1], k_ref.shape[1]

    @pl.when(step == 0)
    def _() -> None:
        m_ref[...] = jnp.full_like(m_ref, _MASKED)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when((not causal) | (step * tk < (row + 1) * tq))
    def _() -> None:
        scores = jnp.dot(q_ref[0], k_ref[0].T, preferred_element_type=jnp.float32) * scale
        if causal:
            queries = row * tq + jax.lax.broadcasted_iota(jnp.int32, (tq, tk), 0)
            keys = step * tk + jax.lax.broadcasted_iota(jnp.int32, (tq, tk), 1)
            scores = jnp.where(keys <= queries, scores, _MASKED)
        old = m_ref[:, :1]
        new = jnp.maximum(old, scores.max(axis=1, keepdims=True))
        shrink, p = jnp.exp(old - new), jnp.exp(scores - new)
        l_ref[...] = jnp.broadcast_to(shrink * l_ref[:, :1] + p.sum(axis=1, keepdims=True), l_ref.shape)
        m_ref[...] = jnp.broadcast_to(new, m_ref.shape)
        acc_ref[...] = shrink * acc_ref[...] + jnp.dot(
            p.astype(v_ref.dtype), v_ref[0], preferred_element_type=jnp.float32
        )

    @pl.when(step == steps - 1)
    def _() -> None:
        o_ref[0] = (acc_ref[...] / l_ref[:, :1]).astype(o_ref.dtype)


def flash(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool,
    tile: tuple[int, int] = (512, 512),
    interpret: bool = False,
) -> jax.Array:
    """Attention of q[b, s, h, d] over k, v[b, t, kv, d]; h is a multiple of kv. Raises ValueError when tiles do not divide."""
    (b, s, h, d), (t, kv) = q.shape, k.shape[1:3]
    tq, tk = min(tile[0], s), min(tile[1], t)
    if s % tq or t % tk or h % kv:
        raise ValueError(f"tile {(tq, tk)} does not divide lengths {(s, t)}, or {kv} key heads do not divide {h}")
    flat = [x.transpose(0, 2, 1, 3).reshape(-1, x.shape[1], d) for x in (q, k, v)]
    share = h // kv
    call = pl.pallas_call(
        partial(_flash_kernel, causal=causal, scale=d**-0.5, steps=t // tk),
        grid=(b * h, s // tq, t // tk),
        in_specs=[
            pl.BlockSpec((1, tq, d), lambda g, i, j: (g, i, 0)),
            pl.BlockSpec((1, tk, d), lambda g, i, j: (jax.lax.div(g, share), j, 0)),
            pl.BlockSpec((1, tk, d), lambda g, i, j: (jax.lax.div(g, share), j, 0)),
        ],
        out_specs=pl.BlockSpec((1, tq, d), lambda g, i, j: (g, i, 0)),
        out_shape=jax.ShapeDtypeStruct((b * h, s, d), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((tq, 128), jnp.float32),
            pltpu.VMEM((tq, 128), jnp.float32),
            pltpu.VMEM((tq, d), jnp.float32),
        ],
        interpret=interpret,
        compiler_params=_params("parallel", "parallel", "arbitrary"),
    )
    return call(*flat).reshape(b, h, s, d).transpose(0, 2, 1, 3)
