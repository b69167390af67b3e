"""Engines timed besides XLA, by platform, device and jax version.

pallas  jax's own Pallas kernels: Mosaic GPU on Hopper (sm_90a), which imports absl, and Mosaic on TPU
cudnn   cuDNN's fused attention; warm: XLA's kernels on inputs that stay in the last-level cache; torch: torch's kernels
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from rooflinecli.measure import torch_baseline
from rooflinecli.measure.cases import WARM, KernelCase

Takes = Callable[[KernelCase], bool]
MOSAIC_GPU = (0, 8)  # jax version of plgpu.kernel with its present arguments
HOPPER = (9, 0)
CACHED = 16 * 2**20  # bytes that stay in any data center GPU's last-level cache (40 MB on A100, 50 on H100)


def version(text: str) -> tuple[int, int]:
    """(major, minor) of a version such as '0.10.2' or '0.12.0.1'."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def has_pallas(platform: str, capability: tuple[int, int] | None, jax_version: str, has_absl: bool) -> bool:
    """Whether jax's Pallas matmul and attention compile for this device."""
    hopper = platform == "gpu" and capability == HOPPER
    return platform == "tpu" or (hopper and version(jax_version) >= MOSAIC_GPU and has_absl)


def missing(platform: str, capability: tuple[int, int] | None, has_absl: bool) -> str:
    """The install line where a missing package alone disables the Pallas kernels; empty elsewhere."""
    if platform == "gpu" and capability == HOPPER and not has_absl:
        return "Pallas kernels were left out: Mosaic GPU imports absl; install it with: pip install absl-py"
    return ""


def engines() -> dict[str, Takes]:
    """Engines besides XLA that are timed on this device -> which cases each takes."""
    import jax

    from rooflinecli.measure.device import KINDS, compute_capability

    platform = KINDS.get(jax.default_backend(), jax.default_backend())
    capability = compute_capability()
    result: dict[str, Takes] = {}
    if has_pallas(platform, capability, jax.__version__, find_spec("absl") is not None):
        result["pallas"] = partial(takes_pallas, platform=platform)
    if platform == "gpu" and capability is not None and capability >= (8, 0):
        result["cudnn"] = takes_cudnn
    if platform == "gpu":
        result[WARM] = takes_warm
        if torch_baseline.present():
            result[torch_baseline.ENGINE] = torch_baseline.takes
    return result


def competing(cases: list[KernelCase]) -> list[KernelCase]:
    """The same shapes by every other engine that takes them on this device."""
    others = engines()
    return [
        replace(case, engine=name)
        for case in cases
        if case.engine == "xla"
        for name, takes in others.items()
        if takes(case)
    ]


def takes_pallas(case: KernelCase, platform: str = "gpu") -> bool:
    """Shapes that the tiles of kernels/pallas.py divide, in 16-bit floats.

    jax's Hopper attention allocates its operands in fp16 whatever the input, so it takes no bf16.
    """
    s, tpu = case.sizes, platform == "tpu"
    if case.regime != "kernel" or case.dtype not in ("bf16", "fp16"):
        return False
    if case.op == "matmul":
        m, n, k = (512, 1024, 256) if tpu else (128, 256, 256)
        return s["m"] % m == 0 and s["n"] % n == 0 and s["k"] % k == 0
    attention = case.op in ("prefill", "prefill_full") and s["s"] % 256 == 0 and s["d"] in (64, 128)
    return attention and (tpu or case.dtype == "fp16")


def takes_warm(case: KernelCase) -> bool:
    """Matmuls and decode attention whose data fit an accelerator's last-level cache with margin."""
    return case.regime == "kernel" and case.op in ("matmul", "decode") and case.bytes <= CACHED


def takes_cudnn(case: KernelCase) -> bool:
    """cuDNN's fused attention: 16-bit floats, head_dim a multiple of 8 up to 128."""
    return (
        case.op in ("prefill", "prefill_full", "decode")
        and case.dtype in ("bf16", "fp16")
        and case.sizes["d"] % 8 == 0
        and case.sizes["d"] <= 128
    )
