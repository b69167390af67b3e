"""JetStream's slots and what the published runs on TPUs state: arithmetic by hand, and the published figures themselves."""

from __future__ import annotations

import pytest

from rooflinecli.engine import build_request
from rooflinecli.engine import inference as engine
from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs.engine import load_engine
from rooflinecli.validate import inference

GROUPS = {"jetstream_v5e": 4, "tpu_vllm": 1}


def runs(group):
    return [run for run in inference.published_runs() if run.group == group]


def test_slots_are_read_to_their_end():
    """Gemma 7B on 8 TPU v5e: 96 slots of 2,048 tokens, 28 layers of 16 heads of 256 in 16 bits, an eighth on each chip, at 0.75 of 819 GB/s."""
    run = next(run for run in runs("jetstream_v5e") if run.options["model"] == "gemma-7b")
    answer = engine.decode(EstimateContext(build_request.request(run.options)), run.layout)
    cache = 96 * 2048 * 28 * 2 * 16 * 256 * 2 / 8
    assert answer.breakdown_s["attention"] == pytest.approx(cache / (0.75 * 819e9), rel=1e-3)
    assert load_engine("maxtext") is load_engine("jetstream")


def test_throughputs_of_jetstream_lie_within_a_tenth():
    """github.com/AI-Hypercomputer/jetstream-pytorch@c8bb6119a3:benchmarks/summary.md; nothing was fitted to them."""
    errors = [inference.predict(run)["throughput"][0] / run.measured["throughput"] - 1 for run in runs("jetstream_v5e")]
    assert len(errors) == GROUPS["jetstream_v5e"]
    assert max(map(abs, errors)) < 0.10


def test_vllm_on_trillium_reads_as_many_tokens_a_step_as_its_recipe_says():
    """github.com/AI-Hypercomputer/tpu-recipes@c8cfe2f689: 3,000 prompts over 64 slots, --max-num-batched-tokens 512."""
    (run,) = runs("tpu_vllm")
    assert run.options["token_budget"] == 512 and run.options["prompts_per_slot"] == 3000 / 64
    found = inference.predict(run)
    assert found["ttft"][0] == pytest.approx(0.25104, rel=0.15)
    assert found["itl"][0] == pytest.approx(0.02535, rel=0.1)
