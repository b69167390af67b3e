"""A pipeline schedule is one file of parallel/schedules, found by its name."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.parallel import pipeline
from rooflinecli.parallel.pipeline import ScheduleConstraint
from rooflinecli.parallel.schedules import one_f_one_b
from rooflinecli.specs import registry
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import SCHEDULES, SCHEDULES_IN, Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


def of_schedule(what, layout, *more):
    return getattr(pipeline.schedule_of(layout), what)(layout, *more)


def test_the_folder_is_the_list():
    every = ("1f1b", "dualpipe", "gpipe", "interleaved-zero-bubble", "zb-v", "zero-bubble")
    assert SCHEDULES == every == registry.kinds(SCHEDULES_IN)


CROSSED = {"zb-v": 4, "interleaved-zero-bubble": 4}  # handovers of a microbatch, forward and backward, per device


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_answers_everything(name):
    plan = Layout(pp=4.0, schedule=name, virtual_stages=2.0 if name.startswith("interleaved") else 1.0)
    first, last = of_schedule("in_flight", plan, 16.0)
    assert first >= last >= 1 and of_schedule("bubble", plan, 3.0, 1.0) > 0
    assert pipeline.collectives(plan, 8.0, 8.0, 2.0, True)[0].count == CROSSED.get(name, 2)
    assert all(need.holds for need in of_schedule("needs", plan, 16.0))


def test_dualpipe_needs_pairs_of_stages_and_of_microbatches():
    def broken(pp: float, microbatches: float) -> list[str]:
        return [
            need.say()
            for need in of_schedule("needs", Layout(pp=pp, schedule="dualpipe"), microbatches)
            if not need.holds
        ]

    assert broken(4.0, 16.0) == broken(1.0, 3.0) == []
    assert "--pp 3 has to be even" in broken(3.0, 16.0)[0] and "has 5" in broken(4.0, 5.0)[0]


def test_interleaving_needs_chunks_where_there_are_stages():
    held = {
        (pp, chunks): all(
            need.holds
            for need in of_schedule(
                "needs", Layout(pp=pp, virtual_stages=chunks, schedule="interleaved-zero-bubble"), 16.0
            )
        )
        for pp, chunks in ((1.0, 1.0), (4.0, 1.0), (4.0, 2.0))
    }
    assert held == {(1.0, 1.0): True, (4.0, 1.0): False, (4.0, 2.0): True}


def test_an_unknown_schedule_lists_those_that_exist():
    with pytest.raises(
        UsageError,
        match="unknown schedule 'v-shape'; known: 1f1b, dualpipe, gpipe, interleaved-zero-bubble, zb-v, zero-bubble",
    ):
        of_schedule("bubble", Layout(pp=4.0, schedule="v-shape"), 3.0, 1.0)
    with pytest.raises(UsageError, match=r"1f1b.*dualpipe.*gpipe.*zero-bubble"):
        build_request.request({"model": "llama-3-8b", "hw": "h100", "schedule": "v-shape"})


def test_a_schedule_of_its_own_decides_bubble_memory_traffic_and_legality(monkeypatch):
    made_up = SimpleNamespace(
        bubble=lambda plan, stage, weight: 7.0,
        in_flight=lambda plan, microbatches: (plan.pp + 1, plan.pp + 1),
        sends=lambda plan, backward: 4.0,
        needs=lambda plan, count: iter(
            [ScheduleConstraint("an even pp", plan.pp % 2 == 0, lambda: f"--pp {plan.pp:.0f}: give an even one")]
        ),
    )
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda f, name: made_up if name == "made-up" else load(f, name))
    plan = Layout(pp=4.0, schedule="made-up")
    assert of_schedule("bubble", plan, 3.0, 1.0) == 7.0 and of_schedule("in_flight", plan, 16.0) == (5.0, 5.0)
    assert pipeline.collectives(plan, 8.0, 8.0, 2.0, True)[0].count == 4
    ctx = EstimateContext(Request(load_model("llama-3-8b"), load_hardware("h100"), batch=64.0, seq=128.0))
    assert legality.first_violation(ctx, plan, "train") is None
    broken = legality.first_violation(ctx, Layout(pp=3.0, schedule="made-up"), "train")
    assert broken is not None and broken.say() == "--pp 3: give an even one"


def test_zb_v_and_interleaved_zero_bubble_say_what_they_need():
    def broken(name: str, microbatches: float = 16.0, **plan: float) -> list[str]:
        return [
            need.say()
            for need in of_schedule("needs", Layout(pp=4.0, schedule=name, **plan), microbatches)
            if not need.holds
        ]

    assert not broken("zb-v") and not broken("interleaved-zero-bubble", virtual_stages=2.0)
    assert "leave --virtual-stages 2 out" in broken("zb-v", virtual_stages=2.0)[0]
    assert "from 8 microbatches on" in broken("zb-v", 7.0)[0]
    assert "--virtual-stages of at least 2" in broken("interleaved-zero-bubble")[0]
    assert "multiples of --pp 4" in broken("interleaved-zero-bubble", 6.0, virtual_stages=2.0)[0]
    assert not [
        n for n in of_schedule("needs", Layout(schedule="zb-v"), 1.0) if not n.holds
    ]  # one stage is no pipeline


def test_only_interleaved_points_of_a_sweep_need_whole_rounds():
    """Microbatches come in multiples of pp where stages are interleaved; a plain pipeline takes any number."""
    plan = Layout(pp=4.0, virtual_stages=np.array([1.0, 2.0, 2.0, 1.0]))
    (need,) = one_f_one_b.needs(plan, np.array([3.0, 3.0, 8.0, 8.0]))
    assert list(need.holds) == [True, False, True, True]
    assert list(one_f_one_b.needs(Layout(pp=4.0), 3.0)) == []
