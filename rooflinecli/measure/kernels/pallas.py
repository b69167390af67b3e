"""Pallas matmul and flash attention kernels shipped with jax: Mosaic GPU on Hopper, Mosaic on TPU. They may move between jax versions."""

from __future__ import annotations

import jax

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.kernels import xla
from rooflinecli.measure.kernels.base import Kernel, replaced

BANDS = (8, 16)  # output tiles per L2 band on Hopper; the quickest is kept
TPU_BLOCK = (512, 1024)


def build(case: KernelCase) -> Kernel:
    """The same inputs as XLA's kernel, by jax's own for this device."""
    base, tpu = xla.build(case), jax.default_backend() == "tpu"
    if case.op == "matmul" and tpu:
        from jax.experimental.pallas.ops.tpu.matmul import matmul as tpu_matmul

        return replaced(base, lambda w, x: tpu_matmul(x, w, block_shape=TPU_BLOCK))
    if case.op == "matmul":
        return replaced(base, *((lambda w, x, band=band: hopper_matmul(x, w, band)) for band in BANDS))
    attend = tpu_attention if tpu else hopper_attention
    return replaced(base, lambda q, k, v: attend(q, k, v, case.op == "prefill"))


def hopper_matmul(x: jax.Array, w: jax.Array, band: int = BANDS[0]) -> jax.Array:
    """x[m, k] @ w[k, n] by jax's warp-specialized persistent matmul; tiles of 128 x 256, 64 deep."""
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as ops

    config = ops.TuningConfig(
        tile_m=128,
        tile_n=128,
        tile_k=64,
        max_concurrent_steps=4,
        epi_tile_m=64,
        epi_tile_n=64,
        grid_minor_dim=ops.MatmulDimension.N,
        grid_tile_width=band,
        wg_dimension=ops.MatmulDimension.N,
    )
    return ops.matmul(x, w, None, config=config)


def hopper_attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> jax.Array:
    """Attention of q[b, s, h, d] over k, v[b, t, kv, d]; the kernel leaves the scale of the scores to its caller."""
    from jax.experimental.pallas.ops.gpu import attention_mgpu as ops

    config = ops.TuningConfig(
        block_q=64, block_kv=128, max_concurrent_steps=2, use_schedule_barrier=True, causal=causal
    )
    out: jax.Array = ops.attention(q * q.dtype.type(q.shape[-1] ** -0.5), k, v, config)
    return out


def tpu_attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> jax.Array:
    """Attention of q[b, s, h, d] over k, v[b, t, kv, d]; jax's TPU kernel takes [b, h, s, d] and as many key heads as query heads."""
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat(group, axis=2) for x in (k, v))
    out = flash_attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), causal=causal, sm_scale=q.shape[-1] ** -0.5)
    return out.transpose(0, 2, 1, 3)
