"""Training frameworks that pad attention heads: every device has whole ones, and equally many."""

from __future__ import annotations

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate

BASE = {"model": "llama-2-13b", "hw": "trainium1", "phase": "train", "seq": 4096, "batch": 64, "n": 32, "zero": 1}


def trained(**given):
    return estimate(build_request.request({**BASE, "recompute": "selective", **given})).phases["train"]


def test_sixteen_ranks_share_forty_heads_as_if_they_were_forty_eight():
    padded = trained(tp=16, dp=2, software="neuron")
    assert padded.time_s > padded.floor_s > 0
    with pytest.raises(UsageError, match="--tp 16 does not divide the 40 attention heads"):
        trained(tp=16, dp=2)


def test_heads_that_come_out_even_are_not_padded():
    named, plain = trained(tp=8, dp=4, software="neuron", efficiency="ideal"), trained(tp=8, dp=4, efficiency="ideal")
    assert named.flops == plain.flops and named.breakdown_s["attention"] == pytest.approx(
        plain.breakdown_s["attention"]
    )


def test_more_ranks_than_heads_are_refused():
    with pytest.raises(UsageError, match="exceeds the 40 attention heads"):
        trained(tp=64, n=64, dp=1, software="neuron")
