"""The refit of serving constants: what it finds in runs whose constants are known, and what an engine's cache holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab import fit_serving
from lab.fit_serving import FREE, PATHS, FitRow, linear_of
from rooflinecli.interfaces.python import api
from rooflinecli.validate import inference


def asked(seed: int, engine: str = "vllm", **changed: object) -> FitRow:
    slopes = -np.random.default_rng(seed).uniform(0, 0.5, len(PATHS))
    run = FitRow("m", engine, "hopper", "fp8", "fp8", True, False, True, 0.0, 0.0, 0.0, 0.15, True, slopes)
    return replace(run, **changed)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_planted_factor_is_found_again() -> None:
    """Measured times are those that streaming at 1.2 of the shipped share would give: the fit finds 1.2 there and 1 elsewhere."""
    runs = [asked(i) for i in range(2500)]
    where = PATHS.index("efficiency.matmul.memory")
    planted = [replace(a, measured=a.expected + float(np.log(1.2)) * a.slopes[where]) for a in runs]
    linear, every = linear_of(planted), np.ones(len(planted), dtype=bool)
    point = dict(zip((free.name for free in FREE), linear.fit(every), strict=True))
    assert np.exp(point["matmul.memory"]) == pytest.approx(1.2, rel=0.03)
    assert all(abs(x) < 0.05 for name, x in point.items() if name != "matmul.memory")
    assert np.abs(linear.errors(linear.fit(every))).mean() < 0.2 * np.abs(linear.missed).mean()


def test_a_group_left_out_does_not_shape_its_own_prediction() -> None:
    """One engine's runs take twice as long: with it left out its own starts stay as shipped, so that they stay missed."""
    slow = [asked(i, "sglang", measured=float(np.log(2.0))) for i in range(40)]
    rows = [asked(i) for i in range(40, 80)] + slow
    linear = linear_of(rows)
    out = linear.left_out(np.array([row.engine for row in rows]))[40:]
    assert np.abs(out).mean() > 0.6 > np.abs(linear.errors(linear.fit(np.ones(80, dtype=bool)))[40:]).mean()


def test_a_constant_is_felt_by_its_own_runs_alone() -> None:
    shares = {free.name: free.share(asked(0)) for free in FREE}
    assert shares["matmul.compute fp8"] == 1 and shares["matmul.compute bf16"] == 0
    assert shares["vllm.per_layer"] == 1 and shares["sglang.per_layer"] == 0
    crowd = {free.name: free.share(asked(0, crowded=1.0)) for free in FREE}
    assert crowd["of_compute fp8"] + crowd["crowded.of_compute"] == 1


def test_a_slope_is_that_of_the_engine() -> None:
    """Starts of 32 layers are a share of a step: ten per cent more of them lengthen it by a tenth of that share."""
    run = next(r for r in inference.published_runs() if r.group == "trtllm_online")
    found = fit_serving.fit_row(run)
    slope = found.slopes[PATHS.index("engine.per_layer")]
    assert 0.02 < slope < 0.6
    assert found.slopes[PATHS.index("efficiency.served_experts.of_memory")] == 0


def test_tensorrt_llm_keeps_every_token_of_layers_with_a_window() -> None:
    """gpt-oss: half of its layers see 128 tokens. 8 heads of 64, key and value, 16 bits: 2 KiB a token and layer, of 36 layers or 18."""
    held = {
        engine: api.estimate("gpt-oss-120b", "h200", devices=1, prompt=8192, output=1024, batch=1, engine=engine)
        for engine in ("trtllm", "vllm")
    }
    kept = {name: answer["phases"]["decode"]["memory"]["kv_cache_bytes"] for name, answer in held.items()}
    assert kept["trtllm"] == pytest.approx(9216 * 2048 * 36)
    assert kept["vllm"] == pytest.approx(9216 * 2048 * 18 + 128 * 2048 * 18)


def test_experts_of_a_prompt_are_started_one_by_one() -> None:
    """Mixtral under vLLM: 32 layers of experts, 0.3 ms each in a pass over a prompt and nothing in a step that only decodes."""
    asked_for = {"devices": 4, "tp": 4, "prompt": 512, "output": 128, "batch": 1}
    moe = api.estimate("mixtral-8x7b", "h100", engine="vllm", **asked_for)["phases"]
    assert moe["prefill"]["breakdown_s"]["overhead"] - moe["decode"]["breakdown_s"]["overhead"] == pytest.approx(
        32 * 0.3e-3
    )
    dense = api.estimate("llama-3-8b", "h100", engine="vllm", **asked_for)["phases"]
    assert dense["prefill"]["breakdown_s"]["overhead"] == pytest.approx(dense["decode"]["breakdown_s"]["overhead"])
