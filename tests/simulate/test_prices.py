"""Step prices of a simulation are the estimate's."""

from __future__ import annotations

import pytest

from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.simulate.step_times import StepTimeTable
from rooflinecli.specs.layout import Layout


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_step_through_a_pipeline_is_the_estimates(stages: int) -> None:
    """The same step, with what its microbatch waits for the slowest stage."""
    asked = {"model": "llama-3-8b", "hw": "h100-sxm", "dtype": "bf16", "batch": 64, "prompt": 1000, "output": 48}
    ctx, plan = EstimateContext(build_request.request(asked)), Layout(pp=float(stages), zero=0)
    estimated = inference.decode(ctx, plan)
    assert StepTimeTable(ctx, plan).decode(64, 1024.0) == pytest.approx(estimated.time_s, rel=1e-9)
    assert stages < 4 or estimated.breakdown_s["bubble"] > 0
