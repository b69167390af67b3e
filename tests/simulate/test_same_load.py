"""An estimate and a simulation of the same load: means within ten per cent below saturation; a load that is not sustained is named."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from conftest import run_cli

from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.simulate.answer import run
from rooflinecli.questions.simulate.question import Simulate

MODELS, CHIPS = ("llama-3.1-8b", "mistral-7b-v0.1"), ("h100", "h200")
ENGINES = ("vllm", "sglang", "trtllm", "python-server")


def question(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    return {
        "model": draw.choice(MODELS), "hw": draw.choice(CHIPS), "n": 1, "engine": draw.choice(ENGINES),
        "prompt": draw.randrange(500, 3000), "output": draw.randrange(100, 600),
    }  # fmt: skip


def both(asked: dict[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    own = {name: value for name, value in asked.items() if name != "num_requests"}
    answer = estimate(build_request.request(own | {"phase": "prefill,decode"}))
    decode = answer.phases["decode"]
    values = run(Simulate.read({name: str(value) for name, value in asked.items()})).values
    names = ("ttft_mean_s", "tpot_mean_s", "output_tokens_per_s")
    expected = dict(zip(names, (answer.phases["prefill"].time_s, decode.time_s, decode.tokens_per_s), strict=True))
    return expected, {name: values[name] for name in names if name in values}  # answers of one token have no TPOT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(20))
def test_an_open_loop(seed: int) -> None:
    asked = question(seed)
    top = estimate(build_request.request(asked | {"phase": "prefill,decode", "concurrency": 48})).phases["decode"]
    asked["qps"] = round(random.Random(seed).uniform(0.05, 0.5) * float(top.tokens_per_s) / asked["output"], 4)
    expected, simulated = both(asked)
    for name, value in simulated.items():
        assert expected[name] == pytest.approx(value, rel=0.1), name


@pytest.mark.parametrize(
    ("engine", "output", "qps"),
    [
        ("vllm", 1, 2.9), pytest.param("trtllm", 1, 1.5, marks=pytest.mark.slow), pytest.param("sglang", 1, 3.6, marks=pytest.mark.slow),
        pytest.param("vllm", 4, 1.2, marks=pytest.mark.slow), pytest.param("sglang", 2, 0.8, marks=pytest.mark.slow), ("trtllm", 2, 1.2),
    ],
)  # fmt: skip
def test_an_open_loop_of_short_answers(engine: str, output: int, qps: float) -> None:
    asked = {"model": "llama-3.3-70b", "hw": "h100", "n": 2, "tp": 2, "engine": engine, "prompt": 2048}
    expected, simulated = both(asked | {"output": output, "qps": qps, "num_requests": 2500})
    assert expected["ttft_mean_s"] == pytest.approx(simulated["ttft_mean_s"], rel=0.1)
    if output > 1:
        assert expected["tpot_mean_s"] == pytest.approx(simulated["tpot_mean_s"], rel=0.15)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("seed", range(20))
def test_a_closed_loop(seed: int) -> None:
    asked = question(seed) | {"concurrency": random.Random(seed).choice((1, 2, 3, 5, 8, 16, 32, 48))}
    expected, simulated = both(asked)
    for name, value in simulated.items():
        assert expected[name] == pytest.approx(value, rel=0.15 if name == "ttft_mean_s" else 0.1), name


@pytest.mark.parametrize(
    "load",
    [
        {"model": "phi-3-mini-4k", "hw": "h200", "engine": "sglang", "prompt": 128, "output": 1, "concurrency": 4},
        {"model": "qwen3-8b", "hw": "b200", "engine": "vllm", "prompt": 1830, "output": 16, "concurrency": 2},
        {"model": "gemma-2-9b", "hw": "b200", "engine": "sglang", "prompt": 900, "output": 16, "concurrency": 4},
        {"model": "llama-3.1-8b", "hw": "h200", "engine": "python-server", "prompt": 1644, "output": 16, "concurrency": 32},
        {"model": "mixtral-8x7b", "hw": "a100", "n": 4, "tp": 4, "engine": "trtllm", "prompt": 700, "output": 16, "concurrency": 8},
        {"model": "llama-3.1-8b", "hw": "h100", "engine": "sglang", "prompt": 900, "output": 300, "concurrency": 16, "equal_lengths": True},
        {"model": "mistral-7b-v0.1", "hw": "mi300x", "engine": "vllm", "prompt": 600, "output": 398, "concurrency": 16, "equal_lengths": True},
        # bunches that come and go over hundreds of requests, three clients in lockstep, steps that launches make long
        {"model": "llama-3.3-70b", "hw": "mi300x", "n": 8, "tp": 8, "engine": "sglang-rocm", "prompt": 1574, "output": 8, "concurrency": 16},
        {"model": "olmoe-1b-7b", "hw": "h100", "n": 8, "tp": 8, "dtype": "bf16", "engine": "sglang-2025", "prompt": 3328, "output": 19, "concurrency": 3, "equal_lengths": True},
        {"model": "qwen3-8b", "hw": "b200", "n": 2, "tp": 2, "engine": "trtllm", "prompt": 243, "output": 24, "concurrency": 8},
        # prompts padded to powers of two, one pass of prompts and decodes, a prompt in pieces
        {"model": "gemma-2-9b", "hw": "tpu-v6e", "n": 8, "tp": 8, "engine": "jetstream", "prompt": 2287, "output": 15, "concurrency": 16},
        {"model": "llama-3.3-70b", "hw": "h100", "n": 4, "tp": 4, "engine": "lmdeploy", "prompt": 207, "output": 22, "concurrency": 16},
        {"model": "qwen3-8b", "hw": "m3-max", "n": 1, "tp": 1, "engine": "mlx", "prompt": 2867, "output": 9, "concurrency": 16},
    ],
)  # fmt: skip
def test_a_loop_that_is_counted(load: dict[str, Any]) -> None:
    expected, simulated = both({"n": 1} | load | {"requests_per_client": max(100, 3000 // load["concurrency"])})
    for name, value in simulated.items():
        assert (load["output"] == 1 and name == "tpot_mean_s") or expected[name] == pytest.approx(value, rel=0.1), name


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("output", "qps"), [(2, 20), (3, 20), (4, 10)])
def test_an_open_loop_whose_prompts_take_turns(output: int, qps: float) -> None:
    asked = {"model": "llama-3.1-8b", "hw": "h100", "n": 1, "engine": "sglang", "prompt": 1024}
    expected, simulated = both(asked | {"output": output, "qps": qps, "num_requests": 2500})
    for name, value in simulated.items():
        assert expected[name] == pytest.approx(value, rel=0.15), name


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_user_costs_no_jump(engine: str) -> None:
    asked = {"model": "phi-3-mini-4k", "hw": "h200", "n": 1, "engine": engine, "prompt": 128, "output": 64}
    one, two = (
        estimate(build_request.request(asked | {"phase": "prefill,decode", "concurrency": users})).phases
        for users in (1, 2)
    )
    assert two["decode"].tokens_per_s > one["decode"].tokens_per_s
    rare = estimate(build_request.request(asked | {"phase": "prefill,decode", "qps": 1e-6})).phases["prefill"]
    assert rare.time_s == pytest.approx(one["prefill"].time_s, rel=0.02)


def simulated(*args: str) -> dict[str, Any]:
    return run_cli("simulate", "llama-3.1-8b", "--hw", "h100", *args, "--format", "json").json


@pytest.mark.slow
def test_rates_leave_ramp_and_drain_out() -> None:
    answer = simulated("--qps", "4", "--prompt", "2048", "--output", "512", "--arrivals", "constant")
    assert answer["simulate"]["requests_per_s"] == pytest.approx(4, rel=0.005) and answer["sustained"]
    assert answer["load"]["length_range"] == [0.8, 1.2]


def test_a_load_beyond_the_replica_is_named() -> None:
    answer = simulated("--qps", "40")
    assert not answer["sustained"] and "cannot be sustained" in answer["notes"][-1]
    assert int(re.search(r"try --replicas (\d+)$", answer["notes"][-1])[1]) > 1


@pytest.mark.slow
def test_the_replicas_that_are_named_carry_the_load() -> None:
    enough = re.search(r"\d+$", simulated("--qps", "40")["notes"][-1])[0]
    assert simulated("--qps", "40", "--replicas", enough)["sustained"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("qps", ["12", "60"])
def test_a_long_backlog_is_named(qps: str) -> None:
    """Also where no request ends before the last one arrives."""
    answer = simulated("-n", "1", "--engine", "vllm", "--qps", qps)
    assert not answer["sustained"] and answer["simulate"]["requests_per_s"] < 11.5


@pytest.mark.slow
def test_replicas_are_counted_in_the_steady_state() -> None:
    """Five replicas serve the first 1000 requests inside the limits, and fall behind after: 12 requests/s are beyond one."""
    load = ("--engine", "vllm", "--qps", "60", "--slo", "ttft=2s,itl=50ms@99", "--no-interval")
    answer = simulated(*load, "--replicas", "min")
    assert answer["simulate"]["replicas"] == 6 and answer["sustained"] and answer["simulate"]["requests"] > 1000
    assert simulated(*load, "--replicas", "5", "--num-requests", "1000")["slo"]["met"]


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "llama-3.1-8b", "hw": "b200", "n": 4, "engine": "sglang", "prompt": 1232, "output": 522, "qps": 9.3582},
        {"model": "qwen3-30b-a3b", "hw": "h100", "n": 1, "engine": "vllm", "prompt": 940, "output": 560, "qps": 1.3202},
        {"model": "olmoe-1b-7b", "hw": "h100", "n": 2, "engine": "python-server", "prompt": 2479, "output": 135, "qps": 5.2205},
        {"model": "olmoe-1b-7b", "hw": "mi300x", "n": 1, "engine": "vllm", "prompt": 700, "output": 200, "concurrency": 8},
        {"model": "olmoe-1b-7b", "hw": "h100", "n": 8, "tp": 8, "dtype": "bf16", "engine": "trtllm-cpp", "prompt": 1205, "output": 4, "concurrency": 3, "equal_lengths": True},
    ],
)  # fmt: skip
def test_layout_dollars_and_joules_are_the_estimates(asked: dict[str, Any]) -> None:
    own = {name: value for name, value in asked.items() if name != "num_requests"}
    answer = estimate(build_request.request(own | {"phase": "prefill,decode"}))
    found = run(Simulate.read({name: str(value) for name, value in asked.items()}))
    cost, layout = answer.cost, answer.layout
    taken = found.about["layout"]
    assert layout is not None and (taken.tp, taken.dp, taken.ep) == (layout.tp, layout.dp, layout.ep)
    expected = {
        "usd_per_million_input_tokens": cost.usd_per_million_input_tokens,
        "usd_per_million_output_tokens": cost.usd_per_million_output_tokens,
        "joules_per_output_token": answer.phases["decode"].derived["joules_per_token"],
        "ttft_mean_s": answer.phases["prefill"].time_s,
    }
    for name, value in expected.items():  # first tokens of a closed loop as in test_a_closed_loop
        assert found.values[name] == pytest.approx(value, rel=0.15 if name == "ttft_mean_s" else 0.1), name


def test_equal_lengths_are_understood_by_both() -> None:
    load = ("--concurrency", "64", "--engine", "sglang", "--equal-lengths")
    answer = simulated(*load)
    assert answer["load"]["length_range"] == [1.0, 1.0]
    locked = run_cli("estimate", "llama-3.1-8b", "--hw", "h100", *load, "--phase", "prefill,decode", "--format", "json")
    assert locked.json["workload"]["request_lengths"] == "equal"
    ttft = locked.json["phases"]["prefill"]["time_s"]
    assert ttft == pytest.approx(answer["simulate"]["ttft_mean_s"], rel=0.1)
