"""Capacity of experts and shared experts that overlap the exchange: what they change in a step, compared with arithmetic of its own."""

from __future__ import annotations

from typing import Any

import pytest

PLAN = ["--hw", "h800", "-n", "256", "--pp", "8", "--dp", "32", "--ep", "8", "--zero", "1", "--phase", "train"]
STEP = [*PLAN, "--micro-batch-size", "1", "--batch", "1024", "--format", "json"]


def step(cli: Any, model: str, *more: str) -> dict[str, Any]:
    answer = cli("estimate", model, *STEP, *more).json
    assert sum(answer["phases"]["train"]["breakdown_s"].values()) == pytest.approx(answer["phases"]["train"]["time_s"])
    return dict(answer["phases"]["train"])


@pytest.mark.slow
def test_a_capacity_moves_the_exchange_in_proportion_and_says_so(cli) -> None:
    one = ["mixtral-8x7b", "--hw", "h100", "-n", "8", "--dp", "8", "--ep", "8", "--phase", "train", "--format", "json"]
    found = [
        cli("estimate", *one, *more).json for more in ([], ["--capacity-factor", "1.5"], ["--capacity-factor", "0.5"])
    ]
    plain, wide, narrow = (answer["phases"]["train"] for answer in found)
    sent = [answer["communication_bytes"]["ep"] for answer in (plain, wide, narrow)]
    assert sent == pytest.approx([sent[0], 1.5 * sent[0], 0.5 * sent[0]])
    assert narrow["time_s"] < plain["time_s"] < wide["time_s"]
    assert wide["flops"] == plain["flops"]  # padding is no work of the model
    assert [answer["layout"].get("capacity_factor") for answer in found] == [None, 1.5, 0.5]


def test_padded_capacity_works_as_an_imbalance_of_the_same_size(cli) -> None:
    assert step(cli, "mixtral-8x7b", "--capacity-factor", "1.25")["time_s"] == pytest.approx(
        step(cli, "mixtral-8x7b", "--expert-imbalance", "1.25")["time_s"]
    )


@pytest.mark.slow
def test_shared_experts_hide_no_more_of_the_exchange_than_they_take(cli) -> None:
    plain, overlapping = step(cli, "deepseek-v3"), step(cli, "deepseek-v3", "--shared-expert-overlap")
    moved = plain["communication_s"]["ep"] - overlapping["communication_s"]["ep"]
    # One shared expert of 2048 by 7168: three products forward, six backward, over the layers with experts of the fullest of eight
    # stages and 32 microbatches of 4096 tokens; at a third to all of the chip's fp8 peak.
    flops = 3 * 6 * 4096 * 7168 * 2048 * (58 / 8) * 32
    least, most = flops / 1.979e15, 3 * flops / 1.979e15
    assert 0.5 * least < moved < most
    assert overlapping["time_s"] < plain["time_s"] and overlapping["floor_s"] == plain["floor_s"]


@pytest.mark.slow
def test_exposed_expert_exchange_takes_its_whole_time(cli) -> None:
    """With --ep-overlap a twentieth of the expert all-to-all is exposed whatever the stack; Megatron-LM and older bridges expose all of it."""
    stack = ["--framework", "megatron"]
    on, off = step(cli, "deepseek-v3", *stack, "--ep-overlap"), step(cli, "deepseek-v3", *stack, "--no-ep-overlap")
    sent = [
        answer["communication_bytes"]["ep"] for answer in (on, off)
    ]  # of the slowest stage, which may be another one
    assert sent[0] == pytest.approx(sent[1], rel=0.05) and on["floor_s"] == off["floor_s"]
    assert on["communication_s"]["ep"] < 0.1 * off["communication_s"]["ep"] and on["time_s"] < off["time_s"]
    assert step(cli, "deepseek-v3", *stack)["time_s"] == off["time_s"]
    for stack, flag in (("megatron-2026+full-graph", "--ep-overlap"), ("megatron-2026", "--no-ep-overlap")):
        unsaid = step(cli, "deepseek-v3", "--framework", stack)["time_s"]
        assert unsaid == step(cli, "deepseek-v3", "--framework", stack, flag)["time_s"]


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        ("llama-3-8b", ["--capacity-factor", "1.2"], "has no experts; leave it out"),
        ("mixtral-8x7b", ["--shared-expert-overlap"], "has no shared experts; leave it out"),
        ("llama-3-8b", ["--ep-overlap"], "--ep-overlap: Llama 3 8B has no experts; leave it out"),
        ("mixtral-8x7b", ["--capacity-factor", "0"], "takes no tokens; give more than 0"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, model, given, said) -> None:
    ran = cli("estimate", model, "--hw", "h100", "-n", "8", "--phase", "train", *given)
    assert ran.code == 2 and said in " ".join(ran.err.split())
