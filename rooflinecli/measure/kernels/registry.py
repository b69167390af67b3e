"""Case -> Kernel: which builder serves an operation by an engine."""

from __future__ import annotations

from importlib import import_module

from rooflinecli.measure import torch_baseline
from rooflinecli.measure.cases import WARM, KernelCase
from rooflinecli.measure.kernels.base import Kernel

_XLA = {
    "matmul": "matmul:build",
    "grouped": "matmul:build_grouped",
    "prefill": "attention:build_prefill",
    "prefill_full": "attention:build_prefill",
    "decode": "attention:build_decode",
    "matmul_training": "matmul:build_training",
    "prefill_training": "attention:build_training",
    "adamw": "stream:build_optimizer",
    "gather": "stream:build_gather",
}
_PALLAS = {
    ("matmul", "pallas"): "pallas:build_matmul",
    ("prefill", "pallas"): "pallas:build_attention",
    ("prefill_full", "pallas"): "pallas:build_attention",
}


def build(case: KernelCase) -> Kernel:
    """The kernel of a case. Raises UsageError when no engine of that name has the operation."""
    if case.suite == "collectives":
        place = "collective:build"
    elif case.engine in ("xla", "cudnn", WARM, torch_baseline.ENGINE):
        place = _XLA.get(case.op, "stream:build")
    else:
        place = _PALLAS[case.op, case.engine]
    module, _, name = place.partition(":")
    kernel: Kernel = getattr(import_module(f"rooflinecli.measure.kernels.{module}"), name)(case)
    return kernel
