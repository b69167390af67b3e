"""Routed experts as one kernel: counts against drawing routes, floors, every kind of number, layouts that serve them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN, TracedLift
from rooflinecli.core.num import value
from rooflinecli.engine.build_request import request
from rooflinecli.engine.phase_answer import DecodeAnswer
from rooflinecli.formulas import grouped_gemm as f
from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, busiest_rank_share, experts_op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.kernel.question import GroupedGemm
from rooflinecli.specs.hardware import load_hardware

DEEPSEEK = {"d_model": 7168.0, "expert_width": 2048.0, "experts": 256.0, "top_k": 8.0}
CHIPS = ("h100-sxm", "a100-sxm-80", "b200-sxm", "gb200", "l40s", "rtx-pro-6000", "mi300x", "tpu-v5e", "h20")


def grouped(tokens, chip: str = "h100-sxm", **more):
    return GroupedGemm(tokens, **{**DEEPSEEK, **more}, hw=chip).answer()


@pytest.mark.slow
def test_chance_alone_leaves_as_much_imbalance_as_drawing_shows() -> None:
    """16 ranks, 4,000 slots each placed at random: the mean of the fullest over the even share."""
    drawn = random.Random(1)
    most = []
    for _ in range(200):
        ranks = [0] * 16
        for _ in range(4000):
            ranks[drawn.randrange(16)] += 1
        most.append(max(ranks) / 250)
    assert f.busiest_rank_balanced(16.0, 4000.0) == pytest.approx(np.mean(most), abs=0.05)


def test_experts_with_work_has_the_limits_it_should() -> None:
    assert f.expected_active_experts(32.0, 1e-9, 1.5) == pytest.approx(
        32e-9, rel=1e-3
    )  # few slots: as many experts as slots
    assert f.expected_active_experts(32.0, 1e9, 1.5) == pytest.approx(32.0)
    # ever more even routing: what independent draws give, 1 - e^-mu
    assert f.expected_active_experts(32.0, 0.7, 1e7) == pytest.approx(32 * (1 - math.exp(-0.7)), rel=1e-5)
    assert f.busiest_rank_load(1.0, 256.0, 2.0) == 1.0 and f.busiest_rank_load(256.0, 8.0, 50.0) == 256.0


def test_two_matrices_are_two_thirds_of_three() -> None:
    gated, plain = grouped(4096.0), grouped(4096.0, gated=False)
    assert plain["flops"] == pytest.approx(gated["flops"] * 2 / 3)
    assert plain["time_s"] < gated["time_s"]


def test_the_pass_over_slots_grows_with_the_group_where_a_rank_multiplies_nothing() -> None:
    """Kernels that mask: at 256 ranks most of the time is neither weights nor work, and doubles with the tokens."""
    few, many = grouped(8192.0, ep=256, library="sglang"), grouped(16384.0, ep=256, library="sglang")
    assert many["time_s"] - few["time_s"] > 5 * many["floor_s"]
    one = grouped(16384.0, ep=1, library="sglang")
    assert one["time_s"] / 20 < many["time_s"] < one["time_s"] / 2  # an even share of the work would be 1/256


@settings(max_examples=examples(150), deadline=None)
@given(
    tokens=st.integers(1, 65536),
    ep=st.sampled_from((1, 2, 8, 32, 256)),
    library=st.sampled_from(("vllm", "sglang", "trtllm", "deepep", "deepep-low-latency")),
    chip=st.sampled_from(CHIPS),
    redundant=st.sampled_from((0, 256)),
)
def test_no_expert_kernel_beats_its_floor(tokens: int, ep: int, library: str, chip: str, redundant: int) -> None:
    a = grouped(float(tokens), chip, ep=ep, library=library, redundant_experts=redundant)
    more = grouped(tokens + 1.0, chip, ep=ep, library=library, redundant_experts=redundant)
    assert a["floor_s"] <= a["interval_s"][0] <= a["time_s"] <= a["interval_s"][1]
    # with balance, a token more may even the ranks out by more than it adds
    assert a["time_s"] <= more["time_s"] * (1 + 1e-9) or redundant
    assert 1 <= a["busiest_over_even"] <= ep


def test_a_kernel_of_experts_is_its_five_terms_by_hand() -> None:
    """64 tokens over four ranks of an H100 in fp8 as TensorRT-LLM has them, every term written out with the constants of the file."""
    chip = Chip(load_hardware("h100-sxm"))
    c = chip.constants("kernel", "routed_experts", "fp8", "fp8@trtllm")
    d, width, experts, top_k, ep, tokens = 7168.0, 2048.0, 256.0, 8.0, 4.0, 64.0
    busiest_share = 1 + 2 * math.sqrt(2 * math.log(ep) * ep / experts)
    rows = busiest_share * tokens * top_k / ep
    visits = busiest_share * tokens * top_k / experts
    active = experts / ep * (1 - (1 + visits / 1.5) ** -1.5)
    compute = 2 * 3 * rows * d * width * (1 + c.k0 * active / rows) / (c.compute * 1978.9e12)
    memory = 3 * active * d * width * 1.0 / (c.memory * 3.35e12)
    slots = tokens * top_k
    starts = c.overhead / 2 * (1 + slots / (slots + 256)) + c.per_expert * experts / ep + c.tau * (d + width)
    passes = c.passes * 2 * (d + width) * (rows + 0.1 * slots) / 3.35e12
    shape, stored = ExpertShape(d, width, 3.0, experts, top_k), ExpertStorage(1.0, 1.0, 2.0, "fp8", "fp8@trtllm")
    op = experts_op("x", tokens, shape, stored, ep, f.busiest_rank_load(ep, experts, f.SPREAD))
    assert price(op, chip, "kernel").expected == pytest.approx(
        (compute**3 + memory**3) ** (1 / 3) + starts + passes, rel=1e-12
    )
    assert min(c.per_expert, c.tau, c.passes) > 0 and c.whole_group == 0


@given(
    tokens=st.integers(1, 64), top_k=st.sampled_from((1, 4, 8)), ep=st.sampled_from((1, 2, 16, 128)), even=st.booleans()
)
def test_the_busiest_rank_has_work_and_no_more_experts_with_it_than_rows(
    tokens: int, top_k: int, ep: int, even: bool
) -> None:
    shape, stored = (
        ExpertShape(4096.0, 1536.0, 3.0, 128.0, float(top_k)),
        ExpertStorage(2.0, 2.0, 2.0, "bf16", "bf16@vllm"),
    )
    share = 1.0 if even else f.busiest_rank_load(float(ep), 128.0, f.SPREAD)
    routed = experts_op("x", float(tokens), shape, stored, float(ep), share, even=even).routed
    assert routed.rows >= 1 and 1 <= routed.active <= min(128 / ep, routed.rows) * (1 + 1e-12)
    assert routed.held == 128 / ep


def test_the_busiest_rank_visits_as_many_experts_as_drawn_routes_do() -> None:
    """One token, eight of 128 experts drawn over 16 ranks: the fullest rank has one to three of them, an average one half of one."""
    drawn, most = random.Random(2), []
    for _ in range(2000):
        ranks = [0] * 16
        for expert in drawn.sample(range(128), 8):
            ranks[expert // 8] += 1
        most.append(max(ranks))
    shape, stored = ExpertShape(4096.0, 1536.0, 3.0, 128.0, 8.0), ExpertStorage(2.0, 2.0, 2.0, "bf16", "bf16@vllm")
    routed = experts_op("x", 1.0, shape, stored, 16.0, f.busiest_rank_load(16.0, 128.0, f.SPREAD)).routed
    assert 1 <= routed.active <= np.mean(most) and 8 / 16 < np.mean(most) < 3


def test_serving_sees_less_of_the_walk_over_experts_and_as_much_less_of_other_starts() -> None:
    """What factors of a format touch: per_expert has one of its own, tau the one of the overhead."""
    chip = Chip(load_hardware("b200-sxm"))
    shape, stored = ExpertShape(7168.0, 2048.0, 3.0, 256.0, 8.0), ExpertStorage(1.0, 1.0, 2.0, "fp8", "fp8@trtllm")
    op = experts_op("x", 1.0, shape, stored, 1.0, 1.0)
    times = {
        name: price(
            op, Chip(load_hardware("b200-sxm"), override={f"efficiency.served_experts.{name}": 0.0 + 1e-9}), "serving"
        ).expected
        for name in ("of_held", "of_overhead")
    }
    c, s = (
        chip.constants(*names)
        for names in (("kernel", "routed_experts", "fp8", "fp8@trtllm"), ("serving", "served_experts", "fp8"))
    )
    whole = price(op, chip, "serving").expected
    assert whole - times["of_held"] == pytest.approx(s.of_held * c.per_expert * 256, rel=1e-5)
    least = s.of_overhead * (c.overhead / 2 * (1 + 8 / 264) + c.tau * (7168 + 2048))
    assert whole - times["of_overhead"] == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("crowd", [0.0, 1.0])
def test_a_layer_of_experts_in_serving_by_hand(crowd: float) -> None:
    """320 tokens on one rank of a B200: every constant of the kernels with its factor of serving, and of a crowded step too."""
    chip = Chip(load_hardware("b200-sxm"))
    c, s, crowded = (
        chip.constants(*names)
        for names in (
            ("kernel", "routed_experts", "fp8", "fp8@trtllm"), ("serving", "served_experts", "fp8"), ("serving", "served_experts", "crowded"),
        )
    )  # fmt: skip
    shape, stored = (
        ExpertShape(7168.0, 2048.0, 3.0, 256.0, 8.0),
        ExpertStorage(1.0, 1.0, 2.0, "fp8", "fp8@trtllm+decode"),
    )
    op = experts_op("x", 320.0, shape, stored, 1.0, 1.0)
    r = op.routed
    compute = min(c.compute * s.of_compute, 1.0) * (crowded.of_compute if crowd else 1.0)
    passes = c.passes * s.of_passes * (crowded.of_passes if crowd else 1.0)
    assert (r.rows, r.slots, r.held) == (2560, 2560, 256)
    product = r.flops * (1 + c.k0 * r.active / 2560) / (compute * chip.power_limited_peak("fp8"))
    stream = r.weights / (min(c.memory * s.of_memory, s.memory) * chip.bandwidth)
    start = s.of_overhead * (c.overhead / 2 * (1 + 2560 / 2816) + c.tau * 9216) + s.of_held * c.per_expert * 256
    around = passes * 2 * 9216 * 2560 * (1.1 - 0.1 * c.whole_group) / chip.bandwidth
    found = price(op._replace(routed=replace(r, crowded=crowd)), chip, "serving")
    assert found.expected == pytest.approx((product**c.p + stream**c.p) ** (1 / c.p) + start + around)
    assert found.error == s.error != c.error and crowded.of_passes > 1 > crowded.of_compute


def test_prompts_of_experts_run_at_the_share_of_the_kernel_tables() -> None:
    """The factor of decode steps on the compute share of fp8 experts, 1.62, is none of a prompt's, whose rows are those of the tables."""
    chip, shape = Chip(load_hardware("b200-sxm")), ExpertShape(7168.0, 2048.0, 3.0, 256.0, 8.0)
    prompt, step = (
        price(experts_op("x", 65536.0, shape, ExpertStorage(1.0, 1.0, 2.0, "fp8", f"fp8@trtllm{when}"), 1.0, 1.0), chip, "serving")
        for when in ("", "+decode")
    )  # fmt: skip
    assert chip.constants("serving", "served_experts", "fp8").of_compute == 1.62
    assert 1.2 < prompt.expected / step.expected < 1.62


def test_no_factor_of_serving_lifts_a_rate_above_what_a_class_may_reach() -> None:
    """However much better streams overlap: the products at most at peak, the weights at the share of the bandwidth that the file allows."""
    spec = load_hardware("b200-sxm")
    shape, stored = ExpertShape(7168.0, 2048.0, 3.0, 256.0, 8.0), ExpertStorage(1.0, 1.0, 2.0, "fp8", "fp8@trtllm")
    none = {f"efficiency.served_experts.{name}": 1e-12 for name in ("of_overhead", "of_held", "of_passes")}
    chip = Chip(spec, override={**none, **{f"efficiency.served_experts.{n}": 1e6 for n in ("of_compute", "of_memory")}})
    s = chip.constants("serving", "served_experts", "fp8")
    many, one = (experts_op("x", tokens, shape, stored, 1.0, 1.0) for tokens in (65536.0, 32.0))
    assert price(many, chip, "serving").expected >= many.routed.flops / chip.power_limited_peak("fp8") > 0
    assert price(one, chip, "serving").expected >= one.routed.weights / (s.memory * chip.bandwidth) and s.memory < 1


def test_four_bit_weights_under_fp8_activations_have_factors_of_their_own() -> None:
    chip = Chip(load_hardware("b200-sxm"))
    wide, plain = (chip.constants("serving", "served_experts", "mxfp4", name) for name in ("mxfp4-fp8", "mxfp4"))
    assert wide.of_overhead != plain.of_overhead
    assert (
        chip.constants("serving", "served_experts", "fp8", "fp8-tensor").of_overhead
        == chip.constants("serving", "served_experts", "fp8").of_overhead
    )


def test_one_text_for_every_kind_of_number() -> None:
    """Floats, arrays and traced numbers, in the regime of kernels and in serving, crowded or not."""
    sizes = np.array([1.0, 7.0, 128.0, 100000.0])
    shape, stored = (
        ExpertShape(7168.0, 2048.0, 3.0, 256.0, 8.0),
        ExpertStorage(0.5625, 0.5625, 2.0, "fp4", "nvfp4@trtllm"),
    )

    def seconds(tokens, regime: str, lift=PLAIN):
        op = experts_op("x", tokens, shape, stored, 8.0, busiest_rank_share(tokens, shape, 8.0, balanced=True))
        op = op._replace(routed=replace(op.routed, crowded=f.crowded(tokens)))
        return price(op, Chip(load_hardware("b200-sxm"), lift), regime).expected

    for regime in ("kernel", "serving"):
        swept = seconds(sizes, regime)
        for i, size in enumerate(sizes.tolist()):
            assert swept[i] == pytest.approx(seconds(size, regime), rel=1e-14)
            assert value(seconds(size, regime, TracedLift())) == seconds(size, regime)


def decode(**options) -> DecodeAnswer:
    given = {"model": "deepseek-v3", "hw": "h200", "phase": "decode", "batch": 32, **options}
    return estimate(request(given)).phases["decode"]


def test_attention_data_parallel_is_the_layout_written_out() -> None:
    short = decode(n=16, attention_dp=True)
    by_tp, written = decode(tp=16, attention_dp=True), decode(n=16, tp=1, dp=16, ep=16)
    assert short.time_s == written.time_s == by_tp.time_s
    assert short.memory.total_bytes == written.memory.total_bytes


def test_experts_over_tensor_parallel_ranks_hold_whole_experts() -> None:
    """tp 8, ep 8 in one replica: every rank has 32 whole experts of as many bytes as 256 of an eighth, and sends no tokens."""
    over, split = decode(n=8, tp=8, ep=8), decode(n=8, tp=8)
    assert over.memory.weights_bytes == split.memory.weights_bytes
    assert "ep" not in over.communication_bytes or over.communication_bytes["ep"] == 0


def test_redundant_experts_take_memory_and_even_the_ranks_out() -> None:
    without = decode(n=32, attention_dp=True)
    with_copies = decode(n=32, attention_dp=True, redundant_experts=32)
    # bytes in fp8 with a scale of four per block of 128 x 128, one more expert on each of 32 ranks in 58 layers
    one_expert = 58 * 3 * 7168 * 2048 * (1 + 4 / 128**2)
    assert with_copies.memory.weights_bytes - without.memory.weights_bytes == pytest.approx(one_expert)
    assert decode(n=32, attention_dp=True, imbalance=4).time_s > without.time_s
    assert with_copies.floor_s >= without.floor_s


def test_two_batches_hide_what_is_sent_and_pay_for_it() -> None:
    busy = {"n": 72, "hw": "h100", "attention_dp": True, "redundant_experts": 32, "prompt": 2000, "output": 100}
    plain, halves = (decode(**busy, batch=256, overlap=o) for o in ("none", "two-batch"))
    assert halves.time_s < plain.time_s and halves.communication_s["ep"] < plain.communication_s["ep"] / 1.5
    few, split = (decode(**busy, batch=4, overlap=o) for o in ("none", "two-batch"))
    assert split.time_s > few.time_s  # weights are read twice, and there is little to hide


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 16, "tp": 2, "dp": 8, "ep": 5}, "does not divide the 256 experts"),
        ({"n": 24, "tp": 2, "dp": 12, "ep": 8}, "neither divides --dp 12"),
        ({"n": 8, "attention_dp": True, "exchange": "nvlink"}, "not benchmarked"),
        ({"n": 8, "attention_dp": True, "exchange": "carrier"}, "expected auto or"),
        ({"n": 9, "tp": 1, "dp": 9, "ep": 9, "redundant_experts": 4}, "and 4 redundant ones"),
    ],
)
def test_layouts_that_cannot_be(options: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        decode(**options)


def test_kernel_grouped_from_the_command_line(cli) -> None:
    said = (
        "kernel",
        "grouped",
        "128",
        "--d-model",
        "7168",
        "--width",
        "2048",
        "--experts",
        "256",
        "--top-k",
        "8",
        "--hw",
        "h100",
    )
    assert cli(*said, "--ep", "8", "--dtype", "fp8", "--format", "json").json["op"] == "experts"
    assert "slot_passes_time" in cli(*said, "--explain", "time_s").out
    assert cli(*said, "--ep", "7").code == 2 and cli(*said, "--library", "none").code == 2
    assert cli(*said, "--expert-imbalance", "0.5").code == 2


def test_a_sweep_over_hosts_is_the_estimate_at_every_point(cli) -> None:
    """Eight ranks gather, sixteen send over DeepEP: one sweep has both."""
    import json

    args = ("deepseek-v3", "--hw", "h200", "--phase", "decode", "--batch", "64", "--redundant-experts", "32")
    rows = [
        json.loads(line)
        for line in cli("sweep", *args, "--dp", "16", "--ep", "8,16", "--format", "jsonl").out.splitlines()
    ]
    for row in rows:
        alone = cli(
            "estimate", *args, "-n", "16", "--tp", "1", "--dp", "16", "--ep", str(int(row["ep"])), "--format", "json"
        )
        assert row["decode.time_s"] == pytest.approx(alone.json["phases"]["decode"]["time_s"], rel=1e-14)
    assert len(rows) == 2
