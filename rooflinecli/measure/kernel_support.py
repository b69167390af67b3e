"""What can run here: which Pallas backend compiles, which kernels JAX ships for the device. By version and by device.

cpu   Pallas kernels run in interpret mode: correct, and slow, so they are tested and never timed
gpu   Mosaic GPU (jax.experimental.pallas.mosaic_gpu), Hopper (sm_90a), which imports absl; the Triton backend is
      deprecated since jax 0.11
tpu   pallas_call with jax.experimental.pallas.tpu
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec

from rooflinecli.measure import torch_baseline
from rooflinecli.measure.cases import WARM, KernelCase

Takes = Callable[[KernelCase], bool]
MOSAIC_GPU = (0, 8)  # plgpu.kernel with its present arguments
HOPPER = (9, 0)
CACHED = 16 * 2**20  # bytes that stay in any data center GPU's last-level cache (40 MB on A100, 50 on H100)


def version(text: str) -> tuple[int, int]:
    """(major, minor) of a version such as '0.10.2' or '0.12.0.1'."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def pallas_backend(
    platform: str, capability: tuple[int, int] | None, jax_version: str, has_absl: bool = True
) -> str | None:
    """'tpu', 'mosaic_gpu', 'interpret' (cpu), or None where our Pallas kernels do not compile."""
    if platform == "cpu":
        return "interpret"
    if platform == "tpu":
        return "tpu"
    if platform == "gpu" and capability == HOPPER and version(jax_version) >= MOSAIC_GPU and has_absl:
        return "mosaic_gpu"
    return None


def shipped(platform: str, capability: tuple[int, int] | None, has_absl: bool) -> tuple[str, ...]:
    """Operations for which the jax wheel carries a Pallas kernel for this device ('matmul', 'attention')."""
    if platform == "tpu":
        return ("matmul", "attention")
    if platform == "gpu" and capability == HOPPER and has_absl:
        return ("matmul", "attention")
    return ()


def missing(platform: str, capability: tuple[int, int] | None, has_absl: bool) -> str:
    """One sentence when a package alone keeps the Pallas kernels away."""
    if platform == "gpu" and capability == HOPPER and not has_absl:
        return "Pallas kernels were left out: Mosaic GPU imports absl; install it with: pip install absl-py"
    return ""


@lru_cache(maxsize=1)
def engines() -> dict[str, Takes]:
    """Engines besides XLA that are timed on this device -> which cases each takes."""
    import jax

    from rooflinecli.measure.device import KINDS, compute_capability

    platform = KINDS.get(jax.default_backend(), jax.default_backend())
    capability = compute_capability()
    has_absl = find_spec("absl") is not None
    result: dict[str, Takes] = {}
    if pallas_backend(platform, capability, jax.__version__, has_absl) in ("tpu", "mosaic_gpu"):
        result["pallas"] = takes_pallas
    ships = shipped(platform, capability, has_absl)
    if ships:
        result["shipped"] = lambda case: _family(case) in ships and takes_pallas(case)
    if platform == "gpu" and capability is not None and capability >= (8, 0):
        result["cudnn"] = takes_cudnn
    if platform == "gpu":
        result[WARM] = takes_warm
        if torch_baseline.present():
            result[torch_baseline.ENGINE] = torch_baseline.takes
    return result


def _family(case: KernelCase) -> str:
    return "attention" if case.op.startswith("prefill") else case.op


def takes_pallas(case: KernelCase) -> bool:
    """Shapes our tiles divide: m, n, k multiples of 256, 256, 64; sequences of 256, heads of 64 or 128; 16-bit floats."""
    s = case.sizes
    if case.regime != "kernel" or case.dtype not in ("bf16", "fp16"):
        return False
    if case.op == "matmul":
        return s["m"] % 256 == 0 and s["n"] % 256 == 0 and s["k"] % 64 == 0
    return case.op in ("prefill", "prefill_full") and s["s"] % 256 == 0 and s["d"] in (64, 128)


def takes_warm(case: KernelCase) -> bool:
    """What an accelerator's last-level cache holds with room to spare, where weights or a cache stream otherwise."""
    return case.regime == "kernel" and case.op in ("matmul", "decode") and case.bytes <= CACHED


def takes_cudnn(case: KernelCase) -> bool:
    """cuDNN's fused attention: 16-bit floats, head_dim a multiple of 8 up to 128."""
    return (
        case.op in ("prefill", "prefill_full", "decode")
        and case.dtype in ("bf16", "fp16")
        and case.sizes["d"] % 8 == 0
        and case.sizes["d"] <= 128
    )
