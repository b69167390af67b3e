"""Each kernel of a profile against the roofline: its floor, its expected time, and whether the figure can be."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.errors import UsageError
from rooflinecli.formulas import counts, profiling, roofline
from rooflinecli.importers.profiles.kernel import Kernel
from rooflinecli.ledger.ops import Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import size_of

LOW = 0.6  # below this share of both roofs: latency-bound; NVIDIA Nsight Compute's Speed Of Light rule
_OPS = {"gemm": "matmul", "attention": "prefill_attention"}


@dataclass(frozen=True)
class Rates:
    """Peak and bandwidth, from a chip or by hand, and the format that kernels without one compute in."""

    dtype: str
    peak: float | None
    bandwidth: float | None
    chip: Chip | None = None

    def peak_for(self, dtype: str) -> float | None:
        if dtype and dtype != self.dtype and self.chip is not None:
            return float(self.chip.peak(dtype))
        return self.peak


@dataclass(frozen=True)
class KernelFloor:
    """All calls of a kernel against the roofline; `limit` is the roof that sets the floor, `bound` what limits the kernel."""

    floor_s: float
    limit: str
    impossible: bool
    compute_utilization: float
    bandwidth_utilization: float
    expected_s: float | None
    bound: str


def floors(kernels: list[Kernel], rates: Rates, rows: dict[int, Op] | None = None) -> dict[int, KernelFloor]:
    """id of a kernel -> its floor, for the kernels whose work is known."""
    works = ((kernel, _work(kernel, rates) or (rows or {}).get(id(kernel))) for kernel in kernels)
    return {id(kernel): _against_roofs(kernel, op, rates) for kernel, op in works if op is not None}


def _work(kernel: Kernel, rates: Rates) -> Op | None:
    """What one call computes and moves on one device, from the trace's counts or from m, k, n."""
    dtype = kernel.dtype or rates.dtype
    width, kind = size_of(dtype), _OPS.get(kernel.kind, "elementwise")
    if kernel.m and kernel.k and kernel.n:
        flops = counts.matmul_flops(kernel.m, kernel.k, kernel.n)
        moved = counts.matmul_bytes(kernel.m, kernel.k, kernel.n, width, width, width)
        return Op(
            name=kernel.name,
            kind="matmul",
            dtype=dtype,
            flops=profiling.per_shard(flops, kernel.shards),
            bytes=profiling.per_shard(moved, kernel.shards),
            k=kernel.k,
            n=kernel.n,
        )
    if kernel.flops is None and kernel.bytes is None:
        return None
    return Op(name=kernel.name, kind=kind, dtype=dtype, flops=kernel.flops or 0.0, bytes=kernel.bytes or 0.0)


def _against_roofs(kernel: Kernel, op: Op, rates: Rates) -> KernelFloor:
    peak, bandwidth = rates.peak_for(op.dtype), rates.bandwidth
    if peak is None and bandwidth is None:
        raise UsageError("floors need a peak or a bandwidth; give --hw, --peak or --bandwidth")
    seconds, calls = kernel.seconds, kernel.calls
    t_compute = roofline.compute_time(op.flops, peak) if peak else 0.0
    t_memory = roofline.memory_time(op.bytes, bandwidth) if bandwidth else 0.0
    floor = profiling.all_calls(roofline.floor_time(t_compute, t_memory), calls)
    busy = seconds > 0
    compute = (
        profiling.compute_utilization(profiling.all_calls(op.flops, calls), seconds, peak) if peak and busy else 0.0
    )
    memory = (
        profiling.bandwidth_utilization(profiling.all_calls(op.bytes, calls), seconds, bandwidth)
        if bandwidth and busy
        else 0.0
    )
    limit = "memory" if t_memory > t_compute else "compute"
    impossible = bool(profiling.beats_floor(seconds, floor))
    low = bool(profiling.latency_bound(compute, memory, LOW))
    expected = None if rates.chip is None else price(op, rates.chip, "kernel").expected
    return KernelFloor(
        floor_s=floor,
        limit=limit,
        impossible=impossible,
        compute_utilization=compute,
        bandwidth_utilization=memory,
        expected_s=None if expected is None else float(profiling.all_calls(expected, calls)),
        bound="impossible" if impossible else "latency or under-occupied" if low else limit,
    )
