"""`roofline aot`: a jitted function compiled ahead of time, counted by XLA and by its jaxpr, and put on the roofline of any chip.

It is written `script.py:function`, the shapes of its arguments `f32[128,256]`, `(f32[8], i32[])`, `{w: f32[8,8], b: f32[8]}`, `0.5`.

The floor reads each used argument once, writes each result once and does the matmuls that results need. The expected time
adds the kernels up as a compiler would fuse them. Both are of the chip asked for, whatever machine compiles.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflinecli.core.errors import DataError, UsageError, unknown
from rooflinecli.core.files import missing_reason
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.record import OPTIONAL, Json, Record
from rooflinecli.core.units import count, si
from rooflinecli.formulas import roofline
from rooflinecli.ledger.ops import Op, matmul
from rooflinecli.measure.jaxpr_counter import CountingRules, Dot, OpCounts, compulsory_traffic, count_operations
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.questions.ops.answer import OnRoofline, OperationLine, PhaseOperations, Roofs, placed
from rooflinecli.specs.hardware import HardwareSpec

if TYPE_CHECKING:
    import jax
    from jax.stages import Compiled, Traced

    Argument = jax.ShapeDtypeStruct | float | bool | tuple["Argument", ...] | dict[str, "Argument"]


REGIME = "kernel"
RATES = {
    "float64": ("fp64_matrix", "fp64"), "bfloat16": ("bf16",), "float16": ("fp16", "bf16"), "int8": ("int8",), "uint8": ("int8",),
    "int4": ("int4", "int8"),
}  # fmt: skip
SAME = 1e-6  # relative difference below which two counts agree


class Named(Record):
    """The function, or the chip with its id."""

    name: str
    id: str | None = field(default=None, metadata=OPTIONAL)


class AotAnswer(OnRoofline):
    """A compiled function on the roofline of a chip.

    `counts` is the work of the jaxpr: what results need, what is written down, and what one trip of each loop is; bytes at least. `xla` is
    XLA's own analysis, in which `flops` is None where it reports none; `differences` are FLOPs in which the two part, and why.
    """

    schema: str = "roofline/aot/1"
    model: Named
    hardware: Named
    arguments: list[str]
    compiled_for: str
    counts: Json
    xla: Json
    differences: list[Json]
    bound: str
    floor_s: float
    time_s: float
    interval_s: list[float]
    resources_s: dict[str, float]
    roofs: Roofs
    phases: dict[str, PhaseOperations]
    memory: dict[str, float]
    feasible: bool
    violations: list[Json]


def analyse(
    function: Callable[..., object],
    arguments: Sequence[object],
    hardware: HardwareSpec,
    name: str,
    trips: float | None = None,
) -> AotAnswer:
    """Everything `roofline aot` prints. Raises UsageError when the function cannot be traced or compiled with these shapes."""
    import jax

    traced, compiled = _compile(function, arguments, name)
    jaxpr, chip, device = traced.jaxpr, Chip(hardware, PLAIN), jax.devices()[0]
    counts = {
        "needed": count_operations(jaxpr, CountingRules(trips=trips)),
        "written": count_operations(jaxpr, CountingRules(trips=trips, dead=True)),
        "once": count_operations(jaxpr, CountingRules(once=True)),
    }
    xla = _xla(compiled)
    read, written = compulsory_traffic(jaxpr, xla["alias_bytes"] > 0)
    written = max(written - xla["alias_bytes"], 0.0)  # a donated argument may be changed in part
    always = count_operations(jaxpr, CountingRules(trips=trips, least=True))
    needed = counts["needed"]
    flops, moved = needed.flops + needed.math_flops, read + written
    lines = [*_matmuls(needed, chip), *_passes(needed, chip)]
    costs = StepAccumulator(chip, REGIME, 1.0)
    for line, _ in lines:
        costs.add([line.op], line.launches)
    t_compute = sum(
        roofline.compute_time(dot.flops * times, chip.peak(rate_of(dot, chip))) for dot, times in always.dots.items()
    )
    t_memory = roofline.memory_time(moved, chip.bandwidth)
    # what elementwise arithmetic takes longer than its traffic
    if "vector_fp32" in chip.spec.peak and needed.math_flops:
        busy = roofline.compute_time(needed.math_flops, chip.peak("vector_fp32")) - costs.groups.get("elementwise", 0.0)
        if busy > 0:
            costs.add_time("elementwise", busy, "elementwise", chip.constants(REGIME, "elementwise").error)
    floor = float(roofline.floor_time(t_compute, t_memory))
    time = max(float(costs.total), floor)
    error = costs.relative_error(time) if time else 0.0
    dtypes = dict.fromkeys(rate_of(dot, chip) for dot in needed.dots) or {_elementwise_rate(chip): None}
    rows = [placed(chip, line, line.launches, time, shape) for line, shape in lines] if time else []
    interval = [roofline.interval_low(time, error, floor), roofline.interval_high(time, error)]
    taken = math.fsum(xla[f"{part}_bytes"] for part in ("argument", "output", "temp")) - xla["alias_bytes"]
    return AotAnswer(
        model=Named(name=name),
        hardware=Named(name=hardware.name, id=hardware.id),
        arguments=[str(a) for a in arguments],
        compiled_for=f"{device.platform} ({device.device_kind}), jax {jax.__version__}",
        counts={
            "flops": flops,
            "matmul_flops": needed.flops,
            "elementwise_flops": needed.math_flops,
            "written_matmul_flops": counts["written"].flops,
            "once_matmul_flops": counts["once"].flops,
            "bytes": moved,
            "argument_bytes_read": read,
            "result_bytes": written,
            "intensity_flops_per_byte": roofline.arithmetic_intensity(flops, moved) if moved else None,
            "loops": needed.loops,
            "uncounted": needed.unknown,
        },
        xla=xla,
        differences=differences(counts, xla),
        bound="compute" if t_compute > t_memory else "memory",
        floor_s=floor,
        time_s=time,
        interval_s=interval,
        resources_s={"compute": t_compute, "memory": t_memory},
        roofs=Roofs(
            bandwidth_bytes_per_s=chip.bandwidth, peak_flops_per_s={dtype: chip.peak(dtype) for dtype in dtypes}
        ),
        phases={"call": PhaseOperations(time_s=time, floor_s=floor, interval_s=interval, operations=rows)},
        memory={"total_bytes": taken, "capacity_bytes": chip.capacity},
        feasible=taken <= chip.capacity,
        violations=[] if taken <= chip.capacity else [_does_not_fit(taken, chip)],
    )


def _compile(function: Callable[..., object], arguments: Sequence[object], name: str) -> tuple[Traced, Compiled]:
    """The function traced and compiled for this machine, jitted first when it was not."""
    import jax

    try:
        traced = (function if hasattr(function, "trace") else jax.jit(function)).trace(*arguments)
        return traced, traced.lower().compile()
    except Exception as error:  # whatever the user's function raises
        raise UsageError(
            f"{name} with {len(arguments)} arguments: {type(error).__name__}: {first_line(error)}"
        ) from None


def _xla(compiled: Compiled) -> Json:
    cost, memory = compiled.cost_analysis() or {}, compiled.memory_analysis()
    sizes = ("argument", "output", "alias", "temp", "generated_code")
    return {
        "flops": cost.get("flops"), "transcendentals": cost.get("transcendentals"), "bytes_accessed": cost.get("bytes accessed"),
        **{f"{key}_bytes": float(getattr(memory, f"{key}_size_in_bytes", 0) or 0) for key in sizes},
    }  # fmt: skip


def differences(counts: dict[str, OpCounts], xla: Json) -> list[Json]:
    """Where XLA's FLOPs and those of the program part, in sentences."""
    needed, written, once = (counts[key].flops for key in ("needed", "written", "once"))
    rest, same = (xla["flops"] or 0.0) - once, SAME * max(once, 1.0)
    unused = "FLOPs of matmuls whose results are unused; XLA removes them, and so does the count here"
    unseen = "FLOPs that XLA does not count: simplified away, or inside a library call it cannot see into"
    found = [
        ("unused", written - needed, written - needed > SAME * written, unused),
        ("loops", needed - once, needed - once > SAME * needed, "FLOPs of loop trips after the first; XLA counts a loop's body once"),
        ("absent", 0.0, xla["flops"] is None, "XLA reports no flops, which means zero"),
        ("elementwise", rest, rest > same, "FLOPs that XLA counts in addition to matmuls: elementwise work and conversions"),
        ("simplified", -rest, rest < -same, unseen),
    ]  # fmt: skip
    return [
        {"kind": kind, "flops": amount, "message": f"{si(amount, 'FLOP') + ': ' if amount else ''}{why}"}
        for kind, amount, differs, why in found
        if differs
    ]


def rate_of(dot: Dot, chip: Chip) -> str:
    """The peak a matmul can use. fp32 at default precision runs in TF32 on a GPU and in bf16 on a TPU."""
    peaks, kind = chip.spec.peak, chip.spec.kind
    if dot.dtype.startswith("float8"):
        wanted: tuple[str, ...] = ("fp8", "bf16")
    elif dot.dtype == "float32" and (dot.exact or kind == "cpu"):
        wanted = ("fp32", "tf32")
    elif dot.dtype == "float32":
        wanted = ("bf16", "fp32") if kind == "tpu" else ("tf32", "fp32", "bf16")
    else:
        wanted = RATES.get(dot.dtype, ())
    fitting = [dtype for dtype in wanted if dtype in peaks]
    if fitting:
        return fitting[0]
    return max(peaks, key=lambda dtype: peaks[dtype].si)  # no rate for this format: bounded by the fastest


def _matmuls(needed: OpCounts, chip: Chip) -> list[tuple[OperationLine, str]]:
    found = []
    for dot, times in needed.dots.items():
        op = matmul("matmul", rate_of(dot, chip), dot.flops, dot.bytes, dot.g * dot.m, dot.k, dot.n, 1 / max(dot.k, 1))
        shape = f"{f'{count(dot.g)} x ' if dot.g > 1 else ''}[{count(dot.m)}, {count(dot.k)}] . [{count(dot.k)}, {count(dot.n)}] {dot.dtype}"
        found.append((OperationLine(op, dot.flops, dot.bytes, price(op, chip, REGIME), times), shape))
    return found


def _passes(needed: OpCounts, chip: Chip) -> list[tuple[OperationLine, str]]:
    found = []
    for moved, times in needed.passes.items():
        op = Op(name="elementwise", kind="elementwise", dtype=_elementwise_rate(chip), flops=0.0, bytes=moved)
        line = OperationLine(op, 0.0, moved, price(op, chip, REGIME), times)
        found.append((line, f"fused pass over {si(moved, 'B')}"))
    return found


def _elementwise_rate(chip: Chip) -> str:
    """The peak to draw where nothing multiplies matrices."""
    return next(dtype for dtype in ("vector_fp32", "fp32", "bf16", *chip.spec.peak) if dtype in chip.spec.peak)


def _does_not_fit(needed: float, chip: Chip) -> Json:
    message = (
        f"arguments, results and temporaries take {si(needed, 'B')}, {si(needed - chip.capacity, 'B')} more than the "
        f"{si(chip.capacity, 'B')} of {chip.spec.name}; shard the arguments or shrink them"
    )
    return {"constraint": "memory", "needed": needed, "available": chip.capacity, "message": message}


DTYPES = {
    "f64": "float64", "f32": "float32", "bf16": "bfloat16", "f16": "float16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "pred": "bool",
    "bool": "bool", "c64": "complex64", **{f"{short}{bits}": f"int{bits}" for short in ("s", "i") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip


def load(target: str) -> Callable[..., object]:
    """The function a target names. Raises DataError for a missing file, UsageError for a missing function or a script that fails."""
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"{target}: expected script.py:function")
    path = Path(file)
    if not path.is_file():
        raise DataError(f"{file}: {missing_reason(path)}; name a Python script, as in script.py:function")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file}: not a Python file; name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{file}: running it failed with {type(error).__name__}: {first_line(error)}") from None
    finally:
        sys.path.pop(0)
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown("function", name, known)
    return found


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or ["no message"])[0][:300]


def arguments(written: list[str]) -> list[Argument]:
    """Shapes as jax.ShapeDtypeStruct, in tuples and dicts as Python writes them; numbers stay numbers. Raises UsageError."""
    return [_value(node, text) for text in written for node in _argument_nodes(text)]


def _argument_nodes(text: str) -> list[ast.expr]:
    """The arguments of one --args text, as a call has them: commas between may be spaces, and 8x2 is 8,2."""
    spaced = re.sub(r"(?<=[\])}\w])\s+(?=[\w({+-])", ", ", text.strip().removesuffix(","))
    python = re.sub(r"(?<=\d)x(?=\d)", ",", spaced).replace("[]", "[()]")
    try:
        call = ast.parse(f"f({python})", mode="eval").body
    except SyntaxError:
        raise _unreadable_args(text, text) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords or not call.args:
        raise _unreadable_args(text, text)
    return call.args


def _value(node: ast.expr, text: str) -> Argument:
    match node:
        case ast.Tuple():
            return tuple(_value(each, text) for each in node.elts)
        case ast.Dict():
            names = [key.id if isinstance(key, ast.Name) else ast.unparse(key or node) for key in node.keys]
            return dict(zip(names, (_value(each, text) for each in node.values), strict=True))
        case ast.Subscript(value=ast.Name(id=name)):
            import jax
            import jax.numpy as jnp

            try:
                dtype = jnp.dtype(DTYPES.get(name, name))
            except TypeError:
                raise unknown("dtype", name, DTYPES) from None
            axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return jax.ShapeDtypeStruct(tuple(_number(size, text) for size in axes), dtype)
        case ast.Name(id="true" | "false" as word):
            return word == "true"
    return _number(node, text)


def _number(node: ast.expr, text: str) -> Any:
    try:
        found = ast.literal_eval(node)
    except ValueError:
        found = None
    if not isinstance(found, (int, float)):
        raise _unreadable_args(ast.unparse(node), text)
    return found


def _unreadable_args(part: str, text: str) -> UsageError:
    return UsageError(
        f"--args {text}: cannot read '{part.strip()}'; write shapes such as f32[128,256], (f32[8], i32[]) or {{w: bf16[8,8]}}"
    )
