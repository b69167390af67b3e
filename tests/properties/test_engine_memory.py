"""What an engine keeps of memory bounds every serving verb: no batch is feasible beyond its own max_batch."""

from __future__ import annotations

import random

import pytest
from conftest import run_cli

from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate

GB = 1e9
H100 = 80 * 2**30


def asked(**more):
    return estimate(build_request.request({"phase": "decode", **more}))


def test_vllm_has_a_tenth_less_than_the_chip() -> None:
    """Llama 3.3 70B on two H100: 70.6 GB of 77.3 GB are weights, 2 GB the reserve; a sequence of 2304 tokens takes 0.377 GB."""
    room = 0.9 * H100 - 70_553_706_496 * 2 / 2 - 2 * GB
    sequence = 2304 * 80 * 2 * 8 * 128 * 2 / 2
    question = {
        "model": "llama-3.3-70b",
        "hw": "h100",
        "n": 2,
        "tp": 2,
        "engine": "vllm",
        "prompt": 2048,
        "output": 256,
    }
    most = asked(**question, batch=1).phases["decode"].max_batch
    assert most == room // sequence == 12
    assert asked(**question, batch=12).feasible and not asked(**question, batch=13).feasible
    # without a tenth kept back 32 sequences fit
    assert asked(**question, batch=32, gpu_memory_utilization=0.99).feasible
    words = "simulate llama-3.3-70b --hw h100 -n 2 --tp 2 --engine vllm --concurrency 12 --num-requests 12".split()
    pool = run_cli(*words, "--format", "json").json["kv_cache_tokens"]
    assert pool == pytest.approx(room / sequence * 2304, rel=1e-3)


@pytest.mark.parametrize(
    ("engine", "room"),
    [
        ("sglang", 0.87 * H100 - 16.06 * GB),
        ("trtllm", 0.9 * (H100 - 16.06 * GB - 2 * GB)),
        ("python-server", 0.92 * (H100 - 16.06 * GB - 2 * GB)),
    ],
)
def test_each_engine_by_its_rule(engine: str, room: float) -> None:
    found = asked(model="llama-3.1-8b", hw="h100", n=1, engine=engine, prompt=1000, output=24, batch=1)
    assert found.phases["decode"].max_batch == pytest.approx(room / (1024 * 32 * 2 * 8 * 128 * 2), abs=2)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_feasible_beyond_its_own_max_batch(seed: int) -> None:
    draw = random.Random(seed)
    question = {
        "model": draw.choice(("llama-3.1-8b", "olmoe-1b-7b", "gemma-2-9b", "phi-3-mini-4k", "mistral-7b-v0.1")),
        "hw": draw.choice(("h100", "l40s", "a100", "mi300x", "tpu-v5e", "rtx-4090")),
        "engine": draw.choice(("vllm", "sglang", "trtllm", "python-server", "llamacpp")),
        "n": 1,
        "prompt": draw.randrange(100, 3000),
        "output": draw.randrange(1, 900),
        "gpu_memory_utilization": draw.choice((None, 0.8, 0.95)),
    }
    most = asked(**question, batch=1).phases["decode"].max_batch
    for batch, fits in ((most, most >= 1), (most + 1, False)):
        assert asked(**question, batch=max(batch, 1)).feasible == fits


def test_a_reserve_is_a_bounded_share_of_a_small_chip() -> None:
    """TensorRT-LLM keeps 14 GB of an H100 for experts on several replicas; not of the 17 GB of a small one."""
    for hw, most in (("h100", 14 * GB), ("tpu-v5e", 16 * 2**30 / 6)):
        question = {"model": "olmoe-1b-7b", "hw": hw, "engine": "trtllm", "n": 8, "tp": 1, "dp": 8, "ep": 8, "batch": 1}
        memory = asked(**question, gpu_memory_utilization=1.0).phases["decode"].memory
        assert memory.reserved_bytes + memory.activations_bytes == pytest.approx(most)
