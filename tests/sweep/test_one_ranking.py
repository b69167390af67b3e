"""The chooser behind `estimate` and `search` rank alike: what one takes of the layouts that both try, the other ranks first."""

from __future__ import annotations

import random

import pytest

from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.search.search_request import TrainingSearchQuestion, objective
from rooflinecli.questions.search.training import search
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import BOUNDS, Request

MODELS, CHIPS = ("gpt2", "llama-3-8b", "gemma-2-9b", "mixtral-8x7b"), ("h100", "b200", "a100", "tpu-v5p", "mi300x")


def drawn(seed: int) -> Request:
    """A question with its layout open, drawn at random."""
    draw = random.Random(seed)
    model = draw.choice(MODELS)
    return Request(
        load_model(model),
        load_hardware(draw.choice(CHIPS)),
        devices=float(draw.choice((4, 8, 16, 24, 32))),
        ep=float(draw.choice((2, 4))) if model.startswith("mixtral") else None,
        phases=("train",),
        batch=float(draw.choice((48, 64, 96, 512))),
        seq=1024.0 if model == "gpt2" else float(draw.choice((1024, 2048))),
        bound=draw.choice(BOUNDS),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_an_estimate_takes_what_a_search_ranks_first_or_is_within_five_percent(seed):
    """Of every layout that a search tries: tensor, pipeline, context and expert groups, micro-batches, virtual stages, ZeRO, recomputation."""
    request = drawn(seed)
    given = {} if request.ep is None else {"ep": (request.ep,)}
    question = TrainingSearchQuestion(request, (objective("time", ("train",)),), (), given, (int(request.devices),))
    best = search(question).top(1)
    chosen = estimate(request).phases["train"]
    end = {"pessimistic": chosen.interval_s[1], "expected": chosen.time_s, "floor": chosen.floor_s}[request.bound]
    if not best:
        assert chosen.memory.headroom_fraction < 0
        return
    assert end <= best[0].keys[0] * 1.05


@pytest.mark.slow
def test_the_reason_says_how_many_layouts_were_tried():
    reason = estimate(drawn(1)).layout.reason
    assert "of " in reason and "layouts tried; `roofline search` tries every one" in reason


@pytest.mark.slow
def test_an_expert_group_is_chosen():
    """Experts are spread where no published run keeps that many whole."""
    plan = estimate(
        Request(load_model("qwen3-30b-a3b"), load_hardware("h100"), devices=16.0, phases=("train",), batch=64.0)
    ).layout
    assert plan.ep > 1 and plan.dp % plan.ep == 0


@pytest.mark.slow
def test_the_nearest_remedy_keeps_the_devices():
    """Llama 8B without sharded optimizer state does not fit on 8; other sizes on the same 8 do."""
    asked = Request(
        load_model("llama-3-8b"),
        load_hardware("h100"),
        devices=8.0,
        tp=1.0,
        pp=1.0,
        dp=8.0,
        zero=0,
        phases=("train",),
        batch=64.0,
    )
    missed = estimate(asked)
    assert not missed.feasible
    nearest = missed.violations[0].nearest
    assert nearest.devices == 8 and "laid out otherwise" in nearest.reason
    assert "-n 8" in missed.violations[0].message
