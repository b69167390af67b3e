"""`roofline shard`: which collective a sharded matmul needs, what it costs, and how else it could be sharded.

The Scaling Book's four cases (chapter 3): 1, no contracted dimension is split: nothing to send. 2, one operand's is:
gather it. 3, both are, along the same axis: add up partial results. 4, both operands split different dimensions along
one axis: gather one of them first.

`roofline partitioning`: ways to split one layer over n devices in inference, with their collectives, priced and ranked. Feed-forward:
weights stay (split along one dimension, or two) and activations travel, or weights travel. Attention: by head or by sequence. Pope et al.
2022, section 3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import counts, roofline, sharding
from rooflinecli.layers.build import ledger
from rooflinecli.ledger.ledger import row_parameters
from rooflinecli.ledger.ops import Collective, Op, matmul
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.price.network import price_collective
from rooflinecli.quantization.formats import FORMATS, Formats, formats, size_of
from rooflinecli.questions.collective.question import ChipName
from rooflinecli.questions.shard.question import (
    Partitioned,
    PartitionedAttention,
    PartitioningAnswer,
    RankedSharding,
    ShardAnswer,
    Sharding,
    ShardingCollective,
    SlicedSharding,
)
from rooflinecli.specs import parse_values
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.model import ModelSpec

Axes = tuple[str, ...]
_ARRAY = re.compile(r"([A-Za-z]\w*)\s*\[([^\]]*)\]")
_EXAMPLE = 'write it as "X[I_x, J] W[J_y, K]"'


@dataclass(frozen=True)
class Array:
    """An array by dimension; `over` names the mesh axes each dimension is split over."""

    name: str
    dims: tuple[str, ...]
    over: dict[str, Axes]

    def used(self) -> Axes:
        return tuple(a for d in self.dims for a in self.over[d])

    def text(self) -> str:
        """As written: X[I_x, J]."""
        return f"{self.name}[{', '.join(d + ('_' + ''.join(self.over[d]) if self.over[d] else '') for d in self.dims)}]"


def mesh(text: str) -> dict[str, float]:
    """`x=4,y=2` -> sizes by axis, outermost first. Raises UsageError."""
    sizes = assignments(text, "--mesh")
    for name in sizes:
        if not name.isalpha():
            raise UsageError(f"--mesh {text}: axis '{name}' should be a word such as x")
    return sizes


def assignments(text: str, flag: str) -> dict[str, float]:
    """`I=1024,J=4096` -> numbers, 4k and 4096 alike. Raises UsageError."""
    sizes: dict[str, float] = {}
    for part in filter(None, re.split(r"[,\s]+", text)):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"{flag} {text}: expected name=number pairs such as x=4,y=2")
        sizes[name] = parse_values.size(f"{flag} {name}", value, "length")
    if not sizes:
        raise UsageError(f"{flag} is empty; give name=number pairs such as x=4,y=2")
    return sizes


def arrays(text: str, axes: dict[str, float]) -> list[Array]:
    """The two operands of a matmul, and its result when one is asked for. Raises UsageError."""
    found = [Array(name, *_dims(inside, axes, text)) for name, inside in _ARRAY.findall(text)]
    if len(found) not in (2, 3) or (len(found) == 3) != ("->" in text):
        raise UsageError(f"{text!r} is not a matmul of two arrays; {_EXAMPLE}")
    for array in found:
        used = array.used()
        if len(set(used)) != len(used):
            raise UsageError(f"{array.text()}: a mesh axis can split one dimension only; take it from the other")
    first, second = found[:2]
    shared = [d for d in first.dims if d in second.dims]
    if len(first.dims) != 2 or len(second.dims) != 2 or len(shared) != 1:
        raise UsageError(f"{text!r}: two arrays of two dimensions that share one; {_EXAMPLE}")
    if len(found) == 3 and set(found[2].dims) != set(first.dims) ^ set(second.dims):
        raise UsageError(f"{found[2].text()}: the result has the dimensions that are not shared")
    return found


def _dims(inside: str, axes: dict[str, float], text: str) -> tuple[tuple[str, ...], dict[str, Axes]]:
    """`I_x, J` -> names, and mesh axes by name; I_xy and I_{x,y} split over two axes."""
    dims, over = [], {}
    for part in re.sub(r"\{([^}]*)\}", lambda m: m.group(1).replace(",", ""), inside).split(","):
        name, _, split = part.strip().partition("_")
        if not name or name in over:
            raise UsageError(f"{text!r}: every dimension has a name of its own; {_EXAMPLE}")
        dims.append(name)
        over[name] = (split,) if split in axes else tuple(split)
        for axis in over[name]:
            if axis not in axes:
                raise UsageError(f"{part.strip()}: the mesh has no axis '{axis}'; it has {', '.join(axes)}")
    return tuple(dims), over


@dataclass(frozen=True)
class MatmulCollective:
    """One collective of a sharded matmul: the array it is on, over which mesh axes, and its size when whole."""

    op: str
    array: str
    axes: Axes
    size: Number


class Mesh:
    """A mesh of devices on a chip's network: axes outermost first, so that the last one is innermost."""

    def __init__(self, sizes: dict[str, float], hardware: HardwareSpec, dtype: str, lift: PlainLift):
        self.sizes, self.chip, self.dtype = sizes, Chip(hardware, lift), dtype
        self.devices = prod(sizes.values(), start=1.0)
        self.element = lift("p", size_of(dtype), "B", "--dtype")

    def over(self, axes: Axes) -> float:
        return prod((self.sizes[axis] for axis in axes), start=1.0)

    def collective(self, one: MatmulCollective) -> Collective:
        """A torus lays one mesh axis along one of its own where it has as many; other networks number devices innermost last."""
        level = self.chip.levels[0].level if self.chip.levels else None
        torus = level is not None and level.kind == "torus" and len(self.sizes) <= (level.axes or 1)
        mesh = tuple((self.sizes[a], self.sizes[a]) for a in one.axes) if torus else None
        names = list(self.sizes)
        inner = max((names.index(a) for a in one.axes), default=0)
        stride = self.over(tuple(names[inner + 1 :]))
        return Collective(one.op, one.op, one.size, "mesh", self.over(one.axes), stride, mesh=mesh)


def shard(
    arrays: list[Array],
    mesh_sizes: dict[str, float],
    sizes: dict[str, float],
    hardware: HardwareSpec,
    dtype: str = "bf16",
    lift: PlainLift = PLAIN,
) -> ShardAnswer:
    """Case, collectives, bytes and time of one sharded matmul, and the ranking of its shardings. Raises UsageError."""
    missing = [d for a in arrays[:2] for d in a.dims if d not in sizes]
    if missing:
        raise UsageError(
            f"--sizes names no {', '.join(dict.fromkeys(missing))}; give every dimension, such as {missing[0]}=4096"
        )
    mesh = Mesh(mesh_sizes, hardware, dtype, lift)
    lifted = {d: lift(d, size, "1", "--sizes") for d, size in sizes.items()}
    for array, d in ((a, d) for a in arrays for d in a.dims):
        if sizes[d] % mesh.over(array.over[d]):
            raise UsageError(
                f"{array.text()}: {d} = {sizes[d]:g} does not split over {mesh.over(array.over[d]):g} devices; change one"
            )
    priced = _price(arrays, mesh, lifted)
    return ShardAnswer(
        matmul=" ".join(a.text() for a in arrays[:2]),
        mesh=mesh_sizes,
        hardware=ChipName(name=hardware.name, id=hardware.id),
        dtype=dtype,
        sharding=priced,
        instead=_sliced(arrays, mesh, lifted, priced),
        ranking=_ranking(arrays, mesh, lifted),
    )


def required_collectives(
    arrays: list[Array], mesh: Mesh, sizes: dict[str, Number]
) -> tuple[int, list[MatmulCollective], list[Array]]:
    """Case, collectives, and the operands and result as they are when the local matmul runs."""
    first, second = arrays[:2]
    j = next(d for d in first.dims if d in second.dims)
    collectives: list[MatmulCollective] = []
    case = 1
    for axis in [a for d in first.dims if d != j for a in first.over[d]]:
        if any(axis in second.over[d] for d in second.dims if d != j):
            case = 4
            smaller = min((first, second), key=lambda a: float(_elements(a, sizes)) / mesh.over(a.used()))
            first, second = (
                _gathered(a, (axis,), mesh, sizes, collectives) if a is smaller else a for a in (first, second)
            )
    for a in (first, second):
        # An axis that splits a kept dimension of one operand and the contracted one of the other has to be gathered too.
        other = second if a is first else first
        alone = tuple(axis for axis in a.over[j] if axis not in other.over[j])
        if alone:
            case = max(case, 2)
            gathered = _gathered(a, alone, mesh, sizes, collectives)
            first, second = (gathered if x is a else x for x in (first, second))
    kept = {d: x.over[d] for x in (first, second) for d in x.dims if d != j}
    result = Array(arrays[2].name if len(arrays) == 3 else "Y", tuple(kept), kept)
    both = tuple(axis for axis in first.over[j] if axis in second.over[j])
    if both:
        case = max(case, 3)
        # Partial results are added up: by a reduce-scatter where the result asked for is split along these axes.
        wanted = arrays[2].used() if len(arrays) == 3 else ()
        scattered = all(axis in wanted for axis in both)
        size = sharding.shard_bytes(_elements(result, sizes), mesh.element, mesh.over(result.used()))
        collectives.append(MatmulCollective("reduce-scatter" if scattered else "all-reduce", result.name, both, size))
        if scattered:
            result = arrays[2]
    return case, collectives, [first, second, result]


def _elements(array: Array, sizes: dict[str, Number]) -> Number:
    return sizes[array.dims[0]] * sizes[array.dims[1]]


def _gathered(
    array: Array, axes: Axes, mesh: Mesh, sizes: dict[str, Number], collectives: list[MatmulCollective]
) -> Array:
    """The array without these axes, and the all-gather that gets it there."""
    after = replace(array, over={d: tuple(a for a in over if a not in axes) for d, over in array.over.items()})
    size = sharding.shard_bytes(_elements(array, sizes), mesh.element, mesh.over(after.used()))
    collectives.append(MatmulCollective("all-gather", array.name, axes, size))
    return after


def _price(arrays: list[Array], mesh: Mesh, sizes: dict[str, Number]) -> Sharding:
    """Seconds, bytes and memory of one sharding."""
    case, required, local = required_collectives(arrays, mesh, sizes)
    collectives, floor, expected, sent = list[ShardingCollective](), 0.0, 0.0, 0.0
    for one in required:
        c = price_collective(mesh.collective(one), mesh.chip, "kernel", mesh.devices)
        floor, expected, sent = floor + c.floor, expected + c.expected, sent + c.volume
        collectives.append(
            ShardingCollective(
                op=one.op, array=one.array, axes="".join(one.axes), devices=mesh.over(one.axes), bytes=one.size, sent_bytes=c.volume,
                floor_s=c.floor, expected_s=c.expected,
            )
        )  # fmt: skip
    op = _local_matmul(local, mesh, sizes)
    kernel = price(op, mesh.chip, "kernel")
    compute = roofline.floor_time(kernel.t_compute, kernel.t_memory)
    held = sum(sharding.shard_bytes(_elements(a, sizes), mesh.element, mesh.over(a.used())) for a in arrays[:2])
    total = kernel.expected + expected
    return Sharding(
        case=case,
        case_name=CASES[case],
        collectives=collectives,
        communication_bytes=sent,
        communication_s=expected,
        communication_floor_s=floor,
        compute_s=kernel.expected,
        compute_floor_s=compute,
        floor_s=roofline.floor_time(compute, floor),
        expected_s=total,
        time_s=total,
        communication_over_compute=expected / kernel.expected,
        flops_per_device=op.flops,
        held_bytes=held,
        replication={a.name: sharding.replication(mesh.devices, mesh.over(a.used())) for a in arrays[:2]},
        result=local[2].text(),
    )


def _sliced(arrays: list[Array], mesh: Mesh, sizes: dict[str, Number], answer: Sharding) -> SlicedSharding | None:
    """Case 2 the other way: slice the whole operand along the split dimension, which sends nothing, and add up partial results."""
    if answer.case != 2:
        return None
    first, second = arrays[:2]
    j = next(d for d in first.dims if d in second.dims)
    for split, whole in ((first, second), (second, first)):
        axes = split.over[j]
        if not axes or whole.over[j] or any(a in whole.used() for a in axes):
            continue
        cut = replace(whole, over={**whole.over, j: axes})
        priced = _price([cut if a is whole else a for a in arrays], mesh, sizes)
        if priced.case != 3 or num.value(sizes[j]) % mesh.over(axes):
            return None
        cheaper = bool(num.value(priced.communication_bytes) < num.value(answer.communication_bytes))
        return SlicedSharding.like(priced, slice=cut.text(), cheaper=cheaper)
    return None


CASES = {
    1: "no contracted dimension is split: no communication",
    2: "one operand's contracted dimension is split: all-gather it",
    3: "both contracted dimensions are split alike: add up partial results",
    4: "both operands split kept dimensions along one axis: all-gather one of them first",
}


def _local_matmul(local: list[Array], mesh: Mesh, sizes: dict[str, Number]) -> Op:
    """The matmul each device does."""
    first, second, _ = local
    j = next(d for d in first.dims if d in second.dims)
    (i,), (k,) = ([d for d in a.dims if d != j] for a in (first, second))
    m, n = sizes[i] / mesh.over(first.over[i]), sizes[k] / mesh.over(second.over[k])
    depth = sizes[j] / mesh.over(first.over[j])
    dtype = next((d for d in FORMATS[mesh.dtype][1] if d in mesh.chip.spec.peak), mesh.dtype)
    flops, moved = counts.matmul_flops(m, depth, n), counts.matmul_bytes(m, depth, n, *[mesh.element] * 3)
    return matmul("matmul", dtype, flops, moved, m, depth, n, 1 / depth)


def _ranking(arrays: list[Array], mesh: Mesh, sizes: dict[str, Number]) -> list[RankedSharding]:
    """The three ways to split one matmul over the whole mesh, fastest first, then by bytes held."""
    first, second = arrays[:2]
    j = next(d for d in first.dims if d in second.dims)
    (i,), (k,) = ([d for d in a.dims if d != j] for a in (first, second))
    every = tuple(mesh.sizes)
    rows = []
    for name, dim in (("row", i), ("column", k), ("contracting", j)):
        if num.value(sizes[dim]) % mesh.devices:
            continue
        split = [replace(a, over={d: every if d == dim else () for d in a.dims}) for a in (first, second)]
        matmul = " ".join(a.text() for a in split)
        rows.append(RankedSharding.like(_price(split, mesh, sizes), sharding=name, matmul=matmul))
    # Splits of one matmul do the same work; within the precision of a kernel estimate the bytes decide.
    return sorted(rows, key=lambda r: (round(float(r.communication_s), 9), float(r.held_bytes), float(r.time_s)))


SERVING = "serving"
Collectives = list[tuple[str, Number, float, float]]  # operation, bytes, members, stride


def layouts(
    model: ModelSpec,
    hardware: HardwareSpec,
    n: int,
    batch: float,
    queries: float = 1.0,
    context: float = 2048.0,
    dtype: str = "bf16",
) -> PartitioningAnswer:
    """Layouts of the last layer of a model for `batch` sequences of `queries` tokens. Raises UsageError."""
    if n < 1 or n & (n - 1):
        raise UsageError(f"-n {n}: layouts split devices into powers of two; give one")
    group = ledger(model).layers[-1]
    if group.moe or "F" not in group.axes or "K" not in group.axes:
        raise UsageError(
            f"{model.name}: layouts are for a dense feed-forward block with heads; experts have --ep in estimate"
        )
    chip, widths = Chip(hardware), formats(dtype, None, None, dict(hardware.peak), hardware.name)
    sizes = group.sizes(
        {a: float(v) for a, v in group.axes.items()} | {"B": batch, "S": queries, "T": context, "O": 1.0, "Z": queries}
    )
    weights = (
        row_parameters(tuple(r for r in group.rows if r.name.startswith("feedforward.") and r.contraction), sizes)
        * widths.weight
    )
    tokens, d_model, d_ff, d_up = batch * queries, sizes["D"], sizes["F"], sizes.get("U", sizes["F"])
    powers, width = [2**i for i in range(n.bit_length())], widths.activation
    partitionings = [
        ("1D weight-stationary", _weight_stationary_1d(tokens, d_model, n, width), weights / n),
        *((f"2D weight-stationary {n // y} x {y}", _weight_stationary_2d(tokens, d_model, d_ff, d_up, n // y, y, width), weights / n) for y in powers[1:-1]),
        *((f"weight-gathered over {over}", _weight_gathered(tokens, d_model, weights, over, n, width), weights * over / n) for over in powers[1:]),
    ]  # fmt: skip
    rows = [_priced(chip, name, n, *sent, read) for name, sent, read in partitionings]
    return PartitioningAnswer(
        model=model.name, hardware=hardware.name, devices=n, tokens=tokens, context=context, weights_bytes=weights,
        feedforward=sorted(rows, key=lambda row: float(row.time_s)), attention=_attention(chip, sizes, batch, queries, context, n, widths),
    )  # fmt: skip


def _weight_stationary_1d(tokens: Number, d_model: Number, n: int, width: float) -> tuple[Collectives, Number]:
    size = tokens * d_model * width
    sent = sharding.weight_stationary_1d(tokens, d_model, float(n), width)
    return [("all-gather", size, n, 1.0), ("reduce-scatter", size, n, 1.0)], sent


def _weight_stationary_2d(
    tokens: Number, d_model: Number, d_ff: Number, d_up: Number, x: int, y: int, width: float
) -> tuple[Collectives, Number]:
    """d_model over x devices, d_ff over y; the first matmul of a gated block leaves two partial sums, `d_up` wide together."""
    model, hidden = tokens * d_model / x * width, tokens * width / y
    collectives: Collectives = [
        ("all-gather", model, y, 1.0),
        ("reduce-scatter", hidden * d_up, x, float(y)),
        ("all-gather", hidden * d_ff, x, float(y)),
        ("reduce-scatter", model, y, 1.0),
    ]
    return collectives, sharding.weight_stationary_2d(tokens, d_model, (d_up + d_ff) / 2, float(x), float(x * y), width)


def _weight_gathered(
    tokens: Number, d_model: Number, weights: Number, over: int, n: int, width: float
) -> tuple[Collectives, Number]:
    rest, size = n // over, tokens / over * d_model * width
    collectives: Collectives = [
        ("all-gather", weights * over / n, over, float(rest)),
        ("all-gather", size, rest, 1.0),
        ("reduce-scatter", size, rest, 1.0),
    ]
    return collectives, sharding.weight_gathered(tokens, d_model, weights, float(over), float(n), width)


def _priced(chip: Chip, name: str, n: int, collectives: Collectives, sent: Number, read: Number) -> Partitioned:
    """Communication and the weights a device reads, one after the other."""
    seconds = floor = 0.0
    for op, size, members, stride in collectives:
        priced = price_collective(Collective(op, op, size, "layout", float(members), stride), chip, SERVING, float(n))
        seconds, floor = seconds + priced.expected, floor + priced.floor
    memory = roofline.effective_memory_time(read, chip.bandwidth, chip.constants(SERVING, "matmul").memory)
    return Partitioned(
        layout=name, sent_bytes=sent, communication_s=seconds, floor_s=roofline.floor_time(floor, read / chip.bandwidth),
        weights_read_bytes=read, memory_s=memory, time_s=seconds + memory,
    )  # fmt: skip


def _attention(
    chip: Chip, sizes: dict[str, Number], batch: float, queries: float, context: float, n: int, widths: Formats
) -> list[PartitionedAttention]:
    """By head: no traffic beyond the projections' own. By sequence: q, k and v go to their sequence's device and o comes back."""
    heads, kv_heads, head_dim = sizes["N"], sizes["K"], sizes["H"]
    moved = batch * queries / n * (2 * heads + 2 * kv_heads) * head_dim * widths.activation
    cached = batch, context, kv_heads, head_dim, float(n), widths.kv
    reached = chip.constants(SERVING, "decode_attention").memory
    rows = []
    for name, cache, size in (
        ("by head", sharding.cache_by_head(*cached), 0.0),
        ("by sequence", sharding.cache_by_batch(*cached), moved),
    ):
        sent = price_collective(
            Collective("all-to-all", "all-to-all", size, "layout", float(n), 1.0), chip, SERVING, float(n)
        )
        communication = sent.expected if size else 0.0
        memory = roofline.effective_memory_time(cache, chip.bandwidth, reached)
        rows.append(
            PartitionedAttention(attention=name, cache_bytes=cache, sent_bytes=sent.volume, communication_s=communication, memory_s=memory, floor_s=cache / chip.bandwidth, time_s=communication + memory),
        )  # fmt: skip
    return sorted(rows, key=lambda row: float(row.time_s))
