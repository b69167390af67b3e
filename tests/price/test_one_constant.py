"""Each constant of a class by itself: what it adds to the time of one kernel, worked out by hand, on a chip of 100 TFLOP/s and 1 TB/s."""

from __future__ import annotations

import math

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.ledger.ops import ExpertWorkload, Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.specs.hardware import load_hardware

CHIP = """\
name: x
vendor: acme
kind: gpu
peak: {{bf16: {{value: 100 TFLOP/s, source: sheet}}}}
memory: {{capacity: {{value: 10 GiB, source: sheet}}, bandwidth: {{value: 1 TB/s, source: sheet}}}}
units: {{kind: SM, count: {{value: 100, source: sheet}}, clock: {{value: 1 GHz, source: sheet}}}}
power: {{value: 500 W, source: sheet}}
efficiency: {{{regime}: {{{kind}: {{any: {{{constants}, source: here}}}}}}}}
"""
# 10 ms of compute and 1 ms of traffic
MATMUL = Op("m", "matmul", "bf16", 1e12, 1e9, k=1000, n=500, quantized=1e6, ramp=0.01)
TRAFFIC = MATMUL._replace(flops=1e10, bytes=1e10)  # 0.1 ms, 10 ms
PREFILL = Op(
    "a", "prefill_attention", "bf16", 1e12, 1e9, k=1000, n=100, quantized=1e6, ramp=0.01, items=50, length=4000
)
DECODE = Op("a", "decode_attention", "bf16", 1e10, 1e10, k=1000, n=100, items=50, length=4000, sharing=4)
LATENT = DECODE._replace(kind="latent_attention")
# 10 ms for the busiest rank, 1 ms of traffic; 768 slots in the group, 100 rows on this rank
EXPERTS = Op(
    "e", "routed_experts", "bf16", 1e12, 1e9, k=3000, n=1000,
    routed=ExpertWorkload(rows=100.0, slots=768.0, active=10.0, flops=1e12, weights=1e9, held=16.0),
)  # fmt: skip
CASES = [  # op, constants, milliseconds
    (MATMUL, "", 10),
    (MATMUL, "compute: 0.8", 12.5),
    (TRAFFIC, "memory: 0.8", 12.5),
    (MATMUL, "overhead: 2 us", 10.002),
    (MATMUL, "p: 1", 11),
    (MATMUL, "k0: 32", 13.2),  # 1 + 32 x 0.01
    (MATMUL, "tau: 1 ns", 10.001),  # of 1,000 elements
    (MATMUL, "quant_bytes: 3 B", 10.003),  # of a million elements at 1 TB/s
    (MATMUL, "quant_bytes: 3 B, quant_memory: 0.5", 10.006),
    (TRAFFIC, "unpack: 0.5 TB/s", 20),
    (TRAFFIC, "unpack: 2 TB/s", 10),  # no faster than memory
    # 1e12 FLOP are a million rows of 1,000 x 500: those beyond the first at 16 / (1 + 16/m) times what one takes, each 1e6 FLOP
    (TRAFFIC._replace(flops=1e7), "further: 0.5", 10 + 1e3 * 1e6 * 9 / (1 + 9 / 16) / 0.5e14),
    (TRAFFIC._replace(flops=1e7), "further: 0.5, together: 3", 10 + 1e3 * 1e6 * 9 / (1 + 9 / 3) / 0.5e14),
    (PREFILL, "softmax_width: 20", 12),  # a head of 100
    (PREFILL, "tail_rows: 64", 10 + 1e3 * 4 * 64 * 100 * 1000 / 1e14),
    (PREFILL, "per_item: 1 us", 10.05),
    (PREFILL, "quant_bytes: 3 B", 10.003),
    (PREFILL, "half_length: 1000", 12.5),  # of 4,000
    (PREFILL, "k0: 10", 11),
    (PREFILL._replace(backward=True), "gradient: 0.25", 12.5),
    (PREFILL, "gradient: 0.25", 10),
    (DECODE, "unshared: 1", 40),  # four heads
    (DECODE, "unshared: 0.5", 25),
    (DECODE, "padded: 0.5", 15),
    (DECODE, "per_item: 1 ms", 50),  # beside the traffic
    (LATENT, "per_item: 1 us", 10.05),  # after it
    (LATENT, "tau: 1 ns", 10.001),
    (EXPERTS, "k0: 3", 13),  # 10 experts for 100 rows
    (EXPERTS, "per_expert: 1 us", 10.016),
    (EXPERTS, "tau: 1 ns", 10.004),
    (EXPERTS, "overhead: 4 us, per_expert: 1 us", 10.016 + 0.002 * 1.75),  # half of it, and three quarters of the other: 768 of 768 + 256
    (EXPERTS, "passes: 1000, whole_group: 1", 10 + 1e3 * 1000 * 2 * 4000 * 768 / 1e12),
]  # fmt: skip


def chip(tmp_path, regime: str, kind: str, constants: str) -> Chip:
    path = tmp_path / "x.yaml"
    path.write_text(CHIP.format(regime=regime, kind=kind, constants=constants or "compute: 1"), encoding="utf-8")
    return Chip(load_hardware(str(path)))


@pytest.mark.parametrize(
    "op, constants, milliseconds", CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_constant_by_itself(op, constants, milliseconds, tmp_path):
    found = price(op, chip(tmp_path, "kernel", op.kind, constants), "kernel")
    assert found.expected == pytest.approx(milliseconds / 1e3, rel=1e-12)


@pytest.mark.parametrize("constants, milliseconds", [
    ("unit_bytes: 50 B", 10),  # 100 units at 1 GHz draw 5 TB/s
    ("unit_bytes: 5 B", 20),
    ("flops_per_joule: 1.0e+9", 20 * (1 + 0.5**4) ** 0.25),  # 1e10 FLOP at 0.5 TFLOP/s are 20 ms, beside 10 in a norm of 4
])  # fmt: skip
def test_bounds_of_units_and_of_power(constants, milliseconds, tmp_path):
    found = price(TRAFFIC, chip(tmp_path, "kernel", "matmul", constants), "kernel")
    assert found.expected == pytest.approx(milliseconds / 1e3, rel=1e-12)


# fractions and switches are at most 1, a rate that is reached above 0, nothing below it; a unit or none
UNITS = {
    "": "p k0 softmax_width tail_rows unshared padded further together layer_cycles moe_layer_cycles flops_per_joule per_doubling passes whole_group "
    "of_compute of_memory of_overhead of_held of_passes per_domain gradient overlap beyond rails traffic bias_passes narrow_gather host_copy sharding mtp "
    "pads_heads slack early_stop error_experts error_hidden error_exposed error compute memory quant_memory fabric",
    "s": "overhead tau per_item per_hop gamma per_layer per_moe_layer per_prompt per_step per_sequence per_expert",
    "B": "quant_bytes unit_bytes accumulate optimizer_bytes kept_gradient kept_state exchange_bytes gather_bytes logit_bytes norm_bytes gate_bytes gate_input",
    "B/s": "unpack",
    "tokens": "half_length",
}  # fmt: skip
SHARES = "compute memory quant_memory fabric rails".split()
SWITCHES = "unshared further whole_group overlap beyond narrow_gather host_copy mtp pads_heads early_stop".split()
STATES = [(name, unit) for unit, names in UNITS.items() for name in names.split()]


@pytest.mark.sampled(len(STATES))
@pytest.mark.parametrize("name, unit", STATES)
def test_a_constant_is_held_to_its_bounds(name, unit, tmp_path):
    def read(value: str) -> float:
        found = chip(tmp_path, "kernel", "matmul", f"{name}: {value}").constants("kernel", "matmul", "bf16")
        return float(getattr(found, name))

    assert read("1") == 1 and read(f"1 {unit}") == 1
    least = {"p": "1", "traffic": "1", **dict.fromkeys((*SHARES, "together"), "0.001")}.get(name, "0")
    assert read(least) == float(least)
    below = {"p": "0.9", "traffic": "0.9", **dict.fromkeys((*SHARES, "together"), "0")}.get(name, "-0.001")
    with pytest.raises(DataError, match=name):
        read(below)
    if name in (*SHARES, *SWITCHES):
        with pytest.raises(DataError, match=name):
            read("1.001")
    else:
        assert read("1.5") == 1.5


def test_what_is_left_out_is_neutral(tmp_path):
    """No kernel is slowed down by what nobody measured: rates and factors are 1, the ZeRO stages of a framework 3, all else 0."""
    found = vars(chip(tmp_path, "kernel", "matmul", "").constants("kernel", "matmul", "bf16"))
    ones = {*SHARES, "traffic", *(f"of_{name}" for name in ("compute", "memory", "overhead", "held", "passes"))}
    others = {"p": math.inf, "together": 16, "sharding": 3, "error": 0.25}
    assert {name: found[name] for name, _ in STATES} == {
        name: others.get(name, float(name in ones)) for name, _ in STATES
    }


def test_an_ideal_engine_keeps_what_a_framework_does(tmp_path):
    """`--efficiency ideal` takes away what is slow, and neither what overlaps nor the bytes that a framework keeps."""
    kept = "overlap beyond kept_gradient kept_state exchange_bytes gather_bytes narrow_gather host_copy mtp pads_heads logit_bytes slack norm_bytes gate_bytes gate_input early_stop"
    spec = chip(
        tmp_path, "training", "framework", ", ".join(f"{name}: 1" for name, _ in STATES if name != "error")
    ).spec
    found = vars(Chip(spec, ideal=True).constants("training", "framework", "bf16"))
    neutral = vars(chip(tmp_path, "kernel", "matmul", "").constants("kernel", "matmul", "bf16"))
    same = {name for name, _ in STATES if found[name] == neutral[name]}
    assert {name for name, _ in STATES} - same == set(kept.split()) | {"error"}
