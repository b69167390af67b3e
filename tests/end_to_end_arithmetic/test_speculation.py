"""Speculation inside the estimate: a draft's steps and one pass of the target over all positions, shared by the tokens that come of it."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.hand import W, cached_attention, matmul, total
from end_to_end_arithmetic.serving import CONTEXT, SEQUENCE, STEP, B, ends, layer

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request as ask
from rooflinecli.engine import residency
from rooflinecli.engine.context import EstimateContext
from rooflinecli.interfaces.python import api
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model

STARTS = 6 * 10e-6
LOAD = {"prompt": 200, "output": 100}
ASKED = {**LOAD, "speculate": "eagle", "draft_tokens": 3, "acceptance": 0.5}
TOKENS = 1 + 0.5 + 0.25 + 0.125  # the target's own, and a run of accepted drafts


def verify(positions: int) -> float:
    """The target over a number of positions of each sequence: the cache is read once, each position multiplies against it."""
    one = cached_attention(B, 4, 2, 32, 32, CONTEXT)
    flops = one.flops * positions
    traffic = one.bytes + B * 4 * 64 * 2 * (positions - 1)
    busy = max(flops / 30e12, B * 2 * 50e-9)
    seconds = (busy**1.5 + (traffic / (0.6 * W)) ** 1.5) ** (1 / 1.5) + 4e-6
    core = type(one)(one.group, one.kind, seconds, one.error, flops, traffic)
    tokens = B * positions
    return total(6 * layer(tokens, core) + ends(tokens, tokens)) + STARTS + STEP + B * SEQUENCE


def head() -> float:
    """One layer of the target with its embedding and LM head, and a projection from two widths to one."""
    core = cached_attention(B, 4, 2, 32, 32, CONTEXT)
    return total(layer(B, core) + ends(B, B) + [matmul(B, 512, 256)]) + 10e-6


def test_a_round_is_three_drafts_and_one_verification(ask):
    answer = ask("dense", "decode", batch=B, **ASKED)
    assert answer["time_s"] == pytest.approx((3 * head() + verify(4)) / TOKENS, rel=1e-9)
    found = answer["speculation"]
    assert found["mean_accepted_length"] == pytest.approx(TOKENS)
    assert (found["draft_s"], found["verify_s"]) == pytest.approx((3 * head(), verify(4)))
    plain = ask("dense", "decode", batch=B, **LOAD)
    assert found["speedup"] == pytest.approx(plain["time_s"] / answer["time_s"])
    assert sum(answer["breakdown_s"].values()) == pytest.approx(answer["time_s"])
    assert answer["breakdown_s"]["draft"] == pytest.approx(3 * head() / TOKENS)
    assert answer["floor_s"] <= answer["time_s"] and answer["tokens_per_s"] == pytest.approx(B / answer["time_s"])


def test_speculate_on_a_chip_is_what_estimate_says():
    from rooflinecli.questions.estimate.answer import estimate
    from rooflinecli.questions.serving.question import Speculate

    pair = {"draft": "llama-3.2-1b", "target": "llama-3.1-8b"}
    answer = Speculate(acceptance_rate=0.7, **pair, hw="h100", devices=1, batch=4, num_speculative_tokens=3).answer()
    options = {"model": "llama-3.1-8b", "hw": "h100", "n": 1, "batch": 4, "phase": "decode"}
    decode = estimate(
        ask.request({**options, "speculate": "llama-3.2-1b", "draft_tokens": 3, "acceptance": 0.7})
    ).phases["decode"]
    assert answer.speedup == pytest.approx(decode.speculation.speedup, rel=1e-12)
    assert answer.itl_s == pytest.approx(decode.time_s, rel=1e-12)
    assert answer.lengths["best"]["speedup"] >= answer.speedup
    plain = Speculate(acceptance_rate=0.7, **pair, num_speculative_tokens=3).answer()
    assert plain.speedup > answer.speedup and "--hw" in plain.notes[-1]
    for wrong in ({"devices": 2}, {"hw": "h100", "draft": "1B"}, {"hw": "h100", "draft_cost": 0.1}):
        with pytest.raises(UsageError, match="--hw"):
            Speculate(acceptance_rate=0.7, **{**pair, **wrong})


def test_a_head_needs_its_layer_in_memory_and_a_layer_of_cache(ask):
    plain, with_head = (ask("dense", "decode", batch=B, **o)["memory"] for o in (LOAD, ASKED))
    layer_parameters = 256 * 256 + 128 * 256 + 3 * 256 * 512 + 2 * 256 + 2 * 256 * 256
    assert with_head["weights_bytes"] - plain["weights_bytes"] == pytest.approx(2 * layer_parameters)
    assert with_head["kv_cache_bytes"] == pytest.approx(plain["kv_cache_bytes"] * 7 / 6)


def test_a_draft_model_brings_all_its_weights_and_its_cache(ask, folder):
    asked = {**ASKED, "speculate": str(folder / "dense.yaml")}  # a draft as slow as the target
    plain, drafted = ask("dense", "decode", batch=B, **LOAD), ask("dense", "decode", batch=B, **asked)
    for held in ("weights_bytes", "kv_cache_bytes"):
        assert drafted["memory"][held] == pytest.approx(2 * plain["memory"][held])
    draft = plain["time_s"] - STEP - B * SEQUENCE  # the engine's step is paid once a round
    assert drafted["speculation"]["draft_s"] == pytest.approx(3 * draft)
    assert drafted["speculation"]["speedup"] < 1 and drafted["speculation"]["break_even_batch"] == 0


def test_where_it_stops_to_pay(ask):
    asked = {**LOAD, "speculate": "llama-3.2-1b", "draft_tokens": 4, "acceptance": 0.7, "chip": "h100", "n": 8, "tp": 8}
    few, many = (ask("llama-3.1-70b", "decode", batch=size, **asked)["speculation"] for size in (4, 2000))
    assert few["break_even_batch"] == many["break_even_batch"] > 64 and few["speedup"] > 1.5 > 1 > many["speedup"]
    until = few["break_even_batch"]
    gains = [
        ask("llama-3.1-70b", "decode", batch=size, **asked)["speculation"]["speedup"] for size in (until, until + 1)
    ]
    assert gains[0] > 1 >= gains[1]


@pytest.mark.usefixtures("means")
def test_under_load_prompts_disturb_a_token_as_before(ask):
    plain, drafted = (ask("dense", "decode", concurrency=B, **o)["breakdown_s"] for o in (LOAD, ASKED))
    assert drafted["prefill_interference"] == pytest.approx(plain["prefill_interference"])
    rate = ask("dense", "decode", qps=20, **ASKED)
    assert rate["batch"] == pytest.approx(20 * LOAD["output"] * rate["time_s"], rel=1e-6)


def test_the_largest_batch_leaves_room_for_the_draft(ask, folder):
    long = {"prompt": 100_000, "output": 100}
    without = ask("dense", "decode", batch=1, **long)["max_batch"]
    with_draft = ask("dense", "decode", batch=1, **{**ASKED, **long, "speculate": str(folder / "dense.yaml")})[
        "max_batch"
    ]
    assert with_draft == pytest.approx(without / 2, rel=0.02)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"speculate": "eagle"}, "needs --acceptance"),
        ({"acceptance": 0.5}, "add --speculative-method"),
        ({"draft_tokens": 2}, "add --speculative-method"),
        ({"speculate": "mtp", "acceptance": 0.5}, "no layers for further tokens"),
        ({"speculate": "llama-3.2-1b", "acceptance": 0.5}, "its vocabulary is not that of dense"),
        ({"speculate": "nosuch", "acceptance": 0.5}, "nosuch"),
    ],
)
def test_half_a_question_is_refused(ask, asked, says):
    with pytest.raises(UsageError, match=says):
        ask("dense", "decode", batch=B, **LOAD, **asked)


def test_a_quantized_model_drafts_with_its_own_last_layer():
    """DeepSeek-R1's checkpoint names modules by layer: the module of a further token is its last layer, whatever was worked out of all 61 before."""
    whole = load_model("deepseek-r1")
    assert len(whole.order) == 61
    last = whole.with_changes(layers=[whole.layers[-1].with_changes(repeat=1)])
    assert last.order == [0] and len(whole.order) == 61
    asked = {"hw": "h200", "n": 8, "tp": 8, "phase": ["decode"], "batch": 8}
    plain, drafted = (
        api.estimate("deepseek-r1", **asked, **more)["phases"]["decode"]
        for more in ({}, {"speculate": "mtp", "draft_tokens": 3, "acceptance": 0.7})
    )
    assert drafted["time_s"] < plain["time_s"] < 4 * drafted["time_s"]


def test_the_module_of_a_quantized_checkpoint_is_stored_as_its_layers():
    """DeepSeek-V3: one layer of 61 more, its experts (256 and a shared one of 3 x 7168 x 2048) in a byte each."""
    asked = {"model": "deepseek-v3", "hw": "b200", "batch": B, **LOAD}
    plan = Layout(tp=8.0, zero=0)
    plain, drafted = (
        residency.resident_memory(EstimateContext(ask.request({**asked, **more})), plan, "decode").weights_bytes
        for more in ({}, {"speculate": "mtp", "draft_tokens": 1, "acceptance": 0.7})
    )
    experts = 257 * 3 * 7168 * 2048 / 8
    assert experts < drafted - plain < 1.06 * experts
