"""One operation -> seconds. Pricing knows the chip and the operation, and no model.

An Op has FLOPs, bytes, and the sizes that a kernel's efficiency depends on. Each class of operation has its own constants (data in
hardware/*.yaml) and its own form here, composed from formulas/roofline.py; docs/accuracy.md has the forms and the gain of each term.
Every efficiency is at most 1 and every further term at least 0, so that no expected time is below its floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives, grouped_gemm, roofline
from rooflinecli.ledger.ops import Op
from rooflinecli.price.chip import Chip

POWER_NORM = 4  # exponent of the p-norm of compute and power limit; fitted with the constants of engines/llamacpp.yaml
FUSIBLE = ("elementwise", "gather")  # an ideal engine fuses these into their neighbors, so they have no floor


class Priced(NamedTuple):
    """Seconds of one kernel: compute and memory at peak, and expected."""

    t_compute: Number
    t_memory: Number
    expected: Number
    error: Number


_made = tuple.__new__  # half the time of calling the class: a pass prices dozens


@dataclass(slots=True, eq=False, repr=False)
class PricingRule:
    """How operations of one class, format and variant are priced on a chip, whatever their sizes.

    `form` gives an expected time from the constants `c`, the power-limited peak and the bandwidth; `peak` is None where an ideal
    engine fuses the operation away; `bounded` where SM load throughput or the power limit may take longer.
    """

    form: Callable[[Op, SimpleNamespace, Number, Number], Number]
    c: SimpleNamespace
    peak: Number = None
    power_limited_peak: Number = None
    bounded: bool = False


def price(op: Op, chip: Chip, regime: str) -> Priced:
    """Floor terms and expected time of one launch of `op`."""
    rule, bandwidth = chip.pricing_rules.get((regime, op.kind, op.dtype, op.variant)), chip.bandwidth
    if rule is None:
        rule = chip.pricing_rules[regime, op.kind, op.dtype, op.variant] = _pricing_rule(op, chip, regime)
    c, peak = rule.c, rule.peak
    expected = rule.form(op, c, rule.power_limited_peak, bandwidth)
    if peak is None:
        return _made(Priced, (0.0, 0.0, expected, c.error))
    if rule.bounded:  # by the load throughput of SMs and the power limit
        if num.present(c.unit_bytes) and chip.unit_clocks is not None:
            expected = num.maximum(expected, roofline.unit_streaming_time(op.bytes, c.unit_bytes, chip.unit_clocks))
        if num.present(c.flops_per_joule) and chip.power is not None:
            limited = roofline.power_bound_time(op.flops, c.flops_per_joule, chip.power)
            expected = roofline.joined_norm(expected, limited, POWER_NORM, 0.0)
    least = roofline.compute_time(op.flops, peak), roofline.memory_time(op.bytes, bandwidth)
    return _made(Priced, (*least, expected, c.error))


def _pricing_rule(op: Op, chip: Chip, regime: str) -> PricingRule:
    c = chip.constants(regime, op.kind, op.dtype, op.variant)
    if op.kind in FUSIBLE:
        hidden = num.one(c.overlap)
        return PricingRule((lambda op, c, peak, bandwidth: 0.0) if hidden else _pass, c)
    if op.kind == "routed_experts" and regime == "serving" and not chip.engine_has_constants(op.kind):
        c = _as_served(c, chip, op.variant.partition("@")[0], op.variant.endswith("+decode"))
    form = _plain if c.simple else _FORMS.get(op.kind, _plain)
    bounded = num.present(c.unit_bytes) or num.present(c.flops_per_joule)
    return PricingRule(form, c, chip.peak(op.dtype), chip.power_limited_peak(op.dtype), bounded)


def join(t_compute: Number, t_memory: Number, c: Any, overhead: Number) -> Number:
    """Combine compute and memory time by the exponent of the class: maximum, sum, or a p-norm between them."""
    if math.isinf(c.p):
        return roofline.joined_max(t_compute, t_memory, overhead)
    if c.p == 1:
        return roofline.joined_sum(t_compute, t_memory, overhead)
    return roofline.joined_norm(t_compute, t_memory, c.p, overhead)


def _pass(op: Op, c: SimpleNamespace, peak: Number, bandwidth: Number) -> Number:
    """Elementwise work: traffic and launch, in a p-norm or added, without the part that the engine hides."""
    t_memory = roofline.effective_memory_time(op.bytes, bandwidth, c.memory)
    if math.isinf(c.p):
        time = t_memory + c.overhead
    else:
        time = roofline.joined_norm(num.maximum(c.overhead, 1e-12), t_memory, c.p, 0.0)
    return collectives.exposed(time, c.overlap) if num.present(c.overlap) else time


def _plain(op: Op, c: SimpleNamespace, peak: Number, bandwidth: Number) -> Number:
    """Fractions of peak and bandwidth, combined, and a launch."""
    return join(
        roofline.effective_compute_time(op.flops, peak, c.compute),
        roofline.effective_memory_time(op.bytes, bandwidth, c.memory),
        c,
        c.overhead,
    )


def _matmul(op: Op, c: SimpleNamespace, peak: Number, bandwidth: Number) -> Number:
    """Matmul, dense or grouped by expert: ramp-up, serial latency of the k loop, and quantization of the input."""
    t_compute = roofline.filled_compute_time(op.flops, op.ramp, c.k0, peak, c.compute)
    share = num.minimum(c.memory, c.unpack / bandwidth) if num.present(c.unpack) else c.memory
    t_memory = roofline.effective_memory_time(op.bytes, bandwidth, share)
    if num.present(c.further) and num.present(op.n):
        rows = num.maximum(roofline.matmul_rows(op.flops, op.k, op.n), 1)
        t_memory = t_memory + roofline.further_rows_time(op.flops, rows, c.together, peak, c.further)
    overhead = roofline.matmul_overhead(c.overhead, c.tau, op.k) if num.present(c.tau) else c.overhead
    expected = join(t_compute, t_memory, c, overhead)
    if num.present(c.quant_bytes):
        expected = expected + roofline.quantize_time(op.quantized, c.quant_bytes, bandwidth, c.quant_memory)
    return expected


def _as_served(c: SimpleNamespace, chip: Chip, name: str, decode: bool) -> SimpleNamespace:
    """Constants of kernel benchmarks adjusted to serving runs, by the experts' format: streams overlap, and fewer kernels launch alone."""
    key = ("serving", "routed_experts", str(id(c)), "decode" if decode else "")
    adjusted = chip._constants.get(key)
    if adjusted is None:
        s = chip.constants("serving", "served_experts", name.partition("-")[0], name if decode else f"{name}+prompt")
        scaled = {
            "compute": grouped_gemm.as_served(c.compute, s.of_compute, 1.0),
            "memory": grouped_gemm.as_served(c.memory, s.of_memory, s.memory),
            "overhead": c.overhead * s.of_overhead,
            "per_expert": c.per_expert * s.of_held,
            "tau": c.tau * s.of_overhead,
            "passes": c.passes * s.of_passes,
            "error": s.error if s.known else c.error,
            "crowded": chip.constants("serving", "served_experts", "crowded") if s.known else None,
        }
        adjusted = chip._constants[key] = SimpleNamespace(**{**vars(c), **scaled})
    return adjusted


def _experts(op: Op, c: SimpleNamespace, peak: Number, bandwidth: Number) -> Number:
    """All experts of a layer on the busiest rank: both GEMMs, and the passes over routed slots around them."""
    r, crowded = op.routed, getattr(c, "crowded", None)
    assert r is not None
    compute, passes = c.compute, c.passes
    if crowded is not None and num.present(r.crowded):
        compute = grouped_gemm.as_crowded(compute, crowded.of_compute, r.crowded)
        passes = grouped_gemm.as_crowded(passes, crowded.of_passes, r.crowded)
    t_compute = roofline.filled_compute_time(r.flops, r.active / r.rows, c.k0, peak, compute)
    t_memory = roofline.effective_memory_time(r.weights, bandwidth, c.memory)
    touched = grouped_gemm.slots_passed(r.rows, r.slots, c.whole_group)
    starts = grouped_gemm.expert_starts(c.overhead, r.slots, c.per_expert, r.held, c.tau, op.k, op.n)
    return join(t_compute, t_memory, c, starts) + grouped_gemm.slot_passes_time(passes, op.k, op.n, touched, bandwidth)


def _prefill_attention(op: Op, c: SimpleNamespace, peak: Number, bandwidth: Number) -> Number:
    """Fused attention over many queries: matmuls and exponentials, the longest tile, traffic, cache append, tile launches."""
    # A mixer without a width has no exponentials, one without a length has one rate.
    softmax = num.present(c.softmax_width) and num.present(op.n)
    flops = roofline.softmax_flops(op.flops, op.n, c.softmax_width) if softmax else op.flops
    rises = num.present(c.half_length) and num.present(op.length)
    efficiency = roofline.long_efficiency(c.compute, op.length, c.half_length) if rises else c.compute
    if op.backward and num.present(c.gradient):
        efficiency = roofline.backward_efficiency(efficiency, c.gradient)
    t_compute = roofline.filled_compute_time(flops, op.ramp, c.k0, peak, efficiency)
    t_tail = roofline.longest_tile_time(c.tail_rows, op.n + c.softmax_width, op.k, peak, c.compute)
    t_memory = roofline.effective_memory_time(op.bytes, bandwidth, c.memory)
    append = roofline.quantize_time(op.quantized, c.quant_bytes, bandwidth, c.quant_memory)
    return join(t_compute + t_tail, t_memory, c, c.overhead) + append + op.items * c.per_item


def _decode_attention(op: Op, c: SimpleNamespace, peak: Number, bandwidth: Number) -> Number:
    """One query per sequence: the KV cache is streamed while work items launch, in a p-norm."""
    t_compute = roofline.effective_compute_time(op.flops, peak, c.compute)
    again = num.present(c.unshared) or num.present(c.padded)
    moved = roofline.cache_read(op.bytes, c.unshared, op.sharing, c.padded) if again else op.bytes
    t_memory = roofline.effective_memory_time(moved, bandwidth, c.memory)
    return join(num.maximum(t_compute, op.items * c.per_item), t_memory, c, c.overhead)


def _latent_attention(op: Op, c: SimpleNamespace, peak: Number, bandwidth: Number) -> Number:
    """One query per sequence against a latent cache (MLA): compute and traffic, launches of work items, a serial loop over keys."""
    t_compute = roofline.effective_compute_time(op.flops, peak, c.compute)
    t_memory = roofline.effective_memory_time(op.bytes, bandwidth, c.memory)
    overhead = roofline.matmul_overhead(c.overhead, c.tau, op.k) + op.items * c.per_item
    return join(t_compute, t_memory, c, overhead)


_FORMS: dict[str, Callable[[Op, SimpleNamespace, Number, Number], Number]] = {
    "matmul": _matmul,
    "grouped_matmul": _matmul,
    "routed_experts": _experts,
    "prefill_attention": _prefill_attention,
    "decode_attention": _decode_attention,
    "latent_attention": _latent_attention,
}
