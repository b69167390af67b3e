"""Verbs that answer the same question give the same number: random questions, every pair."""

from __future__ import annotations

import random

import pytest

from rooflinecli.core.errors import RooflineError
from rooflinecli.questions.plan.question import Plan
from rooflinecli.questions.search.question import Search

MODELS = ("llama-3-8b", "llama-3.3-70b", "mistral-7b-v0.1", "mixtral-8x7b", "qwen3-30b-a3b")
CHIPS = ("h100", "h200", "a100", "b200", "mi300x", "l40s")


def question(seed: int) -> tuple[str, str, dict[str, object]]:
    draw = random.Random(seed)
    return (
        draw.choice(MODELS),
        draw.choice(CHIPS),
        {
            "phase": ["decode"],
            "qps": draw.choice((0.5, 2.0, 7.0, 30.0)),
            "prompt": draw.choice((128, 512, 2048)),
            "output": draw.choice((16, 128, 512)),
        },
    )


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2, *range(4, 20)))]
)
def test_a_plan_takes_the_devices_of_the_search_and_both_hold_their_limits_at_the_printed_bound(seed: int) -> None:
    model, chip, load = question(seed)
    ttft, itl = 2.0, random.Random(seed).choice((0.02, 0.05, 0.1))
    try:
        found = Search(model, chip, **load, ttft=f"{ttft} s", itl=f"{itl} s").answer()
        planned = Plan(model, chip, **load, slo=f"ttft={ttft}s,itl={itl}s").answer()
    except RooflineError as error:
        pytest.skip(str(error))
    (row,) = planned.rows
    assert bool(found.results) == row.feasible
    if not found.results:
        return
    best = found.results[0].serve
    assert row.devices == best["devices"]
    assert best["ttft_at_bound_s"] <= ttft * (1 + 1e-9) and best["itl_at_bound_s"] <= itl * (1 + 1e-9)
    assert row.numbers.interval_itl_s[1] <= itl * (1 + 1e-9) and row.numbers.interval_ttft_s[1] <= ttft * (1 + 1e-9)
    assert row.numbers.requests_per_s_interval[0] >= load["qps"] * (1 - 1e-9)
