"""Where the time of a profile goes, what fusion and overlap would buy, and how far each kernel is from its floor.

Kernels are matched to rows of a model's ledger by shape where the trace has it, else by name.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives, counts, roofline, textbook
from rooflinecli.importers.profiles.kernel import KINDS, Interval, Kernel, length, overlap
from rooflinecli.layers.build import ledger
from rooflinecli.ledger.ops import Op
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import Formats, size_of
from rooflinecli.questions.profile.question import Communication, Fusion, KernelShare, KernelSum, Profile, ProfileAnswer
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.snapshots import table

Lift = Callable[[str, float, str, str], Number]


def profile(
    kernels: list[Kernel],
    rates: Rates | None = None,
    device: str | None = None,
    ops: list[Op] | None = None,
    lift: Lift = lambda symbol, value, unit, source: value,
) -> ProfileAnswer:
    """Totals by kind, memory-bound share, what fusion and overlap buy, and kernels by name against their floors."""
    devices = sorted({k.device for k in kernels})
    kernels, chosen = one_device(kernels, device)
    rows = match(kernels, ops) if ops else {}
    priced = floors(kernels, rates, rows) if rates else {}
    total = lift("t_all", sum(k.seconds for k in kernels), "s", f"sum of {len(kernels)} timed kernels")
    # what the trace says, else what FLOPs and bytes say, else what the kind suggests
    limits = {id(k): k.bound or (priced[id(k)].limit if id(k) in priced else _LIMITS.get(k.kind, "")) for k in kernels}
    memory_bound = [k for k in kernels if limits[id(k)] == "memory"]
    groups = {kind: [k for k in kernels if k.kind == kind] for kind in KINDS}
    kinds = {kind: _share(group, total, lift) for kind, group in groups.items() if group}
    wall = busy = idle = None
    if all(k.start_s is not None for k in kernels):
        spans = _spans(kernels)
        wall, busy = max(end for _, end in spans) - min(start for start, _ in spans), length(spans)
        idle = textbook.idle_share(busy, wall) if wall else 0.0
    names = _kernel_sums(kernels, priced, num.value(total))
    for kernel in kernels:
        if id(kernel) in rows:
            names[kernel.name].row = rows[id(kernel)].name
    return ProfileAnswer(
        device=chosen, devices=len(devices), launches=sum(k.calls for k in kernels), time_s=total, wall_s=wall, busy_s=busy,
        idle_share=idle, kinds=dict(sorted(kinds.items(), key=lambda item: -num.value(item[1].time_s))),
        memory_bound=_share(memory_bound, total, lift), fusion=_fusion(kernels, total, lift),
        communication=_communication(kernels, lift) if any(k.kind == "collective" for k in kernels) else None, kernels=names,
        impossible=[name for name, row in names.items() if row.impossible],
    )  # fmt: skip


def one_device(kernels: list[Kernel], device: str | None = None) -> tuple[list[Kernel], str]:
    """The kernels of one device: the one asked for (by name or part of it), or the busiest."""
    devices = sorted({k.device for k in kernels})
    groups = {name: [k for k in kernels if k.device == name] for name in devices}
    if device is not None:
        groups = {name: group for name, group in groups.items() if device in name}
        if not groups:
            raise UsageError(f"--device {device}: not in the trace; it has {', '.join(devices)}")
    chosen = max(groups, key=lambda name: sum(k.seconds for k in groups[name]))
    return groups[chosen], chosen


def _fusable(kernel: Kernel) -> bool:
    return kernel.bound == "memory" or (not kernel.bound and kernel.kind == "elementwise")


def _spans(kernels: Iterable[Kernel]) -> list[Interval]:
    return [(k.start_s or 0.0, k.end_s) for k in kernels]


def _share(kernels: list[Kernel], total: Number, lift: Lift) -> KernelShare:
    part = lift("t_part", sum(k.seconds for k in kernels), "s", f"sum of {len(kernels)} kernels")
    return KernelShare(time_s=part, share=part / total, launches=sum(k.calls for k in kernels))


def _fusion(kernels: list[Kernel], total: Number, lift: Lift) -> Fusion:
    """Amdahl's bound if all fusable kernels vanished, and what joining neighbors would save."""
    fusable = [k for k in kernels if _fusable(k)]
    removed = lift("t_gone", sum(k.seconds for k in fusable), "s", f"sum of {len(fusable)} memory-bound kernels")
    chains = [chain for chain in _chains(kernels) if len(chain) > 1]
    saved: Number = 0.0
    for chain in chains:
        times = [k.seconds for k in chain]
        whole = lift("t_chain", sum(times), "s", f"{len(chain)} neighbors from {chain[0].name}")
        saved = saved + (whole - lift("t_max", max(times), "s", "the slowest of them"))
    return Fusion(
        removable_s=removed, chains=len(chains), chains_saved_s=saved, chains_speedup=textbook.amdahl_speedup(total, saved),
        speedup_bound=textbook.amdahl_speedup(total, removed) if num.value(removed) < num.value(total) else None,
    )  # fmt: skip


def _chains(kernels: list[Kernel]) -> list[list[Kernel]]:
    """Runs of fusable kernels that follow each other on a lane, in order of time (or of the file)."""
    lanes: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        lanes[kernel.lane].append(kernel)
    chains: list[list[Kernel]] = []
    for lane in lanes.values():
        current: list[Kernel] = []
        for kernel in sorted(lane, key=lambda k: k.start_s or 0.0):
            if _fusable(kernel) and kernel.calls == 1:
                current.append(kernel)
                continue
            chains.append(current)
            current = []
        chains.append(current)
    return chains


def _communication(kernels: list[Kernel], lift: Lift) -> Communication:
    """Communication that overlapped with other work; without a time line, what could."""
    comm = [k for k in kernels if k.kind == "collective"]
    rest = [k for k in kernels if k.kind not in ("collective", "copy")]
    if any(k.start_s is None for k in kernels):
        t_comm = lift("t_comm", sum(k.seconds for k in comm), "s", f"sum of {len(comm)} collectives")
        cover = lift("t_comp", sum(k.seconds for k in rest), "s", f"sum of {len(rest)} computing kernels")
        return Communication(
            time_s=t_comm,
            hideable_share=textbook.hidden_fraction(t_comm, cover),
            exposed_at_best_s=collectives.exposed_behind(t_comm, cover),
        )
    t_comm = lift("t_comm", length(_spans(comm)), "s", f"time with any of {len(comm)} collectives running")
    covered = lift("t_both", overlap(_spans(comm), _spans(rest)), "s", "time overlapped with computation")
    return Communication(
        time_s=t_comm,
        overlapped_s=covered,
        exposed_s=collectives.exposed_behind(t_comm, covered),
        hidden_share=covered / t_comm if num.value(t_comm) else None,
    )


def _kernel_sums(kernels: list[Kernel], priced: dict[int, KernelFloor], total: float) -> dict[str, KernelSum]:
    """One row per kernel name, longest first; floors and expected times summed over its calls."""
    groups: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        groups[kernel.name].append(kernel)
    rows = {}
    for name, group in sorted(groups.items(), key=lambda item: -sum(k.seconds for k in item[1])):
        seconds = sum(k.seconds for k in group)
        row = KernelSum(
            kind=group[0].kind,
            launches=sum(k.calls for k in group),
            time_s=seconds,
            share=seconds / total if total else 0.0,
        )
        known = [priced[id(k)] for k in group if id(k) in priced]
        if known and len(known) == len(group) and seconds:
            expected = [kernel.expected_s for kernel in known if kernel.expected_s is not None]
            compute, bandwidth = {k.compute_utilization for k in known}, {k.bandwidth_utilization for k in known}
            row.floor_s = sum(kernel.floor_s for kernel in known)
            row.bound = max(known, key=lambda kernel: kernel.floor_s).bound
            row.impossible = any(kernel.impossible for kernel in known)
            row.over_floor = row.time_s / row.floor_s if row.floor_s else None
            row.expected_s = sum(expected) if len(expected) == len(known) else None
            row.compute_utilization = compute.pop() if len(compute) == 1 else None
            row.bandwidth_utilization = bandwidth.pop() if len(bandwidth) == 1 else None
        rows[name] = row
    return rows


LOW = 0.6  # below this share of both roofs: latency-bound; NVIDIA Nsight Compute's Speed Of Light rule
_OPS = {"gemm": "matmul", "attention": "prefill_attention"}
_LIMITS = {"elementwise": "memory", "copy": "memory"}


@dataclass(frozen=True)
class Rates:
    """Peak and bandwidth, from a chip or by hand, and the format that kernels without one compute in."""

    dtype: str
    peak: float | None
    bandwidth: float | None
    chip: Chip | None = None


def rates_of(question: Profile) -> Rates | None:
    """Peak and bandwidth from the chip, from options, or both; None when neither is given."""
    if question.hw is None:
        bare = question.peak is None and question.bandwidth is None
        return None if bare else Rates(question.dtype, question.peak, question.bandwidth)
    figures = {f"peak.{question.dtype}": question.peak, "memory.bandwidth": question.bandwidth}
    override = {path: value for path, value in figures.items() if value is not None}
    chip = Chip(load_hardware(question.hw), override=override)
    return Rates(question.dtype, chip.peak(question.dtype), chip.bandwidth, chip)


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
        flops = textbook.per_shard(counts.matmul_flops(kernel.m, kernel.k, kernel.n), kernel.shards)
        moved = counts.matmul_bytes(kernel.m, kernel.k, kernel.n, width, width, width)
        moved = textbook.per_shard(moved, kernel.shards)
        return Op(name=kernel.name, kind="matmul", dtype=dtype, flops=flops, bytes=moved, k=kernel.k, n=kernel.n)
    if kernel.flops is None and kernel.bytes is None:
        return None
    return Op(name=kernel.name, kind=kind, dtype=dtype, flops=kernel.flops or 0.0, bytes=kernel.bytes or 0.0)


def _against_roofs(kernel: Kernel, op: Op, rates: Rates) -> KernelFloor:
    other = op.dtype and op.dtype != rates.dtype and rates.chip is not None
    peak, bandwidth = float(rates.chip.peak(op.dtype)) if other and rates.chip else rates.peak, rates.bandwidth
    if peak is None and bandwidth is None:
        raise UsageError("floors need a peak or a bandwidth; give --hw, --peak or --bandwidth")
    seconds, calls = kernel.seconds, kernel.calls
    t_compute = roofline.compute_time(op.flops, peak) if peak else 0.0
    t_memory = roofline.memory_time(op.bytes, bandwidth) if bandwidth else 0.0
    floor = roofline.floor_time(t_compute, t_memory) * calls
    busy = seconds > 0
    compute = memory = 0.0
    if peak and busy:
        compute = textbook.compute_utilization(op.flops * calls, seconds, peak)
    if bandwidth and busy:
        memory = textbook.bandwidth_utilization(op.bytes * calls, seconds, bandwidth)
    limit = "memory" if t_memory > t_compute else "compute"
    impossible = bool(seconds < floor)
    low = bool(textbook.latency_bound(compute, memory, LOW))
    expected = None if rates.chip is None else price(op, rates.chip, "kernel").expected
    return KernelFloor(
        floor_s=floor, limit=limit, impossible=impossible, compute_utilization=compute, bandwidth_utilization=memory,
        expected_s=None if expected is None else float(expected * calls),
        bound="impossible" if impossible else "latency or under-occupied" if low else limit,
    )  # fmt: skip


@cache
def _names() -> list[tuple[re.Pattern[str], str]]:
    """Patterns of the names of kernels, and how the ledger's name of a row ends."""
    rows = table(Path(__file__).with_name("kernel_names.yaml"))["names"]
    return [(re.compile(name, re.IGNORECASE), row) for name, row in rows]


def expected_ops(question: Profile) -> list[Op] | None:
    """What one layer of each kind, and what surrounds the layers, does on one device in a forward pass of --model."""
    if question.model is None:
        return None
    spec, dtype, width = load_model(question.model), question.dtype, size_of(question.dtype)
    queries = 1.0 if question.seq is None else question.seq
    keys = queries if question.context is None else question.context
    formats = Formats(width, width, width, max(width, 2.0), max(width, 2.0), dtype, dtype, dtype)
    forward, counted, layout = ForwardPass(formats, decode=queries == 1), ledger(spec), Layout(tp=question.tp)
    work = pass_axis_sizes(question.batch, queries, keys, queries, layout)
    ops = [
        op
        for group in counted.layers
        for op in forward.ops(group.rows, layer_sizes(group, work, layout, spec.document, PLAIN))
    ]
    return ops + forward.ops(
        counted.head, stem_head_axis_sizes(counted, work, layout, spec.document, PLAIN), outer=True
    )


def match(kernels: list[Kernel], ops: list[Op]) -> dict[int, Op]:
    """id of a kernel -> the row it runs. Elementwise rows are left out: frameworks fuse them as they like."""
    pairs = ((id(kernel), _by_shape(kernel, ops) or _by_name(kernel, ops)) for kernel in kernels)
    return {key: op for key, op in pairs if op is not None}


def _by_shape(kernel: Kernel, ops: list[Op]) -> Op | None:
    """The matrix product with these sizes; libraries also run it transposed."""
    if not (kernel.m and kernel.k and kernel.n):
        return None
    for op in ops:
        if op.kind == "matmul" and math.isclose(op.k, kernel.k):
            sides = {round(roofline.matmul_rows(op.flops, op.k, op.n)), round(op.n)}
            if any(sides == {round(kernel.m), round(columns)} for columns in (kernel.n, kernel.n / kernel.shards)):
                return op
    return None


def named_row(kernel: Kernel) -> str | None:
    """How the ledger's name of a matrix product ends, by what frameworks call it; None where the name says nothing."""
    if kernel.kind != "gemm":
        return None
    return next((row for pattern, row in _names() if pattern.search(kernel.name)), None)


def _by_name(kernel: Kernel, ops: list[Op]) -> Op | None:
    if kernel.kind == "attention":
        cores = [op for op in ops if op.kind.endswith("attention")]
        return cores[0] if len({op.flops for op in cores}) == 1 else None
    row = named_row(kernel)
    if row is None:
        return None
    named = [op for op in ops if op.name.endswith(row) and "matmul" in op.kind]
    return named[0] if len({op.flops for op in named}) == 1 else None
