"""A first token in a closed loop, by hand."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.formulas import closed_loop, serving

some = st.floats(1e-3, 1e3)


def test_a_first_token_by_hand():
    """21 prompts, 8 a pass: the first pass, and one of the two after it in the mean; then three steps and a shared one; 20 ms and 1 ms a stream."""
    burst = closed_loop.burst_ttft(21, serving.prompts_per_pass(8192, 1000), 0.3, 0.4)
    assert burst == pytest.approx(0.3 + 0.4)
    turn = closed_loop.turn_ttft(1, 2, 1, 0.02, 0.05, 0.5)
    assert turn == pytest.approx(3 * 0.02 + 0.05 * 1.25)
    for per_slot, expected in ((10, 0.07 + 0.9 * turn), (math.inf, turn), (1, burst)):
        assert closed_loop.closed_loop_ttft(burst, turn, per_slot, 0.1, 0.02, 1e-3, 21) == pytest.approx(
            expected + 0.1 + 0.041
        )


def test_a_step_of_prompts_and_decodes_by_hand():
    """20 ms of prompts take 30 with decodes of 8; 500 operations of 100 us take 50; a prompt in three pieces meets three steps."""
    assert closed_loop.mixed_step(0.008, 0.020, 1.5, 0.0, 1) == pytest.approx(0.038)
    assert closed_loop.mixed_step(0.008, 0.020, 1.5, 500 * 100e-6, 1) == pytest.approx(0.050)
    assert closed_loop.mixed_step(0.008, 0.060, 1.5, 500 * 100e-6, 3) == pytest.approx(0.150)
    assert closed_loop.mixed_step(0.008, 0.600, 1.5, 500 * 100e-6, 3) == pytest.approx(0.024 + 0.9)


def test_prompts_held_back_by_hand():
    """20 steps, or 90 % of 16,384 tokens: with 64 sequences 14,682 tokens, 14.65 prompts of 1,002.

    A prompt comes every 14.375 steps: 20 steps it is, 2.4 prompts in each. The first waits for all, the other 1.4 for half.
    With answers of 10 tokens 6.4 come every step: 13.65 more are there after 2.13 steps.
    """
    assert closed_loop.arrivals_per_step(64, 920) == pytest.approx(1 / 14.375)
    assert closed_loop.held_steps(20, 0.9, 16384, 64, 1002, 1 / 14.375) == 20
    together = 1 + 20 / 14.375
    assert closed_loop.mean_hold(20, 1 / 14.375) == pytest.approx((20 + (together - 1) * 10) / together)
    assert closed_loop.held_steps(20, 0.9, 16384, 64, 1002, 6.4) == pytest.approx(13.6523 / 6.4, rel=1e-4)
    assert closed_loop.prompts_per_mixed_step(1 / 14.375, 20, 0) == pytest.approx(1.3913, rel=1e-4)
    assert closed_loop.prompts_per_mixed_step(0.5, 2, 9) == 4.5


def test_an_answer_of_nothing_is_a_step_all_the_same():
    """64 slots whose answers have no token bring 64 prompts a step, as with answers of one."""
    assert closed_loop.arrivals_per_step(64, 0) == closed_loop.arrivals_per_step(64, 1) == 64


def test_a_first_token_of_one_after_the_other_by_hand():
    """Four requests of 2 s each, 11 tokens 100 ms apart: the last ends after 8 s, and ten steps before that it began."""
    assert closed_loop.serial_ttft(4, 2.0, 11, 0.1) == pytest.approx(8 - 1.0)
    assert closed_loop.serial_ttft(4, 2.0, 1, 0.1) == closed_loop.serial_ttft(4, 2.0, 0, 0.1) == pytest.approx(8)


def test_a_front_end_reads_prompts():
    assert closed_loop.front_time(0.004, 3e-6, 8000) == pytest.approx(0.028)


@given(some, st.floats(0, 1), st.floats(1, 1e5), st.floats(1, 1e3), st.floats(1, 1e5), st.floats(1e-4, 10))
def test_nobody_is_held_longer_than_the_longest(most, share, budget, batch, prompt, arrivals):
    held = closed_loop.held_steps(most, share, budget, batch, prompt, arrivals)
    assert 0 <= held <= most
    assert held / 2 <= closed_loop.mean_hold(held, arrivals) * (1 + 1e-12) and closed_loop.mean_hold(
        held, arrivals
    ) <= held * (1 + 1e-12)


@given(some, some, st.floats(1, 3), some, st.integers(1, 9))
def test_a_mixed_step_is_no_shorter_than_what_is_in_it(decode, prompts, factor, launches, passes):
    whole = closed_loop.mixed_step(decode, prompts, factor, launches, passes)
    assert whole >= prompts and whole >= passes * decode and whole >= launches


@pytest.mark.parametrize(("load", "further"), [(0.1, 1.0), (0.5, 1.0), (0.5, 0.3), (1.2, 0.4)])
def test_the_wait_for_passes_of_prompts_alone_beside_a_queue_that_is_served_together(
    load: float, further: float
) -> None:
    """Whoever came during a pass of `1 + (n - 1) further` seconds is in the next: the mean wait beyond one's own pass of 1 s."""
    draw, now, waiting, total = random.Random(1), 0.0, [0.0], 0.0
    coming = draw.expovariate(load)
    requests = 0
    for _ in range(40_000):
        if not waiting:
            now, waiting = coming, [coming]
            coming += draw.expovariate(load)
        now += 1 + (len(waiting) - 1) * further
        total += sum(now - arrival for arrival in waiting)
        requests, waiting = requests + len(waiting), []
        while coming <= now:
            waiting.append(coming)
            coming += draw.expovariate(load)
    expected = closed_loop.wait_for_passes(load, 1.0, further)
    assert expected == pytest.approx(total / requests - 1, rel=0.12)


@given(st.integers(1, 2000), st.integers(1, 4000), st.sampled_from([0.0, 0.1, 0.5]), st.floats(0, 3))
def test_the_share_of_prompts_that_a_graph_holds_is_counted(prompt, room, variation, others):
    """Lengths spread evenly around the mean, one by one; two of those above half of the room do not fit, so that each must be alone."""
    n = 20_000
    lengths = [prompt * (1 + variation * (2 * (i + 0.5) / n - 1)) for i in range(n)] if variation else [prompt]
    counted = sum(length <= room for length in lengths) / len(lengths)
    alone = math.exp(-others) if prompt > room / 2 else 1.0
    assert closed_loop.share_that_fits(prompt, room, variation, others) == pytest.approx(counted * alone, abs=1e-4)
