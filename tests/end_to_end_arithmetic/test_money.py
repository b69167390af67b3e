"""Dollars of the hand chip: 3 an hour and device."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import GIVEN
from end_to_end_arithmetic.training import COUNT, S


def test_a_million_tokens(ask):
    """Two devices cost 6 an hour, used or not."""
    plan = {"n": 2, "tp": 2}
    for phase, key, options in (
        ("prefill", "usd_per_million_input_tokens", {"prompt": S}),
        ("decode", "usd_per_million_output_tokens", {"batch": 8, "prompt": 200, "output": 100}),
    ):
        answer = ask("dense", phase, whole=True, **plan, **options)
        rate = answer["phases"][phase]["tokens_per_s"]
        assert answer["cost"][key] == pytest.approx(6 / 3600 / rate * 1e6)
        idle = ask("dense", phase, whole=True, utilization=0.25, **plan, **options)
        assert idle["cost"][key] == pytest.approx(4 * answer["cost"][key])
        dear = ask("dense", phase, whole=True, price=12, **plan, **options)
        assert dear["cost"][key] == pytest.approx(4 * answer["cost"][key])


def test_a_run_is_whole_steps(ask):
    """1500 tokens at 1024 a step are two steps."""
    answer = ask("dense", "train", whole=True, tokens=1500, **GIVEN)
    train = answer["phases"]["train"]
    assert train["steps"] == 2 and train["run_s"] == pytest.approx(2 * train["time_s"])
    assert answer["cost"]["training_usd"] == pytest.approx(2 * train["time_s"] / 3600 * 3)
    rate = COUNT * S / train["time_s"]
    assert answer["cost"]["usd_per_million_training_tokens"] == pytest.approx(3 / 3600 / rate * 1e6)


def test_what_the_model_and_the_chip_are(ask):
    """Parameters in all and outside the layers; 2 bytes each; the ridge at 100 FLOP a byte."""
    answer = ask("dense", "prefill", whole=True, prompt=S)
    layer = 2 * 256 + 256 * 256 + 128 * 256 + 3 * 256 * 512
    whole = 6 * layer + 1000 * 256 + 256 + 256 * 1000
    assert answer["model"]["parameters"]["total"] == whole and answer["model"]["weights_bytes"] == 2 * whole
    assert answer["hardware"]["ridge_flops_per_byte"] == pytest.approx(100)
    prefill = answer["phases"]["prefill"]
    spent = prefill["resources_s"]
    assert spent["memory"] > spent["compute"] > spent["communication"] == 0
    assert prefill["bottleneck"] == "memory" and prefill["bound_ratio"] == pytest.approx(
        spent["memory"] / spent["compute"]
    )
