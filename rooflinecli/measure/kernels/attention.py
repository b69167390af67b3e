"""XLA attention: jax.nn.dot_product_attention, through cuDNN where the device has it."""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.kernels.base import Arrays, Kernel, normal

Implementation = Literal["xla", "cudnn"]


def build_prefill(case: KernelCase) -> Kernel:
    """q[b, s, h, d] over k, v[b, s, kv, d]: all streamed."""
    b, s, h, kv, d = (case.sizes[a] for a in ("b", "s", "h", "kv", "d"))
    implementation: Implementation = "cudnn" if case.engine == "cudnn" else "xla"

    def fn(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=case.op == "prefill", implementation=implementation)

    def rotating(i: int) -> Arrays:
        return (
            normal(3 * i, (b, s, h, d), case.dtype),
            normal(3 * i + 1, (b, s, kv, d), case.dtype),
            normal(3 * i + 2, (b, s, kv, d), case.dtype),
        )

    return Kernel(fn, rotating)


def build_training(case: KernelCase) -> Kernel:
    """Causal attention and the gradients of q, k and v in one program."""
    b, s, h, d = (case.sizes[a] for a in ("b", "s", "h", "d"))
    fn = partial(jax.nn.dot_product_attention, is_causal=True)

    def step(q: jax.Array, k: jax.Array, v: jax.Array, dy: jax.Array) -> Arrays:
        y, back = jax.vjp(fn, q, k, v)
        return (y, *back(dy))

    return Kernel(step, build_prefill(case).rotating, (normal(11, (b, s, h, d), case.dtype),))


def build_decode(case: KernelCase) -> Kernel:
    """q[b, 1, h, d] over a cache k, v[b, t, kv, d]: the cache streams from memory, q is hot."""
    b, t, h, kv, d = (case.sizes[a] for a in ("b", "t", "h", "kv", "d"))
    implementation: Implementation = "cudnn" if case.engine == "cudnn" else "xla"
    q = normal(7, (b, 1, h, d), case.dtype)

    def fn(k: jax.Array, v: jax.Array, q: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, implementation=implementation)

    return Kernel(
        fn, lambda i: (normal(2 * i, (b, t, kv, d), case.dtype), normal(2 * i + 1, (b, t, kv, d), case.dtype)), (q,)
    )
