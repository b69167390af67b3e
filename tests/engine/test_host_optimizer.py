"""The optimizer on the host: traffic at the host memory's rate, and the way over the link, by figures of the systems themselves."""

from __future__ import annotations

import pytest

from rooflinecli.engine import build_request
from rooflinecli.price.chip import Chip
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.hardware import load_hardware

PARAMETERS = 8_030_261_248  # Llama 3 8B
SHARE = 0.2625  # of the host's memory that the update reaches


@pytest.mark.parametrize(
    ("hardware", "memory", "link"),
    [
        ("a100", 2 * 8 * 8 * 3.2e9 / 8, 31.5e9),  # two sockets, eight channels of DDR4-3200, eight devices
        ("h100", 2 * 8 * 8 * 4.8e9 / 8, 63e9),
        ("h200", 2 * 8 * 8 * 4.8e9 / 8, 63e9),
        ("b200", 2 * 8 * 8 * 5.6e9 / 8, 63e9),
        ("gh200", 512e9, 450e9),
        ("gb200", 512e9 / 2, 225e9),
        ("v100", 15.75e9 * 76.8 / 63, 15.75e9),  # its file gives the link alone
    ],
)
def test_update_on_the_host_of(hardware, memory, link):
    """Adam moves 2 x 12 + 4 + 2 bytes per parameter in the host's memory, 4 down and 2 up the link; eight ways by ZeRO."""
    asked = {
        "model": "llama-3-8b",
        "hw": hardware,
        "n": 8,
        "dp": 8,
        "zero": 2,
        "phase": "train",
        "seq": 2048,
        "batch": 8,
        "software": "megatron-bridge",
        "gradient_bytes": 4,
    }
    answer = estimate(
        build_request.request({**asked, "dtype": "fp16" if hardware == "v100" else "bf16", "offload": "optimizer"})
    )
    owned = PARAMETERS / 8
    seconds = 1e-3 + owned * 30 / (SHARE * memory) + owned * 6 / link
    assert answer.phases["train"].breakdown_s["optimizer"] == pytest.approx(seconds, rel=1e-6)


def test_a_faster_host_updates_sooner():
    """`--set host_memory` doubles the host's memory and leaves the link alone."""
    one = Chip(load_hardware("h100"))
    two = Chip(load_hardware("h100"), override={"host_memory": 2 * 76.8e9})
    assert (two.host_memory, two.host_link) == (2 * one.host_memory, one.host_link)


def test_the_explanation_names_the_memory_of_the_host(cli):
    asked = "estimate llama-3-8b --hw h100 -n 8 --dp 8 --zero 2 --phase train --batch 8 --seq 2048 --offload optimizer"
    run = cli(*asked.split(), "--explain", "phases.train.breakdown_s.optimizer", "--depth", "6")
    assert run.code == 0, run.err
    assert "B_opt / (e_m[host_optimizer] · W_host)" in run.out and "0.2625 · 76.8 GB/s" in run.out
