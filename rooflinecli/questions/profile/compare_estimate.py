"""`profile --against`: the kernels of a trace next to the operations of an estimate, row by row, and what no operation explains.

A kernel belongs to an operation by the FLOPs of its shape where the trace has shapes, else by its name, else to all operations
of its kind together: libraries name their kernels as they like, and fuse what is elementwise. A copy within the device's memory
is charged to the operation that it lays operands out for; one between devices or with the host to none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import field

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.formulas import counts
from rooflinecli.importers.profiles.kernel import Kernel, length, overlap
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.ops.answer import Operation, phase_operations
from rooflinecli.questions.profile.rollup import named_row, one_device
from rooflinecli.specs.request import Request

CLOSE = 0.01  # FLOPs of a shape and of an operation that differ by less are of one
_MATMULS = ("matmul", "grouped_matmul")
_NO_KERNELS = ("overhead", "engine", "bubble", "stragglers", "waiting", "prefill_interference", "padding")
_MOVED = re.compile(r"memcpy|memset|infeed|outfeed|d2h|h2d|[hd]to[hd]", re.IGNORECASE)


class ComparedOperations(Record):
    """Operations of a step and the kernels that run them; `copies_s` lay their operands out, `kernels` are those that took longest."""

    operations: list[str]
    floor_s: float
    expected_s: float
    measured_s: float
    copies_s: float
    ratio: float | None
    launches: float
    kernels: list[str]


class UnexplainedKernels(Record):
    """Kernels of a step that no operation explains, and those that took longest."""

    time_s: float
    launches: float
    kernels: list[str]
    share: float


class TraceComparison(Record):
    """A trace against one phase of an estimate; seconds are of one step, the last three where the trace has a time line."""

    schema: str = "roofline/against/1"
    phase: str
    device: str
    steps: int
    expected_s: float
    floor_s: float
    kernels_s: float
    rows: list[ComparedOperations]
    unexplained: UnexplainedKernels
    wall_s: float | None = field(default=None, metadata=OPTIONAL)
    gaps_s: float | None = field(default=None, metadata=OPTIONAL)
    exposed_communication_s: float | None = field(default=None, metadata=OPTIONAL)


def against(
    kernels: Sequence[Kernel], request: Request, steps: int | None = None, device: str | None = None
) -> TraceComparison:
    """Expected and measured seconds of a step by operation; what is left over, gaps, and communication nothing covered.

    `steps` is how many the trace holds; omitted: as many as its matrix products say. Raises UsageError unless the request
    has one phase.
    """
    result = estimate(request)
    if len(result.phases) != 1:
        raise UsageError("--against belongs to one phase; add --phase train, prefill or decode to its flags")
    ((phase, answered),) = result.phases.items()
    operations = [row for row in phase_operations(request, result)[phase] if row.class_ not in _NO_KERNELS]
    chosen, name = one_device(list(kernels), device)
    repeats = steps or _steps(chosen, operations)
    found = _assigned(chosen, operations)
    rows = [_row(keys, group, operations, repeats) for keys, group in found.items() if keys]
    rows += [
        _row((op.name,), [], operations, repeats) for op in operations if not any(op.name in keys for keys in found)
    ]
    total = sum(k.seconds for k in chosen)
    left = found.get((), [])
    unknown = _seconds(left)
    answer = TraceComparison(
        phase=phase,
        device=name,
        steps=repeats,
        expected_s=float(num.value(answered.time_s)),
        floor_s=float(num.value(answered.floor_s)),
        kernels_s=total / repeats,
        rows=sorted(rows, key=lambda row: -max(row.measured_s, row.expected_s)),
        unexplained=UnexplainedKernels(
            time_s=sum(unknown.values()) / repeats,
            launches=sum(k.calls for k in left) / repeats,
            kernels=_longest(unknown),
            share=sum(k.seconds for k in left) / total,
        ),
    )
    if all(k.start_s is not None for k in chosen):
        spans, comm, rest = (
            [(k.start_s or 0.0, k.end_s) for k in chosen if (k.kind == "collective") in kinds]
            for kinds in ((True, False), (True,), (False,))
        )
        wall = max(end for _, end in spans) - min(start for start, _ in spans)
        answer.wall_s = wall / repeats
        answer.gaps_s = (wall - length(spans)) / repeats
        answer.exposed_communication_s = (length(comm) - overlap(comm, rest) if comm else 0.0) / repeats
    return answer


def _assigned(kernels: Sequence[Kernel], operations: Sequence[Operation]) -> dict[tuple[str, ...], list[Kernel]]:
    """Names of operations -> the kernels that run them; nothing explains those under the empty key."""
    fused = any(k.kind == "attention" for k in kernels)
    matmuls = [op for op in operations if op.class_ in _MATMULS]
    keys: dict[int, tuple[str, ...]] = {}
    for k in kernels:  # by the FLOPs of its shape, else by what a framework calls the product and its gradients
        row = named_row(k)
        named = tuple(op.name for op in matmuls if row and row in op.name)
        keys[id(k)] = _by_shape(k, matmuls) or named
    taken = {name for named in keys.values() for name in named}
    for kernel in kernels:
        keys[id(kernel)] = keys[id(kernel)] or _by_kind(kernel.kind, operations, taken, fused)
    found: dict[tuple[str, ...], list[Kernel]] = defaultdict(list)
    for kernel, feeds in zip(kernels, _fed(kernels), strict=True):
        found[keys[id(kernel if feeds is None else feeds)]].append(kernel)
    return dict(found)


def _fed(kernels: Sequence[Kernel]) -> list[Kernel | None]:
    """For a copy inside the device's memory, the next kernel on its lane, whose operands it lays out; for others nothing."""
    order = sorted(range(len(kernels)), key=lambda i: (kernels[i].lane, -(kernels[i].start_s or 0.0)))
    found: list[Kernel | None] = [None] * len(kernels)
    following: Kernel | None = None
    for i, before in zip(order, [None, *order], strict=False):
        kernel = kernels[i]
        if before is None or kernels[before].lane != kernel.lane:
            following = None
        if kernel.kind != "copy":
            following = kernel
        elif kernel.start_s is not None and not _MOVED.search(kernel.name):
            found[i] = following
    return found


def _by_shape(kernel: Kernel, operations: Sequence[Operation]) -> tuple[str, ...]:
    """Matrix products of as many FLOPs."""
    if kernel.kind != "gemm" or not (kernel.m and kernel.k and kernel.n):
        return ()
    flops = counts.matmul_flops(kernel.m, kernel.k, kernel.n / kernel.shards)
    return tuple(op.name for op in operations if op.launches and abs(op.flops / op.launches / flops - 1) < CLOSE)


def _by_kind(kind: str, operations: Sequence[Operation], taken: set[str], fused: bool) -> tuple[str, ...]:
    """All operations of a kind that no kernel was matched to; unfused scores are matrix products."""

    def names(*kinds: str) -> tuple[str, ...]:
        return tuple(op.name for op in operations if _kind(op) in kinds and op.name not in taken)

    if kind == "gemm":
        return names("gemm") if fused else names("gemm", "attention")
    return names(kind) if kind in ("attention", "collective", "elementwise") else ()


def _kind(op: Operation) -> str:
    """The kind of kernel that runs an operation."""
    if op.class_ in _MATMULS:
        return "gemm"
    if op.class_.endswith("attention") or op.class_ == "scores":
        return "attention"
    return "collective" if op.group == "communication" else "elementwise"


def _steps(kernels: Sequence[Kernel], operations: Sequence[Operation]) -> int:
    """How often the step ran: where every product has a name of its own (XLA), the usual number of launches of a name; else
    the launches of matrix products and fused attention over those of a step."""
    fused = any(k.kind == "attention" for k in kernels)
    kinds = ("gemm", "attention") if fused else ("gemm",)
    launched: Counter[str] = Counter()
    for kernel in kernels:
        if kernel.kind in kinds:
            launched[kernel.name] += kernel.calls
    asked = sum(float(op.launches or 0) for op in operations if _kind(op) in kinds)
    if not asked:
        return 1
    if len(launched) >= asked / 2:
        return Counter(launched.values()).most_common(1)[0][0]
    return max(round(launched.total() / asked), 1)


def _row(
    keys: tuple[str, ...], kernels: Sequence[Kernel], operations: Sequence[Operation], steps: int
) -> ComparedOperations:
    members = [op for op in operations if op.name in keys]
    expected = float(sum(num.value(op.time_s) for op in members))
    seconds = _seconds(kernels)
    measured = sum(seconds.values()) / steps
    return ComparedOperations(
        operations=list(keys), floor_s=float(sum(num.value(op.floor_s) for op in members)), expected_s=expected, measured_s=measured,
        copies_s=sum(k.seconds for k in kernels if k.kind == "copy") / steps, ratio=measured / expected if expected and measured else None,
        launches=sum(k.calls for k in kernels) / steps, kernels=_longest(seconds),
    )  # fmt: skip


def _seconds(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Seconds by name of kernel."""
    by: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        by[kernel.name] += kernel.seconds
    return by


def _longest(by: dict[str, float]) -> list[str]:
    """The three names that took longest."""
    return sorted(by, key=lambda name: -by[name])[:3]
