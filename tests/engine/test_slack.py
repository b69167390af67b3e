"""Allocator slack of training: stated against published peaks, printed, and in no verdict."""

from __future__ import annotations

import json
from collections import defaultdict
from statistics import median

import pytest

from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.hardware import load_defaults
from rooflinecli.validate.published_training import compared, rows

ASKED = "estimate llama-3-8b --hw h100 -n 8 --dp 8 --zero 3 --phase train --seq 4096 --batch 8 --micro-batch-size 1 --recompute full"


def memory(**options):
    base = {"model": "llama-3-8b", "hw": "h100", "n": 8, "dp": 8, "zero": 3, "phase": "train", "seq": 4096, "batch": 8}
    return (
        estimate(build_request.request({**base, "micro_batch": 1, "recompute": "full", **options}))
        .phases["train"]
        .memory
    )


def test_shares_are_the_medians_of_published_peaks():
    """Peak over counted bytes of every row that reports one, by framework, and of all."""
    over = defaultdict(list)
    for row in rows():
        if "peak_memory_bytes" in row and not {"activation_bytes", "activation_percent"} & row.keys():
            more = row["peak_memory_bytes"] / compared(row).answer.memory.total_bytes - 1
            over[row["plan"].get("software", "any")].append(more)
            over["all"].append(more)
    assert {name: len(found) for name, found in over.items()} == {
        "all": 82,
        "arctic": 12,
        "deepspeed": 64,
        "torchtitan": 4,
        "pytorch": 2,
    }
    stated = load_defaults("gpu").efficiency["training"]["allocator"]
    assert stated["any"].slack == pytest.approx(median(over["all"]), abs=0.01)
    for name in ("deepspeed", "torchtitan", "pytorch"):
        assert stated[name].slack == pytest.approx(median(over[name]), abs=0.01)


@pytest.mark.parametrize(
    ("software", "share"),
    [
        ("deepspeed", 0.126),
        ("deepspeed+qwz", 0.126),
        ("torchtitan", 0.167),
        ("pytorch", 0.257),
        ("megatron-bridge", 0.163),
    ],
)
def test_slack_is_a_share_of_what_is_counted(software, share):
    held = memory(software=software)
    parts = held.weights_bytes + held.gradients_bytes + held.optimizer_bytes + held.activations_bytes
    assert held.slack_bytes == pytest.approx(share * parts)
    assert held.total_bytes == pytest.approx(parts)


def test_ideal_kernels_leave_the_slack_alone():
    assert memory(efficiency="ideal").slack_bytes == memory().slack_bytes


def test_what_nobody_measured_has_none(cli):
    """XLA plans its memory before it runs, and no TPU run reported a peak; serving keeps none either."""
    assert memory(hw="tpu-v5p").slack_bytes is None
    run = cli("estimate", "llama-3-8b", "--hw", "h100", "--format", "json")
    named = {name: "slack_bytes" in phase["memory"] for name, phase in json.loads(run.out)["phases"].items()}
    assert named == {"train": True, "prefill": False, "decode": False}


def test_a_plan_that_slack_alone_would_refuse_fits():
    """Sequences until the counted bytes pass 90 % of the device: with 16.3 % more they would not fit."""
    chip = 85.9e9
    for batch in range(1, 200):
        held = memory(micro_batch=batch, batch=8 * batch)
        if held.total_bytes > 0.9 * chip:
            break
    assert held.total_bytes < held.capacity_bytes < held.total_bytes + held.slack_bytes
    answer = estimate(
        build_request.request(
            {"model": "llama-3-8b", "hw": "h100", "n": 8, "dp": 8, "zero": 3, "phase": "train", "seq": 4096}
            | {"batch": 8 * batch, "micro_batch": batch, "recompute": "full"}
        )
    )
    assert answer.feasible and not answer.violations


def test_it_is_named_where_memory_is_printed(cli):
    run = cli(*ASKED.split(), "--framework", "deepspeed", "--details")
    assert "not counted: allocator slack" in " ".join(run.out.split()) and "(13%)" in run.out
    explained = cli(*ASKED.split(), "--explain", "train.memory.slack_bytes")
    assert "s_a[allocator]" in explained.out and explained.code == 0, explained.err
