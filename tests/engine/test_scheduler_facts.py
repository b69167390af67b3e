"""What an engine's scheduler does is written once: the formula of a first token and the simulation read the same entries."""

from __future__ import annotations

import pytest

from rooflinecli.answers.simulate.deployment import scheduler_of
from rooflinecli.engine import inference
from rooflinecli.engine.scene import Scene
from rooflinecli.specs import ask
from rooflinecli.specs.engine import CONSTANTS, Engine, engines
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.scheduler import Scheduler

LOAD = {"model": "llama-3.1-8b", "hw": "h100", "n": 1, "prompt": 1000, "output": 100, "concurrency": 8}


def scene(**more):
    return Scene(ask.request({**LOAD, **more}))


def test_no_entry_stands_in_two_places():
    assert set(Engine.model_fields) & set(Scheduler.model_fields) == {"source"}


@pytest.mark.parametrize("name", sorted(engines()))
def test_formula_and_simulation_read_the_same(name):
    engine, own = engines()[name], scheduler_of(scene(engine=name), ())
    for shared in CONSTANTS.keys() & Scheduler.model_fields.keys():
        assert getattr(engine, shared) == getattr(own, shared)


def test_what_is_overridden_reaches_both():
    """Ten milliseconds more of front end: in the mean first token of the formula, and in front of the simulated scheduler."""
    front = engines()["vllm"].front
    plain, moved = (
        Scene(ask.request({**LOAD, "engine": "vllm"}), override=override)
        for override in (None, {"engine.front": front + 0.01})
    )
    assert scheduler_of(moved, ()).front == pytest.approx(front + 0.01)
    first = [inference.prefill(each, Plan(zero=0)).time_s for each in (plain, moved)]
    assert first[1] - first[0] == pytest.approx(0.01)


@pytest.mark.parametrize(("engine", "seconds"), [("sglang", 0.19), ("trtllm", 0.044), ("vllm", 0.015)])
def test_what_no_rule_explains_is_the_formula_s_alone(engine, seconds):
    """The mean first token counts it, a simulated one does not."""
    with_it = scene(engine=engine)
    bare = Scene(ask.request({**LOAD, "engine": engine}), override={"engine.unexplained": 0.0})
    first = [inference.prefill(each, Plan(zero=0)).time_s for each in (with_it, bare)]
    assert first[0] - first[1] == pytest.approx(seconds, abs=1e-9)
    assert scheduler_of(with_it, ()).front == engines()[engine].front
