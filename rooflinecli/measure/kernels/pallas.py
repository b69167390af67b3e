"""Our Pallas kernels, written for the device at hand: Mosaic on TPU, Mosaic GPU on Hopper, interpreted on CPU."""

from __future__ import annotations

from typing import Any

import jax

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.device import KINDS, compute_capability
from rooflinecli.measure.kernel_support import pallas_backend
from rooflinecli.measure.kernels import attention as xla_attention
from rooflinecli.measure.kernels import matmul as xla_matmul
from rooflinecli.measure.kernels.base import Kernel, replaced


def _backend() -> str:
    """Raises NotImplementedError where none of our kernels compiles."""
    platform = KINDS.get(jax.default_backend(), jax.default_backend())
    found = pallas_backend(platform, compute_capability(), jax.__version__)
    if found is None:
        raise NotImplementedError(
            f"no Pallas kernel of ours compiles for {jax.devices()[0].device_kind} under jax {jax.__version__}"
        )
    return found


def matmul(x: Any, w: Any, tile: Any = None) -> Any:
    """x[m, k] @ w[k, n] by the kernel of this device; `tile` is one of `tiles()`."""
    backend = _backend()
    if backend == "mosaic_gpu":
        from rooflinecli.measure.kernels import mosaic_matmul

        return mosaic_matmul.matmul(x, w, tile=tile or mosaic_matmul.Tile())
    from rooflinecli.measure.kernels import pallas_tpu

    return pallas_tpu.matmul(x, w, tile=tile or (512, 512, 512), interpret=backend == "interpret")


def tiles(m: int, n: int, k: int) -> list[Any]:
    """Tile shapes worth trying; the quickest is kept."""
    backend = _backend()
    if backend == "mosaic_gpu":
        from rooflinecli.measure.kernels import mosaic_matmul

        return [t for t in mosaic_matmul.CANDIDATES if t.fits(m, n, k)]
    return [(512, 512, 512), (512, 1024, 512), (1024, 1024, 512)] if backend == "tpu" else [(128, 128, 128)]


def flash(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Attention of q[b, s, h, d] over k, v[b, t, kv, d] by the kernel of this device."""
    backend = _backend()
    if backend == "mosaic_gpu":
        from rooflinecli.measure.kernels import mosaic_flash

        return mosaic_flash.flash(q, k, v, causal=causal)
    from rooflinecli.measure.kernels import pallas_tpu

    return pallas_tpu.flash(q, k, v, causal=causal, interpret=backend == "interpret")


def build_matmul(case: KernelCase) -> Kernel:
    m, n, k = (case.sizes[a] for a in "mnk")
    options = tuple((lambda w, x, t=t: matmul(x, w, t)) for t in tiles(m, n, k))
    return replaced(xla_matmul.build(case), *options)


def build_flash(case: KernelCase) -> Kernel:
    return replaced(xla_attention.build_prefill(case), lambda q, k, v: flash(q, k, v, case.op == "prefill"))
