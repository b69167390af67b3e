"""XLA's kernels: matmuls, plain and ragged; attention, through cuDNN where the device has it; memory streams, elementwise operations,
the optimizer's update and the embedding gather. `build(case)` makes one ready to be compiled and timed.

Pallas matmul and flash attention are those that jax ships: Mosaic GPU on Hopper, Mosaic on TPU. They may move between jax versions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.kernels.base import Arrays, Kernel, normal, replaced

BANDS = (8, 16)  # output tiles per L2 band on Hopper; the quickest is kept
TPU_BLOCK = (512, 1024)


def multiply(x: jax.Array, w: jax.Array) -> jax.Array:
    """x[m, k] @ w[k, n] in x's dtype; int8 and fp8 accumulate wider, as their units do."""
    if x.dtype == jnp.int8:
        return jnp.matmul(x, w, preferred_element_type=jnp.int32)
    if x.dtype.itemsize == 1:
        return jnp.matmul(x, w, preferred_element_type=jnp.bfloat16)
    return x @ w


def _matmul_in(dtype: str) -> Callable[[jax.Array, jax.Array], jax.Array]:
    precision: Any = {"tf32": jax.lax.DotAlgorithmPreset.TF32_TF32_F32, "fp32": jax.lax.Precision.HIGHEST}.get(dtype)
    return multiply if precision is None else partial(jnp.matmul, precision=precision)


def _weights(case: KernelCase, *shape: int) -> Callable[[int], Arrays]:
    return lambda i: (normal(100 + i, shape, case.dtype, case.sizes["k"] ** -0.5),)


def _matmul(case: KernelCase) -> Kernel:
    """Weights rotate past the cache; the activations are hot, as if the layer before had just written them."""
    m, n, k = (case.sizes[a] for a in "mnk")
    multiplied = _matmul_in(case.dtype)
    return Kernel(lambda w, x: multiplied(x, w), _weights(case, k, n), (normal(1, (m, k), case.dtype),))


def _matmul_training(case: KernelCase) -> Kernel:
    """y = x @ w, dx = dy @ w^T and dw = x^T @ dy in one program, as a training step runs them."""
    m, n, k = (case.sizes[a] for a in "mnk")

    def step(w: jax.Array, x: jax.Array, dy: jax.Array) -> Arrays:
        y, pullback = jax.vjp(_matmul_in(case.dtype), x, w)
        return (y, *pullback(dy))

    return Kernel(step, _weights(case, k, n), (normal(1, (m, k), case.dtype), normal(2, (m, n), case.dtype)))


def tokens_per_expert(tokens: int, experts: int) -> list[int]:
    """Tokens of each expert of an uneven batch: shares as 1:2:3:..., at least one each, summing to `tokens`."""
    total = experts * (experts + 1) // 2
    sizes = [max(1, tokens * (expert + 1) // total) for expert in range(experts)]
    sizes[-1] += tokens - sum(sizes)
    return sizes


def _grouped(case: KernelCase) -> Kernel:
    """x[tokens, k] with w[experts, k, n], the weights of each token those of its expert -> [tokens, n]."""
    tokens, n, k, experts = (case.sizes[a] for a in "tnkg")
    sizes = jnp.array(tokens_per_expert(tokens, experts), jnp.int32)
    return Kernel(
        lambda w, x: jax.lax.ragged_dot(x, w, sizes),
        _weights(case, experts, k, n),
        (normal(1, (tokens, k), case.dtype),),
    )


def _attention(case: KernelCase, **options: Any) -> Callable[..., jax.Array]:
    implementation: Literal["xla", "cudnn"] = "cudnn" if case.engine == "cudnn" else "xla"
    return partial(jax.nn.dot_product_attention, implementation=implementation, **options)


def prefill(case: KernelCase) -> Kernel:
    """q[batch, seq, heads, head_dim] over k, v[batch, seq, kv_heads, head_dim]: all streamed."""
    batch, seq, heads, kv_heads, head_dim = (case.sizes[a] for a in ("b", "s", "h", "kv", "d"))

    def rotating(i: int) -> Arrays:
        shapes = [(batch, seq, n, head_dim) for n in (heads, kv_heads, kv_heads)]
        return tuple(normal(3 * i + j, shape, case.dtype) for j, shape in enumerate(shapes))

    return Kernel(_attention(case, is_causal=case.op == "prefill"), rotating)


def _prefill_training(case: KernelCase) -> Kernel:
    """Causal attention and the gradients of q, k and v in one program."""
    output_shape = tuple(case.sizes[a] for a in ("b", "s", "h", "d"))

    def step(q: jax.Array, k: jax.Array, v: jax.Array, dy: jax.Array) -> Arrays:
        y, pullback = jax.vjp(partial(jax.nn.dot_product_attention, is_causal=True), q, k, v)
        return (y, *pullback(dy))

    return Kernel(step, prefill(case).rotating, (normal(11, output_shape, case.dtype),))


def _decode(case: KernelCase) -> Kernel:
    """q[batch, 1, heads, head_dim] over a cache k, v[batch, context, kv_heads, head_dim]: the cache streams from memory, q is hot."""
    batch, context, heads, kv_heads, head_dim = (case.sizes[a] for a in ("b", "t", "h", "kv", "d"))
    attention, shape = _attention(case), (batch, context, kv_heads, head_dim)
    return Kernel(
        lambda k, v, q: attention(q, k, v),
        lambda i: (normal(2 * i, shape, case.dtype), normal(2 * i + 1, shape, case.dtype)),
        (normal(7, (batch, 1, heads, head_dim), case.dtype),),
    )


def _rmsnorm(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def _layernorm(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return _rmsnorm(wide - wide.mean(-1, keepdims=True)).astype(x.dtype)


def adamw(
    weight: jax.Array, gradient: jax.Array, mean: jax.Array, square: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One AdamW update (Loshchilov, Hutter 2019) of float32 weights and both moments: 4 tensors read, 3 written."""
    mean, square = 0.9 * mean + 0.1 * gradient, 0.95 * square + 0.05 * gradient * gradient
    return weight - 3e-4 * (mean / (jnp.sqrt(square) + 1e-8) + 0.1 * weight), mean, square


# name -> (function, operands read)
ELEMENTWISE: dict[str, tuple[Callable[..., jax.Array], int]] = {
    "copy": (jnp.negative, 1),  # a plain copy would be elided; a sign flip costs the same traffic
    "triad": (lambda x, y: x + 0.5 * y, 2),  # McCalpin, STREAM
    "read": (lambda x: jnp.max(x.reshape(-1, 1024), axis=0), 1),
    "layernorm": (_layernorm, 1),
    "rmsnorm": (_rmsnorm, 1),
    "gelu": (jax.nn.gelu, 1),
    "swiglu": (lambda gate, up: jax.nn.silu(gate) * up, 2),
    "residual": (jnp.add, 2),
    "softmax": (jax.nn.softmax, 1),
}


def _elementwise(case: KernelCase) -> Kernel:
    """An operation over x[rows, width]; every operand streams from memory."""
    fn, operands = ELEMENTWISE[case.op]
    shape = (case.sizes["rows"], case.sizes["width"])
    return Kernel(fn, lambda i: tuple(normal(operands * i + j, shape, case.dtype) for j in range(operands)))


def _optimizer(case: KernelCase) -> Kernel:
    shape = (case.sizes["rows"], case.sizes["width"])

    def rotating(i: int) -> Arrays:
        first = (normal(3 * i + j, shape, "fp32", 0.1) for j in range(3))
        return (*first, jnp.abs(normal(3 * i + 7, shape, "fp32", 0.01)))

    return Kernel(adamw, rotating)


def _gather(case: KernelCase) -> Kernel:
    """Rows of a table by random token ids, as an embedding does."""
    tokens, width, table = (case.sizes[a] for a in ("tokens", "width", "table"))
    rows = normal(5, (table, width), case.dtype)
    return Kernel(
        lambda ids, rows: rows[ids], lambda i: (jax.random.randint(jax.random.key(i), (tokens,), 0, table),), (rows,)
    )


_BUILDERS: dict[str, Callable[[KernelCase], Kernel]] = {
    "matmul": _matmul, "matmul_training": _matmul_training, "grouped": _grouped, "prefill": prefill, "prefill_full": prefill,
    "prefill_training": _prefill_training, "decode": _decode, "adamw": _optimizer, "gather": _gather,
}  # fmt: skip


def hopper_matmul(x: jax.Array, w: jax.Array, band: int = BANDS[0]) -> jax.Array:
    """x[m, k] @ w[k, n] by jax's warp-specialized persistent matmul; tiles of 128 x 256, 64 deep."""
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as ops

    config = ops.TuningConfig(
        tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, epi_tile_m=64, epi_tile_n=64, grid_minor_dim=ops.MatmulDimension.N,
        grid_tile_width=band, wg_dimension=ops.MatmulDimension.N,
    )  # fmt: skip
    return ops.matmul(x, w, None, config=config)


def hopper_attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> jax.Array:
    """Attention of q[batch, seq, heads, head_dim] over k, v[batch, context, kv_heads, head_dim]; the kernel leaves the scale of the scores to its caller."""
    from jax.experimental.pallas.ops.gpu import attention_mgpu as ops

    config = ops.TuningConfig(
        block_q=64, block_kv=128, max_concurrent_steps=2, use_schedule_barrier=True, causal=causal
    )
    out: jax.Array = ops.attention(q * q.dtype.type(q.shape[-1] ** -0.5), k, v, config)
    return out


def tpu_attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> jax.Array:
    """Attention of q[batch, seq, heads, head_dim] over k, v[batch, context, kv_heads, head_dim]; jax's TPU kernel takes heads before the sequence
    and as many key heads as query heads."""
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat(group, axis=2) for x in (k, v))
    out = flash_attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), causal=causal, sm_scale=q.shape[-1] ** -0.5)
    return out.transpose(0, 2, 1, 3)


def build(case: KernelCase) -> Kernel:
    """The kernel of a case; a Pallas one computes XLA's inputs by jax's own kernel for this device."""
    base = _BUILDERS.get(case.op, _elementwise)(case)
    if case.engine != "pallas":
        return base
    tpu = jax.default_backend() == "tpu"
    if case.op == "matmul" and tpu:
        from jax.experimental.pallas.ops.tpu.matmul import matmul as tpu_matmul

        return replaced(base, lambda w, x: tpu_matmul(x, w, block_shape=TPU_BLOCK))
    if case.op == "matmul":
        return replaced(base, *((lambda w, x, band=band: hopper_matmul(x, w, band)) for band in BANDS))
    attention = tpu_attention if tpu else hopper_attention
    return replaced(base, lambda q, k, v: attention(q, k, v, case.op == "prefill"))
