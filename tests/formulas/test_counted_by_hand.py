"""Formulas against counting one by one, and replicas that add up."""

from __future__ import annotations

import math

import pytest
from conftest import run_cli
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.formulas import (
    attention,
    closed_loop,
    collectives,
    roofline,
    serving,
    textbook,
    training_goodput,
)

sizes = st.integers(1, 200)


@given(sizes, sizes)
def test_windowed_causal_pairs(seq, window):
    """Query i sees the keys before it, half of its own (the S^2/2 convention), at most `window` of them."""
    counted = sum(min(i + 0.5, window) for i in range(seq))
    assert attention.causal_pairs(float(seq), float(window)) == pytest.approx(counted)


@given(sizes, sizes)
def test_chunked_causal_pairs(seq, chunk):
    counted = sum(i % chunk + 0.5 for i in range(seq))
    assert attention.chunked_pairs(float(seq), float(chunk)) == pytest.approx(counted)


@given(sizes, sizes)
def test_full_pairs(seq, window):
    assert attention.full_pairs(float(seq), float(window)) == sum(min(seq, window) for _ in range(seq))


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_replicas_multiply_the_rate_and_nothing_else(phase):
    one, four = (
        run_cli(
            *f"estimate llama70b --hw h100 -n {2 * dp} --tp 2 --pp 1 --dp {dp} --phase {phase} --format json".split()
        ).json
        for dp in (1, 4)
    )
    a, b = one["phases"][phase], four["phases"][phase]
    assert b["tokens_per_s"] == pytest.approx(4 * a["tokens_per_s"]) and b["time_s"] == a["time_s"]
    key = f"usd_per_million_{'input' if phase == 'prefill' else 'output'}_tokens"
    assert four["cost"][key] == pytest.approx(one["cost"][key])


def test_a_cache_that_heads_do_not_share_is_read_again_and_padding_with_it():
    """100 bytes in a shape a quarter longer; of three further heads over each cached one a tenth read it again: 125 and 37.5."""
    assert roofline.cache_read(100.0, 0.1, 4.0, 0.25) == pytest.approx(162.5)
    assert roofline.cache_read(100.0, 0.1, 1.0, 0.0) == 100


def test_an_axis_that_never_closes_has_one_direction():
    assert [collectives.directions_never(m, 1.0, 16.0, 256.0) for m in (1.0, 4.0, 16.0)] == [1, 1, 1]


def test_answer_time_counts_the_first_token_once():
    assert serving.e2e_latency(2.0, 0.5, 5) == 2.0 + 4 * 0.5


def test_a_part_of_an_instance_serves_nobody():
    assert [serving.whole_instances(devices, 4.0) for devices in (15.0, 16.0, 17.0)] == [3, 4, 4]


def test_a_checkpoint_longer_than_two_failures_is_taken_once_per_failure():
    """Daly 2006, equation 37: tau = M from delta = 2 M on."""
    assert [training_goodput.daly_interval(delta, 100.0) for delta in (200.0, 300.0)] == [100.0, 100.0]
    assert training_goodput.daly_interval(199.0, 100.0) == pytest.approx(
        200 * math.sqrt(0.995) * (1 + math.sqrt(0.995) / 3 + 0.995 / 9) - 199
    )


def test_prompts_alone_bound_the_rate_of_answers():
    """Three replicas of two stages, half a second a prompt: each replica takes 4 prompts a second, each answer has 10 tokens."""
    assert serving.prompt_bound_throughput(10.0, 0.5, 2.0, 3.0) == 3 * 4 * 10


@given(st.floats(1e-3, 1e2), st.floats(1e-6, 1.0), st.integers(1, 10_000))
def test_a_request_alone_never_waits_less_than_its_own_first_token(first, itl, output):
    """One after the other is a bound: for one request it is that request, and no last digit may make it faster."""
    whole = serving.e2e_latency(first, itl, float(output))
    serial = closed_loop.serial_ttft(1.0, whole, float(output), itl)
    assert serial >= first
    assert serial == pytest.approx(first, rel=1e-9, abs=1e-9 * whole)


def test_three_requests_one_after_the_other():
    """Each is 2 s and four times 0.5 s: the third ends at 12 s, and its last four tokens took 2 s."""
    assert closed_loop.serial_ttft(3.0, 4.0, 5.0, 0.5) == pytest.approx(3 * 4 - 4 * 0.5)


def test_the_last_example_may_be_cut_short():
    """100 tokens are nine examples of 11 and one more token."""
    assert [textbook.examples_for_tokens(tokens, 11.0) for tokens in (99.0, 100.0)] == [9, 10]
