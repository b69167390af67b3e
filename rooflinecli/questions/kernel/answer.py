"""`roofline kernel`: one operation on the roofline: counted, priced alone, and held against both roofs."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import unknown
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import INF, Number
from rooflinecli.formulas import attention, counts, roofline
from rooflinecli.layers.softmax import TILE
from rooflinecli.ledger.ops import Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import formats, size_of
from rooflinecli.specs.engine import ServingEngine, load_engine
from rooflinecli.specs.hardware import HardwareSpec

REGIME = "kernel"
OWN = "serving"  # the regime that an engine's own kernels have constants in
QUANTIZATION = ("dynamic", "static", "none")


def kernel_matmul(
    m: Number,
    k: Number,
    n: Number,
    dtype: str,
    hardware: HardwareSpec,
    lift: PlainLift = PLAIN,
    engine: str | None = None,
    quantization: str = "dynamic",
) -> dict[str, Any]:
    """x[m, k] @ w[k, n], both operands in `dtype`, the result in 16 bits when `dtype` is narrower.

    engine: whose kernels; without it those that the chip's constants are of. quantization: dynamic has a pass of its own that
    narrows the input, static (scales known before, so that the kernel in front writes narrow) and none have not. Raises
    UsageError for other words.
    """
    if quantization not in QUANTIZATION:
        raise unknown("quantization", quantization, QUANTIZATION, option="activation-quantization")
    m, k, n = sizes(lift, m=m, k=k, n=n)
    op = matmul_op(m, k, n, dtype, hardware)
    op = op if quantization == "dynamic" else op._replace(quantized=0.0)
    return _under(op, op.dtype, dtype, hardware, lift, engine)


def _under(
    op: Op, constants: str, dtype: str, hardware: HardwareSpec, lift: PlainLift, engine: str | None
) -> dict[str, Any]:
    """The operation as an engine's library runs it, or by the engine's own kernels where it has some."""
    if engine is None:
        return alone(op, dtype, Chip(hardware, lift))
    spec: ServingEngine = load_engine(engine)
    chip = Chip(hardware, lift, engine=spec)
    own = chip.engine_has_constants(op.kind)
    return alone(op._replace(variant=f"{constants}@{spec.library}"), dtype, chip, OWN if own else REGIME)


def matmul_op(m: Number, k: Number, n: Number, dtype: str, hardware: HardwareSpec) -> Op:
    """The kernel of x[m, k] @ w[k, n], with the pass that quantizes its input where the chip's constants have one."""
    f = formats(dtype, None, None, hardware.peak, hardware.name)
    return Op(
        name="matmul",
        kind="matmul",
        dtype=f.compute,
        flops=counts.matmul_flops(m, k, n),
        bytes=counts.matmul_bytes(m, k, n, f.matmul_input, f.weight, f.activation),
        k=k,
        n=n,
        quantized=m * k,
        ramp=1 / k,
    )


def kernel_attention(
    batch: Number,
    q: Number,
    kv: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    causal: bool,
    decode: bool,
    fused: bool,
    dtype: str,
    hardware: HardwareSpec,
    lift: PlainLift = PLAIN,
    engine: str | None = None,
) -> dict[str, Any]:
    """The attention core over `q` queries and `kv` keys: scores, softmax, weighted values."""
    given = sizes(lift, b=batch, q=q, kv=kv, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    op = attention_op(*given, causal=causal, decode=decode, fused=fused, dtype=dtype, hardware=hardware)
    return _under(op, "any", dtype, hardware, lift, engine)


def attention_op(
    batch: Number,
    q: Number,
    kv: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    *,
    causal: bool,
    decode: bool,
    fused: bool,
    dtype: str,
    hardware: HardwareSpec,
) -> Op:
    """The kernel of an attention core; over a prompt with the pass that appends its keys and values to a cache."""
    f = formats(dtype, dtype, None, hardware.peak, hardware.name)
    pairs = attention.causal_pairs(kv, INF) * (q / kv) if causal else q * kv
    moved = attention.flash_attention_bytes(batch, q, kv, heads, kv_heads, head_dim, head_dim, f.activation, f.kv)
    if not fused:
        moved = moved + attention.unfused_scores_bytes(batch, heads, q, kv, f.activation)
    op = Op(
        name="attention",
        kind="decode_attention" if decode else "prefill_attention",
        dtype=f.attention_compute,
        flops=attention.attention_core_flops(batch, heads, pairs, head_dim, head_dim),
        bytes=moved,
        k=kv,
        n=head_dim,
        items=batch * kv_heads if decode else batch * heads * q / TILE,
        sharing=heads / kv_heads,
    )
    return op if decode else op._replace(quantized=2 * batch * kv * kv_heads * head_dim, ramp=q / pairs)


def kernel_elementwise(
    elements: Number,
    dtype: str,
    hardware: HardwareSpec,
    flops_per_element: Number = 1.0,
    reads: Number = 1.0,
    writes: Number = 1.0,
    lift: PlainLift = PLAIN,
) -> dict[str, Any]:
    """A pass that reads `reads` and writes `writes` tensors of `elements` elements."""
    elements, flops_per_element, reads, writes = sizes(
        lift, elements=elements, flops_per_element=flops_per_element, reads=reads, writes=writes
    )
    moved = counts.bytes_of(elements * (reads + writes), size_of(dtype))
    vector = "vector_fp32" if "vector_fp32" in hardware.peak else _fastest(hardware)
    return alone(
        Op(name="elementwise", kind="elementwise", dtype=vector, flops=elements * flops_per_element, bytes=moved),
        dtype,
        Chip(hardware, lift),
    )


def _fastest(hardware: HardwareSpec) -> str:
    """The dtype of the highest peak: a bound on what its vector unit could do, where the file does not give that."""
    return max(hardware.peak, key=lambda dtype: hardware.peak[dtype].si)


def sizes(lift: PlainLift, **given: Number) -> list[Number]:
    """Sizes that were given, as numbers of the kind that `lift` makes."""
    return [
        lift(name, float(value) if isinstance(value, int) else value, "1", "given") for name, value in given.items()
    ]


def alone(op: Op, dtype: str, chip: Chip, regime: str = REGIME) -> dict[str, Any]:
    """An operation by itself: intensity against the ridge, bound, floor, expected time and interval."""
    peak = chip.peak(op.dtype)
    t_c, t_m = roofline.compute_time(op.flops, peak), roofline.memory_time(op.bytes, chip.bandwidth)
    floor = roofline.floor_time(t_c, t_m)
    priced = price(op, chip, regime)
    intensity = roofline.arithmetic_intensity(op.flops, op.bytes)
    ridge = roofline.ridge_point(peak, chip.bandwidth)
    compute_bound = num.value(t_c) > num.value(t_m)
    time = num.maximum(priced.expected, floor)
    return {
        "op": op.name,
        "hardware": chip.spec.name,
        "dtype": dtype,
        "flops": op.flops,
        "bytes": op.bytes,
        "intensity_flops_per_byte": intensity,
        "ridge_flops_per_byte": ridge,
        "bound": "compute" if compute_bound else "memory",
        "bound_by": float(num.value(num.maximum(t_c, t_m))) / float(num.value(num.minimum(t_c, t_m)))
        if num.value(op.flops)
        else INF,
        "floor_s": label(floor, "t_floor"),
        "time_s": label(time, "t"),
        "interval_s": [roofline.interval_low(time, priced.error, floor), roofline.interval_high(time, priced.error)],
        "attainable_flops_per_s": roofline.attainable_flops(intensity, peak, chip.bandwidth),
        "achieved_flops_per_s": op.flops / time,
    }
