"""Operations of `roofline kernel`: a matmul and an attention core as counted ops, and one op alone on the roofline."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import INF, Number
from rooflinecli.core.record import Quantities
from rooflinecli.formulas import attention, counts, occupancy, roofline, textbook
from rooflinecli.layers.softmax import TILE
from rooflinecli.ledger.ops import Op, matmul
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.hardware import HardwareSpec

REGIME = "kernel"
BLOCK, SLAB = (
    128.0,
    64.0,
)  # output rows and columns of a thread block, and its step along the contraction: CUTLASS's default


def matmul_op(m: Number, k: Number, n: Number, dtype: str, hardware: HardwareSpec) -> Op:
    """The kernel of x[m, k] @ w[k, n], with the pass that quantizes its input where the chip's constants have one.

    Both operands are in `dtype`, the result in 16 bits when `dtype` is narrower.
    """
    f = formats(dtype, None, None, hardware.peak, hardware.name)
    moved = counts.matmul_bytes(m, k, n, f.matmul_input, f.weight, f.activation)
    return matmul("matmul", f.compute, counts.matmul_flops(m, k, n), moved, m, k, n, 1 / k)


def tiling(m: Number, k: Number, n: Number, op: Op, chip: Chip, element: float) -> dict[str, object]:
    """What whole tiles and waves lose of a matmul's rate, and what each level of memory holds of it; empty where the units
    are not on record. element: bytes of an operand's element."""
    units, on_chip = chip.spec.units, chip.spec.on_chip
    if units is None:
        return {}
    kept = {"memory": op.bytes, "l2": (m * k + k * n) * element, "vmem": (m * k + k * n) * element}
    if units.shape is not None:
        rows, cols = (float(size) for size in units.shape)
        cycles = occupancy.systolic_cycles(m, k, n, rows, cols)
        lost = {
            "tile_rows": rows, "tile_columns": cols, "weight_tile_utilization": occupancy.weight_tile_utilization(k, n, rows, cols),
            "cycle_utilization": occupancy.systolic_efficiency(m, k, n, rows, cols, cycles),
        }  # fmt: skip
        note = (
            f"tiles of {rows:g} x {cols:g} weights lie on each of {units.count.si:g} arrays while rows of x stream past"
        )
    else:
        blocks = num.ceil(m / BLOCK) * num.ceil(n / BLOCK)
        waves = occupancy.grid_waves(blocks, units.count.si, 1.0)
        lost = {
            "output_tiles": blocks, "output_tile_utilization": occupancy.output_tile_utilization(m, n, BLOCK, BLOCK), "waves": waves,
            "wave_utilization": occupancy.wave_utilization(blocks, units.count.si, 1.0, waves),
        }  # fmt: skip
        sums = "tensor_memory_per_unit" if "tensor_memory_per_unit" in on_chip else "registers_per_unit"
        kept |= {"shared_memory_per_unit": 2 * BLOCK * SLAB * element, sums: BLOCK * BLOCK * 4}
        note = (
            f"a block keeps {BLOCK:g} x {BLOCK:g} sums on one of {units.count.si:g} {units.kind}s and reads slabs of x and w {SLAB:g} deep; "
            "libraries take other tiles for small shapes; the expected time includes the losses"
        )
    sizes = {"memory": chip.capacity} | {name: figure.si for name, figure in on_chip.items()}
    levels = {name: {"capacity_bytes": sizes[name], "held_bytes": kept[name]} for name in sizes if name in kept}
    return {"tiling": lost, "memory_levels": levels, "notes": [note]}


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
        name="attention", kind="decode_attention" if decode else "prefill_attention", dtype=f.attention_compute,
        flops=attention.attention_core_flops(batch, heads, pairs, head_dim, head_dim), bytes=moved, k=kv, n=head_dim,
        items=batch * kv_heads if decode else batch * heads * q / TILE, sharing=heads / kv_heads,
    )  # fmt: skip
    return op if decode else op._replace(quantized=2 * batch * kv * kv_heads * head_dim, ramp=q / pairs)


def alone(op: Op, dtype: str, chip: Chip, regime: str = REGIME) -> Quantities:
    """An operation by itself: intensity against the ridge, bottleneck with its time over that of the next resource, floor, expected time, interval."""
    peak = chip.peak(op.dtype)
    t_c, t_m = roofline.compute_time(op.flops, peak), roofline.memory_time(op.bytes, chip.bandwidth)
    floor = roofline.floor_time(t_c, t_m)
    priced = price(op, chip, regime)
    intensity = roofline.arithmetic_intensity(op.flops, op.bytes)
    time = num.maximum(priced.expected, floor)
    low, high = sorted(float(num.value(t)) for t in (t_c, t_m))
    return Quantities.of(
        "kernel/1", op=op.name, hardware=chip.spec.name, dtype=dtype, flops=op.flops, bytes=op.bytes, intensity_flops_per_byte=intensity,
        ridge_flops_per_byte=roofline.ridge_point(peak, chip.bandwidth), bound="compute" if num.value(t_c) > num.value(t_m) else "memory",
        bound_by=high / low if num.value(op.flops) else INF, floor_s=label(floor, "t_floor"), time_s=label(time, "t"),
        interval_s=(roofline.interval_low(time, priced.error, floor), roofline.interval_high(time, priced.error)),
        attainable_flops_per_s=textbook.attainable_flops(intensity, peak, chip.bandwidth), achieved_flops_per_s=op.flops / time,
    )  # fmt: skip
