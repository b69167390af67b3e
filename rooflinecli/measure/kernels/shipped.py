"""The Pallas kernels that the jax wheel ships for this device, timed beside ours and XLA's. They may move between versions."""

from __future__ import annotations

from typing import Any

import jax

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.kernels import attention as xla_attention
from rooflinecli.measure.kernels import matmul as xla_matmul
from rooflinecli.measure.kernels.base import Kernel, replaced


def build_matmul(case: KernelCase) -> Kernel:
    base = xla_matmul.build(case)
    if jax.default_backend() == "tpu":
        from jax.experimental.pallas.ops.tpu.matmul import matmul as tpu_matmul

        return replaced(base, lambda w, x: tpu_matmul(x, w, block_shape=(512, 1024)))
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as ops

    options = []
    for band in (8, 16):
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
        options.append(lambda w, x, c=config: ops.matmul(x, w, None, config=c))
    return replaced(base, *options)


def build_attention(case: KernelCase) -> Kernel:
    causal = case.op == "prefill"
    base = xla_attention.build_prefill(case)
    scale = case.sizes["d"] ** -0.5
    if jax.default_backend() == "tpu":
        from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

        return replaced(base, lambda q, k, v: _tpu(flash_attention, q, k, v, causal, scale))
    from jax.experimental.pallas.ops.gpu import attention_mgpu as ops

    config = ops.TuningConfig(
        block_q=64, block_kv=128, max_concurrent_steps=2, use_schedule_barrier=True, causal=causal
    )
    return replaced(
        base, lambda q, k, v: ops.attention(q * q.dtype.type(scale), k, v, config)
    )  # it leaves the scale to the caller


def _tpu(flash: Any, q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
    """jax's TPU flash attention wants [b, h, s, d] and as many key heads as query heads."""
    share = q.shape[2] // k.shape[2]
    k, v = (x.repeat(share, axis=2) for x in (k, v))
    out = flash(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), causal=causal, sm_scale=scale)
    return out.transpose(0, 2, 1, 3)
