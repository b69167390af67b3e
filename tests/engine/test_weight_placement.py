"""Weights apart from the device that works on them: over the link for a prompt, pieces of it from board to board, sessions that all fit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rooflinecli.engine import forward_step
from rooflinecli.engine.context import EstimateContext
from rooflinecli.interfaces.python import api
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


def ctx(model="mixtral-8x7b", **more) -> EstimateContext:
    base = {
        "engine": "llamacpp",
        "batch": 1.0,
        "prompt": 1000.0,
        "output": 24.0,
        "devices": 1.0,
        "weight_dtype": "bf16",
    }
    return EstimateContext(Request(load_model(model), load_hardware("rtx-4090"), **{**base, **more}))


def link(one: EstimateContext, tokens: float, passes: float) -> tuple[float, float]:
    """Seconds expected of the link, and the least."""
    spent = []
    costs = SimpleNamespace(add_time=lambda _, seconds, *__: spent.append(seconds), t_communication=5.0)
    forward_step._weights_over_host_link(one, Layout(), one.host, costs, tokens, passes)
    return spent[0], costs.t_communication - 5.0


D, F, LAYERS = 4096, 14336, 32
EXPERTS = LAYERS * 8 * 3 * D * F * 2.0
INNER = LAYERS * (2 * D * D + 2 * D * 1024 + 2 * D + D * 8) * 2.0


def with_work(tokens: float) -> float:
    """Share of eight experts that any of the tokens picks, two each, where texts route as unevenly as llama.cpp's prompts do (r = 0.6)."""
    return max(1 - (1 + tokens * 2 / 8 / 0.6) ** -0.6, 2 / 8)


def test_weights_of_the_host_pass_over_once_a_pass():
    """A quarter of the layers and of the experts; one token picks two of eight experts, many nearly all of them."""
    one = ctx(gpu_layers=24.0)
    rate = float(one.chip.host_link)
    few, least = link(one, 1.0, 1.0)
    assert least == pytest.approx((INNER + EXPERTS * 2 / 8) / 4 / rate)
    assert few == pytest.approx(least)  # of one token that is all there is
    some, _ = link(one, 20.0, 1.0)
    assert 0.7 < with_work(20) < 0.75 and some == pytest.approx((INNER + EXPERTS * with_work(20)) / 4 / rate)
    many, still = link(one, 1e6, 3.0)
    assert many == pytest.approx(3 * (INNER + EXPERTS * with_work(1e6)) / 4 / rate) and still == pytest.approx(
        3 * least
    )


def test_experts_alone_on_the_host():
    one = ctx(experts_on="host:8")
    many, least = link(one, 1e6, 1.0)
    rate = float(one.chip.host_link)
    assert many == pytest.approx(EXPERTS * with_work(1e6) / 4 / rate) and least == pytest.approx(EXPERTS / 16 / rate)


@pytest.mark.parametrize(("stages", "passes", "best"), [(2.0, 4.0, 8 / 5), (4.0, 1.0, 1.0), (2.0, 1.0, 1.0)])
def test_pieces_go_from_board_to_board(stages, passes, best):
    """m pieces through n boards take m + n - 1 slots; of that 0.8 are gained, and never less than nothing."""
    one = ctx("llama-3-8b")
    spent, shared = [], []
    costs = SimpleNamespace(add_time=lambda _, seconds, *__: spent.append(seconds), divide_by=shared.append)
    gained = max(best * one.engine.split_efficiency, 1.0)
    step = forward_step._overlapped_stages(one, Layout(pp=stages), forward_step.PricedPass(costs, 12.0), passes)
    assert step.seconds == pytest.approx(12 / gained)
    assert shared == [pytest.approx(best)] and spent == [pytest.approx(12 / gained - 12 / best)]


def test_one_board_and_other_engines_wait_for_nobody():
    step = forward_step.PricedPass(None, 12.0)
    assert forward_step._overlapped_stages(ctx("llama-3-8b"), Layout(), step, 4.0) is step
    assert forward_step._overlapped_stages(ctx("llama-3-8b", engine="vllm"), Layout(pp=2.0), step, 4.0) is step


def test_prompts_start_layer_by_layer():
    """Every layer and every layer of experts, where the engine says so."""
    one = ctx(engine="vllm")
    own = one.engine.with_changes(prompt_per_layer=2e-6, prompt_per_moe_layer=3e-6)
    own._document = one.engine.document
    one.engine = own
    assert forward_step.uncaptured_launch_s(one) == pytest.approx(32 * 2e-6 + 32 * 3e-6)
    dense = ctx("llama-3-8b", engine="vllm")
    dense.engine = own
    assert forward_step.uncaptured_launch_s(dense) == pytest.approx(32 * 2e-6)
    dense.engine = own.with_changes(prompt_per_layer=0.0)
    assert forward_step.uncaptured_launch_s(dense) == 0


def test_few_sessions_all_stay_on_the_device():
    """Twenty sessions less eight under way: no session moves down a tier, nothing is brought back."""
    asked = {"engine": "vllm", "n": 1, "prompt": 2048, "output": 256, "concurrency": 8, "phase": ["prefill"]}
    found = api.estimate("llama-3-8b", "h100", **asked, prefix_hit=0.75, sessions=20, kv_tier="host=256GB@50GB/s")
    sessions = found["phases"]["prefill"]["sessions"]
    assert (sessions["idle_sessions"], sessions["on_device_fraction"], sessions["evicted_fraction"]) == (12, 1, 0)
    assert sessions["tiers"]["host"]["in_tier_fraction"] == sessions["reload_s"] == 0
