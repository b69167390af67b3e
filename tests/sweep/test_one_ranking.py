"""The chooser behind `estimate` and `search` rank alike: what one takes of the layouts that both try, the other ranks first."""

from __future__ import annotations

import random

import pytest

from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.layout_candidates import scale_up_domain
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.search.objective import objective
from rooflinecli.questions.search.training import search
from rooflinecli.questions.search.training_question import TrainingSearchQuestion
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import HOLDS, Request

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
        seq=float(draw.choice((1024, 2048))),
        hold=draw.choice(HOLDS),
    )


@pytest.mark.parametrize("seed", range(12))
def test_an_estimate_takes_what_a_search_of_the_same_layouts_ranks_first(seed):
    request = drawn(seed)
    reach = scale_up_domain(EstimateContext(request))
    tried = {
        "tp": tuple(float(t) for t in range(1, reach + 1)),
        "cp": (1.0,),
        "ep": (request.ep or 1.0,),
        "micro-batch": (1.0, 2.0, 4.0),
        "virtual-stages": (1.0,),
        "zero": (0, 1, 3),
        "recompute": ("none", "full"),
    }
    asked = TrainingSearchQuestion(
        request, "train", (int(request.devices),), (objective("time", ("train",)),), (), tried
    )
    every = search(asked).ranking.top(None)
    found = [e for e in every if e.layout["sequence_parallel"] == (e.layout["tp"] > 1)]
    chosen = estimate(request).phases["train"]
    end = {"pessimistic": chosen.interval_s[1], "expected": chosen.time_s, "floor": chosen.floor_s}[request.hold]
    if not found:
        assert chosen.memory.headroom_fraction < 0
        return
    # a floor may be the same with and without sequence parallelism, and a search keeps one of the two
    assert end <= found[0].keys[0] * (1 + 1e-12)
    equal = [e.layout for e in every if e.keys[0] == pytest.approx(end, rel=1e-12)]
    assert (chosen.layout.tp, chosen.layout.pp, chosen.layout.dp) in [
        tuple(e[k] for k in ("tp", "pp", "dp")) for e in equal
    ]


def test_the_reason_says_what_was_not_tried():
    reason = estimate(drawn(1)).layout.reason
    assert "not tried:" in reason and "virtual stages" in reason


def test_an_expert_group_is_chosen():
    """Experts are spread where no published run keeps so many whole."""
    plan = estimate(
        Request(load_model("qwen3-30b-a3b"), load_hardware("h100"), devices=16.0, phases=("train",), batch=64.0)
    ).layout
    assert plan.ep > 1 and plan.dp % plan.ep == 0


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
