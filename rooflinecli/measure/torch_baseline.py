"""torch's kernels (cuBLAS, scaled_dot_product_attention) at the same shapes as a second source, never fitted."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.timing import Protocol, Timing, measure

ENGINE = "torch"
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def present() -> bool:
    """Whether torch is here and sees a CUDA device."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def takes(case: KernelCase) -> bool:
    """Plain matmuls and attention over a prompt, in 16 bits."""
    return (
        case.regime == "kernel" and case.op in ("matmul", "prefill", "prefill_full") and case.dtype in ("bf16", "fp16")
    )


def timed(case: KernelCase, protocol: Protocol, chain: int, sets: int, dispatch: float) -> Timing:
    """One case on rotating inputs, `chain` launches enqueued before each wait."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    run_one = _matmul(case, device, sets) if case.op == "matmul" else _attention(case, device, sets)

    def run(turn: int) -> None:
        for i in range(chain):
            run_one(turn * chain + i)

    def wait(_: Any) -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    with torch.inference_mode():
        return measure(run, wait, protocol, dispatch=dispatch, chain=chain)


def _normal(shape: tuple[int, ...], dtype: str, device: str) -> Any:
    import torch

    return torch.randn(shape, device=device).to(getattr(torch, DTYPES[dtype]))


def _matmul(case: KernelCase, device: str, sets: int) -> Any:
    import torch

    m, n, k = (case.sizes[a] for a in "mnk")
    x, out = _normal((m, k), case.dtype, device), _normal((m, n), case.dtype, device)
    weights = [_normal((k, n), case.dtype, device) for _ in range(sets)]
    return lambda turn: torch.matmul(x, weights[turn % sets], out=out)


def _attention(case: KernelCase, device: str, sets: int) -> Any:
    from torch.nn import functional

    attend: Any = functional.scaled_dot_product_attention
    b, s, h, kv, d = (case.sizes[a] for a in ("b", "s", "h", "kv", "d"))
    inputs = [tuple(_normal((b, heads, s, d), case.dtype, device) for heads in (h, kv, kv)) for _ in range(sets)]
    causal = case.op == "prefill"
    return lambda turn: attend(*inputs[turn % sets], is_causal=causal, enable_gqa=h != kv)
