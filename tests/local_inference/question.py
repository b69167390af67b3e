"""What tests of machines on a desk ask: one sequence of a model in a file type on one chip."""

from __future__ import annotations

from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


def question(chip: str, file: str | None = "q4_k_m", model: str = "llama-3.1-8b", **asked) -> EstimateContext:
    given = {"devices": 1.0, "batch": 1.0, "prompt": 512.0, "output": 128.0, "engine": "llamacpp", **asked}
    return EstimateContext(Request(load_model(model), load_hardware(chip), weight_dtype=file, **given))
