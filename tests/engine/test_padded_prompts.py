"""Prompts padded to the next graph: the time of the padded length, the floor of what there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.serving_load import load
from rooflinecli.formulas import serving
from rooflinecli.specs.layout import Layout

ASKED = {"model": "llama-2-13b", "hw": "trainium1", "engine": "neuron", "dtype": "bf16", "output": 512, "batch": 1}
PLAN = Layout(tp=16.0, zero=0)


def first(prompt, **changes):
    return inference.prefill(EstimateContext(build_request.request({**ASKED, "prompt": prompt, **changes})), PLAN)


@pytest.mark.parametrize(
    ("tokens", "least", "padded"),
    [(1, 64, 64), (64, 64, 64), (65, 64, 128), (3000, 64, 4096), (4096, 64, 4096), (9, 16, 16)],
)
def test_the_next_power_of_two(tokens, least, padded):
    assert serving.padded_prompt(float(tokens), float(least)) == padded


@settings(deadline=None)
@given(st.integers(1, 1 << 20))
def test_no_prompt_is_cut_and_none_doubles(tokens):
    padded = serving.padded_prompt(float(tokens), 1.0)
    assert tokens <= padded < 2 * tokens and math.log2(padded).is_integer()
    assert serving.padded_prompt(np.array([float(tokens)]), 1.0).tolist() == [padded]


def test_three_thousand_tokens_take_as_long_as_four_thousand_but_their_floor_is_theirs():
    short, whole = first(3000), first(4096)
    assert short.time_s == pytest.approx(whole.time_s, rel=1e-12)
    assert short.floor_s < 0.75 * whole.floor_s
    assert short.flops < whole.flops and short.bytes_per_device < whole.bytes_per_device
    assert short.tokens_per_s == pytest.approx(whole.tokens_per_s * 3000 / 4096, rel=1e-12)


def test_other_engines_read_what_there_is():
    assert first(3000, engine="cuda-graph", tp=8).time_s < first(4096, engine="cuda-graph").time_s


def test_prompts_of_others_are_padded_too():
    asked = {**ASKED, "concurrency": 4, "equal_lengths": True}
    asked.pop("batch")
    costs = [
        load(EstimateContext(build_request.request({**asked, "prompt": n})), PLAN).prefill_interference_s
        for n in (1100, 2048)
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_what_a_cache_holds_is_not_padded():
    """A hit of three quarters leaves 1,024 of 4,096: no padding, and a pass as long as with 4,096 keys behind it."""
    hit = first(4096, prefix_hit=0.75)
    assert hit.time_s < first(4096).time_s and hit.floor_s <= hit.time_s


def test_an_ideal_chip_pads_nothing():
    assert first(3000, efficiency="ideal").time_s < first(4096, efficiency="ideal").time_s


def test_padded_prompts_of_varied_lengths_have_a_mean() -> None:
    """Lengths uniform in 800 to 1,200: those up to 1,024, 56%, take that many, the others 2,048; equal ones of 1,000 take 1,024."""
    assert serving.mean_padded_prompt(1000.0, 0.2, 1024.0, 2048.0) == pytest.approx(0.56 * 1024 + 0.44 * 2048)
    assert (
        serving.mean_padded_prompt(1000.0, 0.0, 1024.0, 1024.0)
        == 1024
        == serving.mean_padded_prompt(900.0, 0.1, 1024.0, 1024.0)
    )
