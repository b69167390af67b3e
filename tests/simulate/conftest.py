"""A small deployment that every test here asks: Llama-3 8B on one H100 under vLLM."""

from __future__ import annotations

import pytest

from rooflinecli.engine.scene import Scene
from rooflinecli.simulate.prices import Prices
from rooflinecli.specs import ask
from rooflinecli.specs.plan import Plan


@pytest.fixture(scope="session")
def scene() -> Scene:
    return Scene(
        ask.request({"model": "llama-3-8b", "hw": "h100", "engine": "vllm", "prompt": 512, "output": 128, "batch": 1})
    )


@pytest.fixture(scope="session")
def prices(scene: Scene) -> Prices:
    return Prices(scene, Plan(zero=0))
