"""`roofline aot`: a jitted function compiled ahead of time, counted by XLA and by its jaxpr, and put on the roofline of any chip.

The floor reads each used argument once, writes each result once and does the matmuls that results need. The expected time
adds the kernels up as a compiler would fuse them. Both are of the chip asked for, whatever machine compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.units import count, si
from rooflinecli.formulas import roofline
from rooflinecli.ledger.ops import Op
from rooflinecli.measure.function_signature import first_line
from rooflinecli.measure.jaxpr_counter import Dot, OpCounts, Rules, compulsory, tally
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.questions.ops.answer import OperationLine, placed
from rooflinecli.specs.hardware import HardwareSpec

SCHEMA, REGIME = "roofline/aot/1", "kernel"
RATES = {
    "float64": ("fp64_matrix", "fp64"),
    "bfloat16": ("bf16",),
    "float16": ("fp16", "bf16"),
    "int8": ("int8",),
    "uint8": ("int8",),
    "int4": ("int4", "int8"),
}
SAME = 1e-6  # relative difference below which two counts agree


def analyse(
    function: Callable[..., Any], arguments: list[Any], hardware: HardwareSpec, name: str, trips: float | None = None
) -> dict[str, Any]:
    """Everything `roofline aot` prints. Raises UsageError when the function cannot be traced or compiled with these shapes."""
    traced, compiled = _compile(function, arguments, name)
    jaxpr, chip = traced.jaxpr, Chip(hardware, PLAIN)
    counts = {
        "needed": tally(jaxpr, Rules(trips=trips)),
        "written": tally(jaxpr, Rules(trips=trips, dead=True)),
        "once": tally(jaxpr, Rules(once=True)),
    }
    xla = _xla(compiled)
    read, written = compulsory(jaxpr, xla["alias_bytes"] > 0)
    written = max(written - xla["alias_bytes"], 0.0)  # a donated argument may be changed in part
    always = tally(jaxpr, Rules(trips=trips, least=True))
    placement = _placement(counts["needed"], always, read + written, chip)
    needed = counts["needed"]
    flops = needed.flops + needed.math_flops
    return {
        "schema": SCHEMA,
        "model": {"name": name},
        "hardware": {"name": hardware.name, "id": hardware.id},
        "arguments": [str(a) for a in arguments],
        "compiled_for": compiled_for(),
        "counts": {
            "flops": flops,
            "matmul_flops": needed.flops,
            "elementwise_flops": needed.math_flops,
            "written_matmul_flops": counts["written"].flops,
            "once_matmul_flops": counts["once"].flops,
            "bytes": read + written,
            "argument_bytes_read": read,
            "result_bytes": written,
            "intensity_flops_per_byte": roofline.arithmetic_intensity(flops, read + written)
            if read + written
            else None,
            "loops": needed.loops,
            "uncounted": needed.unknown,
        },
        "xla": xla,
        "differences": differences(counts, xla),
        **placement,
        **_memory(xla, chip),
    }


def _compile(function: Callable[..., Any], arguments: list[Any], name: str) -> tuple[Any, Any]:
    """The function traced and compiled for this machine, jitted first when it was not."""
    import jax

    try:
        traced = (function if hasattr(function, "trace") else jax.jit(function)).trace(*arguments)
        return traced, traced.lower().compile()
    except Exception as error:  # whatever the user's function raises
        raise UsageError(
            f"{name} with {len(arguments)} arguments: {type(error).__name__}: {first_line(error)}"
        ) from None


def compiled_for() -> str:
    import jax

    device = jax.devices()[0]
    return f"{device.platform} ({device.device_kind}), jax {jax.__version__}"


def _xla(compiled: Any) -> dict[str, Any]:
    """XLA's own counts; `flops` is null where it reports none."""
    cost = compiled.cost_analysis() or {}
    cost = cost[0] if isinstance(cost, list) else cost
    memory = compiled.memory_analysis()
    found = {
        "flops": cost.get("flops"),
        "transcendentals": cost.get("transcendentals"),
        "bytes_accessed": cost.get("bytes accessed"),
    }
    for key in ("argument", "output", "alias", "temp", "generated_code"):
        found[f"{key}_bytes"] = float(getattr(memory, f"{key}_size_in_bytes", 0) or 0)
    return found


def differences(counts: dict[str, OpCounts], xla: dict[str, Any]) -> list[dict[str, Any]]:
    """Where XLA's FLOPs and those of the program part, in sentences."""
    needed, written, once = (counts[key].flops for key in ("needed", "written", "once"))
    found = []
    if written - needed > SAME * written:
        found.append(
            (
                "unused",
                written - needed,
                "FLOPs of matmuls whose results are unused; XLA removes them, and so does the count here",
            )
        )
    if needed - once > SAME * needed:
        found.append(("loops", needed - once, "FLOPs of loop trips after the first; XLA counts a loop's body once"))
    if xla["flops"] is None:
        found.append(("absent", 0.0, "XLA reports no flops, which means zero"))
    rest = (xla["flops"] or 0.0) - once
    if rest > SAME * max(once, 1.0):
        found.append(
            ("elementwise", rest, "FLOPs that XLA counts in addition to matmuls: elementwise work and conversions")
        )
    elif rest < -SAME * max(once, 1.0):
        found.append(
            (
                "simplified",
                -rest,
                "FLOPs that XLA does not count: simplified away, or inside a library call it cannot see into",
            )
        )
    return [
        {"kind": kind, "flops": amount, "message": f"{si(amount, 'FLOP') + ': ' if amount else ''}{why}"}
        for kind, amount, why in found
    ]


def rate_of(dot: Dot, chip: Chip) -> str:
    """The peak a matmul can use. fp32 at default precision runs in TF32 on a GPU and in bf16 on a TPU."""
    peaks, kind = chip.spec.peak, chip.spec.kind
    if dot.dtype.startswith("float8"):
        wanted: tuple[str, ...] = ("fp8", "bf16")
    elif dot.dtype == "float32":
        wanted = (
            ("fp32", "tf32")
            if dot.exact or kind == "cpu"
            else ("bf16", "fp32")
            if kind == "tpu"
            else ("tf32", "fp32", "bf16")
        )
    else:
        wanted = RATES.get(dot.dtype, ())
    fitting = [dtype for dtype in wanted if dtype in peaks]
    if fitting:
        return fitting[0]
    return max(peaks, key=lambda dtype: peaks[dtype].si)  # no rate for this format: bounded by the fastest


def _placement(needed: OpCounts, always: OpCounts, least: float, chip: Chip) -> dict[str, Any]:
    """Floor (of what runs in any case), expected time and interval, and each kernel as a row."""
    lines = [*_matmuls(needed, chip), *_passes(needed, chip)]
    costs = StepAccumulator(chip, REGIME, 1.0)
    for line in lines:
        costs.add([line[0].op], line[0].launches)
    t_compute = sum(
        roofline.compute_time(dot.flops * times, chip.peak(rate_of(dot, chip))) for dot, times in always.dots.items()
    )
    t_memory = roofline.memory_time(least, chip.bandwidth)
    _vector(needed, chip, costs)
    floor = float(roofline.floor_time(t_compute, t_memory))
    time = max(float(costs.total), floor)
    error = costs.relative_error(time) if time else 0.0
    dtypes = dict.fromkeys(rate_of(dot, chip) for dot in needed.dots) or {_elementwise_rate(chip): None}
    rows = [placed(chip, line, line.launches, time, shape) for line, shape in lines] if time else []
    interval = [roofline.interval_low(time, error, floor), roofline.interval_high(time, error)]
    return {
        "bound": "compute" if t_compute > t_memory else "memory",
        "floor_s": floor,
        "time_s": time,
        "interval_s": interval,
        "resources_s": {"compute": t_compute, "memory": t_memory},
        "roofs": {
            "bandwidth_bytes_per_s": chip.bandwidth,
            "peak_flops_per_s": {dtype: chip.peak(dtype) for dtype in dtypes},
        },
        "phases": {"call": {"time_s": time, "floor_s": floor, "interval_s": interval, "operations": rows}},
    }


def _matmuls(needed: OpCounts, chip: Chip) -> list[tuple[OperationLine, str]]:
    found = []
    for dot, times in needed.dots.items():
        op = Op(
            name="matmul",
            kind="matmul",
            dtype=rate_of(dot, chip),
            flops=dot.flops,
            bytes=dot.bytes,
            k=dot.k,
            n=dot.n,
            quantized=dot.g * dot.m * dot.k,
            ramp=1 / max(dot.k, 1),
        )
        shape = f"{f'{count(dot.g)} x ' if dot.g > 1 else ''}[{count(dot.m)}, {count(dot.k)}] . [{count(dot.k)}, {count(dot.n)}] {dot.dtype}"
        found.append((OperationLine(op, dot.flops, dot.bytes, price(op, chip, REGIME), times), shape))
    return found


def _passes(needed: OpCounts, chip: Chip) -> list[tuple[OperationLine, str]]:
    found = []
    for moved, times in needed.passes.items():
        op = Op(name="elementwise", kind="elementwise", dtype=_elementwise_rate(chip), flops=0.0, bytes=moved)
        found.append(
            (OperationLine(op, 0.0, moved, price(op, chip, REGIME), times), f"fused pass over {si(moved, 'B')}")
        )
    return found


def _elementwise_rate(chip: Chip) -> str:
    """The peak to draw where nothing multiplies matrices."""
    return next(dtype for dtype in ("vector_fp32", "fp32", "bf16", *chip.spec.peak) if dtype in chip.spec.peak)


def _vector(needed: OpCounts, chip: Chip, costs: StepAccumulator) -> None:
    """Where elementwise arithmetic takes longer than its traffic, charge what it takes longer."""
    if "vector_fp32" in chip.spec.peak and needed.math_flops:
        busy = roofline.compute_time(needed.math_flops, chip.peak("vector_fp32")) - costs.groups.get("elementwise", 0.0)
        if busy > 0:
            costs.add_time("elementwise", busy, "elementwise", chip.constants(REGIME, "elementwise").error)


def _memory(xla: dict[str, Any], chip: Chip) -> dict[str, Any]:
    """Whether arguments, results and temporaries fit."""
    needed = math.fsum(xla[f"{key}_bytes"] for key in ("argument", "output", "temp")) - xla["alias_bytes"]
    fits = needed <= chip.capacity
    message = (
        f"arguments, results and temporaries take {si(needed, 'B')}, {si(needed - chip.capacity, 'B')} more than the "
        f"{si(chip.capacity, 'B')} of {chip.spec.name}; shard the arguments or shrink them"
    )
    return {
        "memory": {"total_bytes": needed, "capacity_bytes": chip.capacity},
        "feasible": fits,
        "violations": []
        if fits
        else [{"constraint": "memory", "needed": needed, "available": chip.capacity, "message": message}],
    }
