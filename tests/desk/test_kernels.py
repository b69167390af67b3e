"""Kernels of machines on a desk, against arithmetic by hand and published runs."""

from __future__ import annotations

import pytest
from desk.asked import question

from rooflinecli.engine.inference import decode, prefill
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.gguf_tensors import file_bytes
from rooflinecli.specs.engine import load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model


def matmuls(chip: str, file: str, model: str = "llama-2-7b", **asked) -> float:
    return float(decode(question(chip, file, model, prompt=1.0, output=1.0, **asked), Layout()).breakdown_s["matmul"])


def test_cores_decide_how_fast_an_m1_reads_k_quants_and_its_bus_how_fast_others():
    """LocalScore and published runs on M1 Pro and Max: 6.3 bytes a clock and core, where Q4_0 and an M4 Max reach 0.914 of the bus."""
    few, many = load_hardware("m1-max-24"), load_hardware("m1-max")
    assert few.memory.bandwidth.si == many.memory.bandwidth.si
    assert matmuls("m1-max-24", "q4_k_m") / matmuls("m1-max", "q4_k_m") == pytest.approx(
        32 / 24, rel=0.01
    )  # the head goes by the bus
    assert matmuls("m1-max-24", "q4_0") == matmuls("m1-max", "q4_0")
    read = file_bytes(load_model("llama-2-7b"), "Q6_K", parameters(load_model("llama-2-7b")).total)
    streamed = (read["total"] - read["embedding"]) / (6.3 * 32 * 1.296e9)
    assert matmuls("m1-max", "q6_k") == pytest.approx(streamed, rel=5e-3)
    assert matmuls("m4-max", "q4_k_m") * 0.914 * 546e9 == pytest.approx(
        matmuls("m2", "q4_k_m") * 6.3 * 10 * 1.398e9, rel=1e-3
    )


def test_a_prompt_in_k_quants_takes_a_seventh_longer_on_metal():
    """Pull request 3084, M2 Ultra: 1028 (Q4_K_M) to 978 (Q5, Q6_K) tokens a second where Q4_0 gives 1164: 0.84 to 0.88."""
    plain, k = (
        float(prefill(question("m2-ultra", f, "llama-2-7b"), Layout()).breakdown_s["matmul"])
        for f in ("q4_0", "q4_k_m")
    )
    assert 0.84 <= plain / k <= 0.88


def test_further_rows_cost_what_vector_kernels_take_and_a_prompt_knows_nothing_of_them():
    """RTX 3090, 8B in Q4_0: 7 further rows at 0.043 of the int8 rate, seven twenty-thirds of it spared, beside the loads of one."""
    spec, chip = load_model("llama-3-8b"), load_hardware("rtx-3090")
    one, eight = (matmuls("rtx-3090", "q4_0", "llama-3-8b", batch=float(b)) for b in (1, 8))
    weights = parameters(spec).total - 2 * spec.vocab_size * spec.d_model  # the head has kernels of its own
    assert eight - one == pytest.approx(2 * weights * 7 / (1 + 7 / 16) / (0.043 * chip.peak["int8"].si), rel=0.03)
    rates = [
        b / float(decode(question("rtx-3090", "q4_0", "llama-3-8b", batch=float(b), prompt=512.0), Layout()).time_s)
        for b in (1, 2, 4, 8)
    ]
    assert rates == sorted(rates)  # more together is never less in all
    # the prompt of 512 is bound by work: as long as at the compute share alone, joined with the power limit in a norm of 4
    flops = 2 * 512 * weights
    units, watts = flops / (0.32 * chip.peak["int8"].si), flops / (268e9 * 350)
    found = float(prefill(question("rtx-3090", "q4_0", "llama-3-8b"), Layout()).breakdown_s["matmul"])
    assert found == pytest.approx((units**4 + watts**4) ** 0.25, rel=0.02)


def test_experts_of_a_prompt_are_loaded_and_then_worked_on():
    """gpt-oss-120b on GB10: a micro-batch of 512 is three times as slow a token as one of 2,048 (846 and 1,938 measured)."""
    asked = {"file": "mxfp4_moe", "model": "gpt-oss-120b", "prompt": 2048.0}
    small, large = (
        float(prefill(question("dgx-spark", token_budget=t, **asked), Layout()).time_s) for t in (512.0, 2048.0)
    )
    assert 1.5 < small / large < 2.5
    assert 2048 / large == pytest.approx(1937.54, rel=0.1)


def test_a_bench_visits_few_experts():
    """r = 0.6: of 128 experts, four of each of 16 tokens reach 39, where even routing reaches 51 and the floor counts fewer still."""
    one, answer = (
        decode(question("dgx-spark", "mxfp4_moe", "gpt-oss-120b", batch=b, prompt=512.0), Layout()) for b in (1.0, 16.0)
    )
    assert load_engine("llamacpp").routing_skew == 0.6 and load_engine("vllm").routing_skew == 1.5
    visited = 128 * (1 - (1 + 16 * 4 / 128 / 0.6) ** -0.6)
    assert visited == pytest.approx(39, abs=0.5)
    each = 36 * 3 * 2880 * 2880 * 4.25 / 8
    more = float(answer.breakdown_s["matmul"]) - float(one.breakdown_s["matmul"])
    assert more == pytest.approx(
        (visited - 4) * each / (0.895 * 273e9), rel=0.04
    )  # and a little for further rows of the other layers
