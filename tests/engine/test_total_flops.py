"""`flops` of an answer are those of all devices while one step lasts, in every phase, as MFU's devices are."""

from __future__ import annotations

import pytest

from rooflinecli.interfaces.python import api as rl

PEAK = 989.4e12  # an H100's dense bf16 rate, FLOP/s; its data sheet


def phases(**options):
    return rl.estimate(model="llama-3-8b", hw="h100", phase="prefill,decode", prompt=2048, output=128, **options)[
        "phases"
    ]


@pytest.mark.parametrize("plan", [{"tp": 2}, {"tp": 1, "dp": 4}, {"tp": 2, "pp": 2, "dp": 2}])
def test_flops_over_time_and_peak_of_all_devices_are_the_mfu(plan):
    devices = plan["tp"] * plan.get("pp", 1) * plan.get("dp", 1)
    for phase, found in phases(n=devices, batch=8, **plan).items():
        assert found["mfu"] == pytest.approx(found["flops"] / found["time_s"] / (devices * PEAK), rel=1e-3), phase


def test_replicas_and_stages_add_their_own():
    """Four replicas run four prompts and four batches; two stages have two prompts under way, and share out one batch."""
    one, four = phases(n=1, tp=1, batch=8), phases(n=4, tp=1, dp=4, batch=8)
    split = phases(n=2, tp=1, pp=2, batch=8)
    for phase in ("prefill", "decode"):
        assert four[phase]["flops"] == 4 * one[phase]["flops"]
        assert four[phase]["mfu"] == pytest.approx(one[phase]["mfu"])
    assert split["prefill"]["flops"] == 2 * one["prefill"]["flops"]
    assert split["decode"]["flops"] == one["decode"]["flops"]


def test_an_engine_whose_stages_take_turns_counts_the_one_prompt_and_both_devices():
    found = phases(n=2, pp=2, tp=1, batch=1, engine="llamacpp")["prefill"]
    assert found["flops"] == phases(n=1, tp=1, batch=1, engine="llamacpp")["prefill"]["flops"]
    assert found["mfu"] == pytest.approx(found["flops"] / found["time_s"] / (2 * PEAK), rel=1e-3)
