"""Kernels of llama.cpp on local machines, against published runs and properties that hold for any constants."""

from __future__ import annotations

from functools import cache

import pytest
from local_inference.question import question

from rooflinecli.engine.inference import decode, prefill
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.gguf import file_bytes
from rooflinecli.specs.engine import load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.validate import local_machines


@cache
def rows() -> dict:
    return {row["id"]: row for row in local_machines.rows()}


def matmuls(chip: str, file: str, model: str = "llama-2-7b", **asked) -> float:
    return float(decode(question(chip, file, model, prompt=1.0, output=1.0, **asked), Layout()).breakdown_s["matmul"])


@pytest.mark.parametrize("model", ["llama3-8b", "qwen2.5-14b"])
def test_core_counts_of_an_m1_decide_its_rate_in_k_quants(model):
    """LocalScore, Q4_K_M: M1 Max of 24 cores and 32, same bus (32.12 and 38.4 tokens/s for 8B, 17.56 and 21.39 for 14B), and an M4 Max."""
    measured, expected = (
        {
            chip: by(rows()[f"localscore-apple-{chip}-{model}"])
            for chip in ("m1-max-8p-2e-24gpu", "m1-max-8p-2e-32gpu", "m4-max-12p-4e-40gpu")
        }
        for by in (lambda row: row["decode"], lambda row: local_machines.decoded(row)[0])
    )
    assert expected == pytest.approx(measured, rel=0.06)
    few, many = (expected[f"m1-max-8p-2e-{cores}gpu"] for cores in (24, 32))
    assert many / few == pytest.approx(measured["m1-max-8p-2e-32gpu"] / measured["m1-max-8p-2e-24gpu"], rel=0.03)


def test_an_m1_is_bound_by_cores_in_k_quants_and_by_its_bus_elsewhere():
    """Whatever the rates: matmuls of K-quants take 32/24 as long on three quarters of the cores, those of Q4_0 as long; none beats the bus."""
    few, many = load_hardware("m1-max-24"), load_hardware("m1-max")
    assert few.memory.bandwidth.si == many.memory.bandwidth.si == 400e9
    ratio = matmuls("m1-max-24", "q4_k_m") / matmuls("m1-max", "q4_k_m")
    assert ratio == pytest.approx(32 / 24, rel=0.01)  # the head goes by the bus
    assert matmuls("m1-max-24", "q4_0") == matmuls("m1-max", "q4_0")
    read = file_bytes(load_model("llama-2-7b"), "Q6_K", parameters(load_model("llama-2-7b")).total)
    assert matmuls("m1-max", "q6_k") > (read["total"] - read["embedding"]) / 400e9


def test_a_prompt_in_k_quants_takes_a_seventh_longer_on_metal():
    """Pull request 3084, M2 Ultra: 1028 (Q4_K_M) to 978 (Q5, Q6_K) tokens a second where Q4_0 gives 1164: 0.84 to 0.88."""
    plain, k = (
        float(prefill(question("m2-ultra", f, "llama-2-7b"), Layout()).breakdown_s["matmul"])
        for f in ("q4_0", "q4_k_m")
    )
    assert 0.84 <= plain / k <= 0.88


@pytest.mark.parametrize("batch", range(1, 9))
def test_one_to_eight_sequences_decode_as_published(batch):
    """Pull request 15802, RTX 3090, 8B in Q4_0: 156.56 tokens/s of one sequence to 583.77 of eight, so 30% of a further one at eight."""
    row = rows()[f"llamacpp-3090-8b-q4_0-b{batch}"]
    assert local_machines.decoded(row)[0] == pytest.approx(row["decode"], rel=0.16)


def test_further_sequences_cost_vector_kernels_and_a_prompt_does_not():
    """RTX 3090: more sequences are never less in all, and a prompt of 512 is bound by arithmetic (5175 tokens/s of a 7B measured)."""
    steps = [matmuls("rtx-3090", "q4_0", "llama-3-8b", batch=float(b)) for b in (1, 2, 4, 8)]
    rates = [batch / step for batch, step in zip((1, 2, 4, 8), steps, strict=True)]
    assert steps == sorted(steps) and rates == sorted(rates)
    row = rows()["lcpp-cuda-rtx-3090-llama2-7b-q4-0-fa1"]
    rate = local_machines.prefilled(row)[0]
    assert rate == pytest.approx(row["prefill"], rel=0.12)
    spec, chip = load_model("llama-2-7b"), load_hardware("rtx-3090")
    flops = 2 * (parameters(spec).total - 2 * spec.vocab_size * spec.d_model)  # of a token
    assert rate * flops < chip.peak["int8"].si
    assert rate > 8 * 583.77  # whose vector kernels would make it eight times slower


def test_experts_of_a_prompt_are_loaded_and_then_worked_on():
    """gpt-oss-120b on GB10: a micro-batch of 512 is three times as slow a token as one of 2,048 (846 and 1,938 measured)."""
    asked = {"file": "mxfp4_moe", "model": "gpt-oss-120b", "prompt": 2048.0}
    small, large = (
        float(prefill(question("dgx-spark", token_budget=t, **asked), Layout()).time_s) for t in (512.0, 2048.0)
    )
    assert 1.5 < small / large < 2.5
    assert 2048 / large == pytest.approx(1937.54, rel=0.1)


def test_a_benchmark_visits_few_experts():
    """gpt-oss-120b on GB10, sixteen sequences: 220.02 tokens/s measured, a step of 72.7 ms. Even routing would read 51 of 128 experts of
    36 layers in 88.8 ms at the full 273 GB/s, so a benchmark's tokens visit fewer; the estimate is below that too."""
    for batch in (1, 16):
        row = rows()[f"lcpp-spark-batched-gpt-oss-120b-p512-b{batch}"]
        assert local_machines.decoded(row)[0] == pytest.approx(row["decode"], rel=0.2)
    visited = 128 * (1 - (1 - 4 / 128) ** 16)
    expert = 36 * 3 * 2880 * 2880 * 4.25 / 8  # bytes, all layers
    even = visited * expert / load_hardware("dgx-spark").memory.bandwidth.si
    assert 16 / row["decode"] < even
    answer = decode(question("dgx-spark", "mxfp4_moe", "gpt-oss-120b", batch=16.0, prompt=512.0), Layout())
    assert float(answer.breakdown_s["matmul"]) < even
    assert load_engine("llamacpp").routing_skew < load_engine("vllm").routing_skew
