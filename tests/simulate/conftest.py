"""A small deployment that every test here asks: Llama-3 8B on one H100 under vLLM."""

from __future__ import annotations

import pytest

from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.simulate.step_times import StepTimeTable
from rooflinecli.specs.layout import Layout


@pytest.fixture(scope="session")
def ctx() -> EstimateContext:
    return EstimateContext(
        build_request.request(
            {"model": "llama-3-8b", "hw": "h100", "engine": "vllm", "prompt": 512, "output": 128, "batch": 1}
        )
    )


@pytest.fixture(scope="session")
def prices(ctx: EstimateContext) -> StepTimeTable:
    return StepTimeTable(ctx, Layout(zero=0))
