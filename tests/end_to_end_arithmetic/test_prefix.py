"""A prefix cache lowers the work of a prompt, and no memory."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.hand import attention, total
from end_to_end_arithmetic.serving import SEQUENCE, STEP, ends, layer

STARTS = 6 * 10e-6


def test_three_quarters_of_a_prompt_are_found(ask):
    """1000 tokens, 750 cached: 250 queries, each seeing all before it: 1000^2/2 - 750^2/2 pairs, over 1000 keys."""
    core = attention(1, 250, 4, 2, 32, 32, (1000**2 - 750**2) / 2, keys=1000)
    seconds = total(6 * layer(250, core) + ends(250, 1)) + STARTS + STEP + SEQUENCE
    answer = ask("dense", "prefill", prompt=1000, prefix_hit=0.75)
    assert answer["time_s"] == pytest.approx(seconds)
    assert answer["tokens_per_s"] == pytest.approx(1000 / seconds)  # of the prompt, found ones among them
    whole, part = (ask("dense", "prefill", prompt=n)["flops"] for n in (1000, 750))
    assert answer["flops"] == pytest.approx(
        whole - part, rel=5e-3
    )  # the logits of the last token are computed either way


def test_memory_and_decode_are_those_of_the_whole_prompt(ask):
    plain, found = (
        ask("dense", "decode", batch=8, prompt=1000, output=100, **more) for more in ({}, {"prefix_hit": 0.5})
    )
    assert found == plain
    first = ask("dense", "prefill", prompt=1000, output=100, prefix_hit=0.5)["memory"]
    assert first == ask("dense", "prefill", prompt=1000, output=100)["memory"]


@pytest.mark.usefixtures("means")
def test_prompts_of_others_disturb_less(ask):
    def added(**more):
        return ask("dense", "decode", concurrency=8, prompt=1000, output=100, **more)["breakdown_s"][
            "prefill_interference"
        ]

    assert 0.2 < added(prefix_hit=0.75) / added() < 0.35
    assert (
        ask("dense", "prefill", concurrency=8, prompt=1000, output=100, prefix_hit=0.75)["time_s"]
        < (ask("dense", "prefill", concurrency=8, prompt=1000, output=100)["time_s"])
    )


def test_pieces_of_what_is_left(ask):
    """Budget 100: 250 tokens to read take three passes, not ten."""
    pieces = ask("dense", "prefill", prompt=1000, prefix_hit=0.75, token_budget=100)["breakdown_s"]["overhead"]
    assert pieces == pytest.approx(3 * STARTS)


def test_a_hit_on_everything_reads_the_last_token(ask):
    everything = ask("dense", "prefill", prompt=1000, prefix_hit=1)
    one = 2 * ask("dense", "decode", batch=1, prompt=1000, output=0)["time_s"]
    assert 0 < everything["time_s"] < one
