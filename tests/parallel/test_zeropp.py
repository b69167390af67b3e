"""ZeRO++ (Wang et al. 2023, table 1): weights travel in half of the bytes, gradients in a quarter."""

from __future__ import annotations

import pytest

from rooflinecli.answers.estimate import estimate
from rooflinecli.specs import ask

BASE = {"model": "llama-3-8b", "hw": "a100", "n": 64, "dp": 64, "zero": 3, "phase": "train", "seq": 4096, "batch": 64}


@pytest.mark.parametrize(
    ("options", "parts"),
    [("", 2 + 1), ("+qwz", 2 / 2 + 1), ("+qgz", 2 + 1 / 4), ("+qwz+qgz", 2 / 2 + 1 / 4), ("+qgz+qwz", 2 / 2 + 1 / 4)],
)
def test_volume_of_two_gathers_and_a_scatter(options, parts):
    def sent(software: str) -> float:
        answer = estimate(ask.request({**BASE, "recompute": "full", "software": software}))
        return answer.phases["train"].communication_bytes["dp"]

    assert sent(f"deepspeed{options}") / sent("deepspeed") == pytest.approx(parts / 3)
