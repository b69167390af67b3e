"""The stack that an unnamed training run is priced as, and what naming it does."""

from __future__ import annotations

import pytest

from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.interfaces.python import api
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


def ctx(model: str = "llama-3-8b", hw: str = "h100", **options) -> EstimateContext:
    return EstimateContext(Request(load_model(model), load_hardware(hw), **{"batch": 64.0, "seq": 4096.0} | options))


@pytest.mark.parametrize(
    ("asked", "zero", "stack"),
    [
        ({}, 1, "typical"),
        ({}, 3, "pytorch"),
        ({"dtype": "fp8"}, 1, "megatron-bridge"),
        ({"hw": "b200"}, 1, "megatron-bridge"),
        ({"model": "mixtral-8x7b"}, 1, "megatron-bridge"),
        ({"model": "mixtral-8x7b"}, 3, "pytorch"),
        ({"hw": "tpu-v5e"}, 1, "any"),
        ({"hw": "mi300x"}, 3, "any"),
    ],
)
def test_an_unnamed_stack_follows_format_chip_model_and_sharding(asked, zero, stack) -> None:
    assert ctx(**asked).training_stack(Layout(zero=zero)) == stack
    assert ctx(**asked).training_stack(Layout(zero=zero, software="deepspeed")) == "deepspeed"


def test_naming_the_stack_narrows_the_interval() -> None:
    plan = Layout(dp=8.0, zero=1, recompute="full")
    unnamed, named = (train(ctx(), plan.with_changes(software=name)) for name in ("any", "typical"))
    assert unnamed.time_s == named.time_s

    def width(answer) -> float:
        return answer.interval_s[1] / answer.time_s - 1

    assert width(unnamed) ** 2 - width(named) ** 2 == pytest.approx(0.2**2, rel=0.02)


def test_an_unnamed_stack_lies_between_tuned_and_eager() -> None:
    plan = Layout(tp=8.0, dp=8.0, sequence_parallel=True, recompute="full")
    times = [
        train(ctx("llama-3-70b"), plan.with_changes(software=s)).time_s for s in ("megatron-bridge", "any", "megatron")
    ]
    assert times == sorted(times) and times[0] < times[2]


@pytest.mark.slow
def test_training_names_the_weights_that_it_keeps():
    """gpt-oss is published with experts in 4 bits, which serving reads; training keeps, computes and names 16 bits."""
    named = {
        phase: api.estimate("gpt-oss-20b", hw="h100", n=8, phase=phase).workload.weight_dtype
        for phase in ("train", "decode")
    }
    assert named == {"train": "bf16", "decode": "bf16, mxfp4 experts"}
