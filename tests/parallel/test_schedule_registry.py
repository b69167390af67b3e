"""A pipeline schedule is one file of parallel/schedules, found by its name; what it needs are rules of a legal layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.parallel import pipeline
from rooflinecli.specs import registry
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import SCHEDULES, SCHEDULES_IN, Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


def needs(layout: Layout, microbatches: Any = 16.0) -> list[LegalityRule]:
    """The rules of the layout's schedule, of a batch of so many microbatches of one sequence."""
    ctx = EstimateContext(Request(load_model("llama-3-8b"), load_hardware("h100"), batch=microbatches, seq=128.0))
    names = {need["name"] for need in pipeline.schedule_named(layout.schedule)["needs"]}
    return [rule for rule in legality.rules(ctx, layout, "train") if rule.name in names]


def broken(name: str, microbatches: float = 16.0, **sizes: float) -> list[str]:
    layout = Layout(**{"pp": 4.0, "schedule": name, **sizes})
    return [rule.say() for rule in needs(layout, microbatches) if not rule.holds]


def test_the_folder_is_the_list():
    every = ("1f1b", "dualpipe", "gpipe", "interleaved-zero-bubble", "zb-v", "zero-bubble")
    assert SCHEDULES == every == registry.kinds(SCHEDULES_IN)


CROSSED = {"zb-v": 4, "interleaved-zero-bubble": 4}  # handovers of a microbatch, forward and backward, per device


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_answers_everything(name):
    plan = Layout(pp=4.0, schedule=name, virtual_stages=2.0 if name.startswith("interleaved") else 1.0)
    first, last = pipeline.in_flight(plan, 16.0)
    assert first >= last >= 1 and pipeline.bubble(plan, 3.0, 1.0) > 0
    assert pipeline.copies(plan) == (2 if name == "dualpipe" else 1)
    assert pipeline.collectives(plan, 8.0, 8.0, 2.0, True)[0].count == CROSSED.get(name, 2)
    assert all(rule.holds for rule in needs(plan))


def test_dualpipe_needs_pairs_of_stages_and_of_microbatches():
    assert broken("dualpipe") == broken("dualpipe", 3.0, pp=1.0) == []
    assert "--pp 3 has to be even" in broken("dualpipe", pp=3.0)[0] and "has 5" in broken("dualpipe", 5.0)[0]
    assert "leave them out" in broken("dualpipe", virtual_stages=2.0)[0]


def test_interleaving_needs_chunks_where_there_are_stages():
    assert broken("interleaved-zero-bubble", pp=1.0) == broken("interleaved-zero-bubble", virtual_stages=2.0) == []
    assert broken("interleaved-zero-bubble")


def test_an_unknown_schedule_lists_those_that_exist():
    with pytest.raises(
        UsageError,
        match="unknown schedule 'v-shape'; known: 1f1b, dualpipe, gpipe, interleaved-zero-bubble, zb-v, zero-bubble",
    ):
        pipeline.bubble(Layout(pp=4.0, schedule="v-shape"), 3.0, 1.0)
    with pytest.raises(UsageError, match=r"1f1b.*dualpipe.*gpipe.*zero-bubble"):
        build_request.request({"model": "llama-3-8b", "hw": "h100", "schedule": "v-shape"})


def test_a_schedule_of_its_own_decides_bubble_memory_traffic_and_legality(tmp_path, monkeypatch):
    (tmp_path / "schedules").mkdir()
    (tmp_path / "schedules" / "made-up.yaml").write_text(
        "variant_of: 1f1b\nbubble: '7.0'\nfirst: pp + 1\nlast: first\nsends: '4.0'\nneeds:\n"
        "- {name: an even pp, sizes: pp, holds: 'divides(2.0, pp)', say: '--pp {pp:.0f}: give an even one'}\n"
    )
    (tmp_path / "schedules" / "1f1b.yaml").write_text("copies: 1.0\nneeds: []\n")
    monkeypatch.setattr(pipeline, "SCHEDULES", ("1f1b", "made-up"))
    monkeypatch.setattr(pipeline, "SCHEDULES_IN", tmp_path / "schedules")  # an absolute path wins
    pipeline.schedule_named.cache_clear()
    plan = Layout(pp=4.0, schedule="made-up")
    try:
        assert pipeline.bubble(plan, 3.0, 1.0) == 7.0 and pipeline.in_flight(plan, 16.0) == (5.0, 5.0)
        assert pipeline.collectives(plan, 8.0, 8.0, 2.0, True)[0].count == 4
        ctx = EstimateContext(Request(load_model("llama-3-8b"), load_hardware("h100"), batch=64.0, seq=128.0))
        assert legality.first_violation(ctx, plan, "train") is None
        rule = legality.first_violation(ctx, Layout(pp=3.0, schedule="made-up"), "train")
        assert rule is not None and rule.say() == "--pp 3: give an even one"
    finally:
        pipeline.schedule_named.cache_clear()


def test_zb_v_and_interleaved_zero_bubble_say_what_they_need():
    assert not broken("zb-v") and not broken("interleaved-zero-bubble", virtual_stages=2.0)
    assert "leave --virtual-stages 2 out" in broken("zb-v", virtual_stages=2.0)[0]
    assert "from 8 microbatches on" in broken("zb-v", 7.0)[0]
    assert "--virtual-stages of at least 2" in broken("interleaved-zero-bubble")[0]
    assert "multiples of --pp 4" in broken("interleaved-zero-bubble", 6.0, virtual_stages=2.0)[0]
    assert not broken("zb-v", 1.0, pp=1.0)  # one stage is no pipeline


def test_only_interleaved_points_of_a_sweep_need_whole_rounds():
    """Microbatches come in multiples of pp where stages are interleaved; a plain pipeline takes any number."""
    plan = Layout(pp=4.0, virtual_stages=np.array([1.0, 2.0, 2.0, 1.0]))
    (rule,) = needs(plan, np.array([3.0, 3.0, 8.0, 8.0]))
    assert list(rule.holds) == [True, False, True, True]
    assert needs(Layout(pp=4.0), 3.0) == []
