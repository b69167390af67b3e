"""A chip's file with a calibration: factors on constants, the interval inside and outside the measured rows, rows of their own, and notes."""

from __future__ import annotations

import math
from typing import Any

import pytest

import rooflinecli as rl

CHIP = """\
extends: h100
name: ours
calibration:
  {phase}:
    {software}:
      factors: {factors}
      error: {error}
      date: "2026-01-01"
      rows: 3
      before: 0.2
      after: 0.05
      range: {range}
      near: {near}
"""
DECODE = {"n": 1, "phase": "decode", "prompt": 1000, "output": 100, "batch": 8, "engine": "vllm"}
TRAIN = {"n": 8, "tp": 8, "pp": 1, "dp": 1, "phase": "train", "batch": 8, "seq-len": 4096, "micro-batch-size": 1, "framework": "megatron-2025"}  # fmt: skip


def asked(tmp_path, question: dict[str, Any] = DECODE, *, phase="decode", software="vllm", factors="{}", error=0.01, range="{}", near="[]"):  # fmt: skip
    file = tmp_path / "ours.yaml"
    file.write_text(CHIP.format(phase=phase, software=software, factors=factors, error=error, range=range, near=near), encoding="utf-8")  # fmt: skip
    found = rl.estimate(model="llama-3-8b", hw=str(file), **question)
    return getattr(found, question["phase"]), list(found.get("notes", []))


def shipped(question: dict[str, Any] = DECODE):
    return getattr(rl.estimate(model="llama-3-8b", hw="h100", **question), question["phase"])


def test_inside_the_rows_the_interval_is_that_of_the_fit(tmp_path):
    found, notes = asked(tmp_path, range="{prompt: [1000, 2000], batch: [8, 64]}")
    assert found.time_s == pytest.approx(shipped().time_s) and not [one for one in notes if "calibrat" in one]
    assert found.interval_s == pytest.approx((found.time_s / 1.01, found.time_s * 1.01))


@pytest.mark.parametrize("range, outside", [
    ("{batch: [8.7, 64]}", []), ("{batch: [8.9, 64]}", ["batch (8.9 to 64)"]),  # a tenth beyond them counts as among them
    ("{batch: [1, 7.3]}", []), ("{batch: [1, 7.2], prompt: [1, 10]}", ["batch (1 to 7.2)", "prompt (1 to 10)"]),
    ("{devices: [2, 4]}", ["devices (2 to 4)"]), ("{parameters: [1.0e+9, 2.0e+9]}", ["parameters (1e+09 to 2e+09)"]),
])  # fmt: skip
def test_outside_the_rows_it_is_the_wider_of_the_two(range, outside, tmp_path):
    low, high = shipped().interval_s
    narrow, notes = asked(tmp_path, range=range)
    said = [one for one in notes if "outside the rows" in one]
    if not outside:
        assert narrow.interval_s == pytest.approx((narrow.time_s / 1.01, narrow.time_s * 1.01)) and not said
        return
    assert narrow.interval_s == pytest.approx((low, high)) and all(name in said[0] for name in outside)
    wide, _ = asked(tmp_path, range=range, error=2.0)
    assert wide.interval_s[1] == pytest.approx(3 * wide.time_s) and wide.interval_s[0] < low


def test_a_row_of_its_own_holds_for_questions_like_it(tmp_path):
    """A row that took e^0.2 as long: all of it for the same sizes, e^-0.5 of it where one size is e times as large. A constant that is a rate
    goes down where times go up."""
    at = "{devices: 1, prompt: 1000, batch: 8}"
    same, _ = asked(tmp_path, factors="{engine.per_step: 2}", near=f"[{{at: {at}, move: 0.2}}]")
    alone, _ = asked(tmp_path, factors=f"{{engine.per_step: {2 * math.exp(0.2)}}}")
    assert same.time_s == pytest.approx(alone.time_s) and same.time_s > shipped().time_s
    farther, _ = asked(tmp_path, factors="{engine.per_step: 2}", near=f"[{{at: {{batch: {8 * math.e}}}, move: 0.2}}]")
    faded, _ = asked(tmp_path, factors=f"{{engine.per_step: {2 * math.exp(0.2 * math.exp(-0.5))}}}")
    assert farther.time_s == pytest.approx(faded.time_s)
    two, _ = asked(
        tmp_path, factors="{engine.per_step: 2}", near=f"[{{at: {at}, move: 0.2}}, {{at: {at}, move: -0.1}}]"
    )
    less, _ = asked(tmp_path, factors=f"{{engine.per_step: {2 * math.exp(0.1)}}}")
    assert two.time_s == pytest.approx(less.time_s)
    rate, _ = asked(tmp_path, factors="{efficiency.matmul.memory: 0.8}", near=f"[{{at: {at}, move: 0.2}}]")
    slower, _ = asked(tmp_path, factors=f"{{efficiency.matmul.memory: {0.8 / math.exp(0.2)}}}")
    assert rate.time_s == pytest.approx(slower.time_s) and rate.time_s > shipped().time_s


def test_a_calibration_of_training(tmp_path):
    """Its sizes are devices, batch, sequence length and parameters; a tensor group of eight without replicas, which no published run has, stays
    wider than the error of the rows."""
    plain = {**TRAIN, "tp": 1, "dp": 8, "zero": 1, "batch": 128, "seq-len": 8192, "recompute": "full"}
    measured = "{devices: [8, 8], batch: [128, 128], seq: [8192, 8192]}"
    found, notes = asked(tmp_path, plain, phase="train", software="megatron-2025", range=measured)
    assert found.time_s == pytest.approx(shipped(plain).time_s) and not [one for one in notes if "outside" in one]
    assert found.interval_s == pytest.approx((found.time_s / 1.01, found.time_s * 1.01))
    wide, notes = asked(tmp_path, TRAIN, phase="train", software="megatron-2025", range="{seq: [8192, 8192]}")
    assert any("train: outside the rows it was calibrated on in seq (8192 to 8192)" in one for one in notes)
    assert wide.interval_s[1] > 1.1 * wide.time_s


def test_other_software_is_named_and_keeps_the_shipped_constants(tmp_path):
    found, notes = asked(tmp_path, software="sglang", factors="{engine.per_step: 9}")
    assert found.time_s == shipped().time_s
    assert any(
        "decode: ours is calibrated for --engine sglang, not vllm; these are the shipped constants" in one
        for one in notes
    )
    _, notes = asked(tmp_path, TRAIN, phase="train", software="deepspeed")
    assert any("train: ours is calibrated for --framework deepspeed, not megatron-2025" in one for one in notes)
    _, notes = asked(tmp_path, {**DECODE, "efficiency": "ideal"}, software="sglang")
    assert not [one for one in notes if "calibrated" in one]


def test_a_first_token_under_load_has_a_calibration_of_its_own(tmp_path):
    prompt = {"n": 1, "phase": "prefill", "prompt": 1000, "output": 100, "engine": "vllm"}
    loaded = {**prompt, "qps": 1}
    lone, _ = asked(tmp_path, prompt, phase="prefill", error=0.02)
    assert lone.interval_s[1] == pytest.approx(1.02 * lone.time_s)
    first, _ = asked(tmp_path, loaded, phase="prefill", error=0.02)
    assert first.interval_s == pytest.approx(shipped(loaded).interval_s)
    first, _ = asked(tmp_path, loaded, phase="ttft", error=0.02)
    assert first.interval_s[1] == pytest.approx(1.02 * first.time_s)
