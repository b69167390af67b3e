"""A further tower reads its own whole input in addition to the first: every pass and every step pays for both."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import step
from end_to_end_arithmetic.hand import Kernel, attention, elementwise, gather, matmul, total
from end_to_end_arithmetic.training import COUNT, Work, adam, block, core, ew, flat, mm, stem

T = 40  # tokens of the text tower: two layers of the dense model's, a projection to 64 in place of the logits
TEXT_LAYER = 2 * 256 + 256 * 256 + 128 * 256 + 3 * 256 * 512
TEXT = 2 * TEXT_LAYER + 1000 * 256 + 256 + 256 * 64


def text() -> list[Kernel]:
    layer = [
        elementwise(2 * T * 256),
        elementwise(2 * T * 256),
        matmul(T, 256, 256),
        elementwise(2 * T * 192),
        attention(1, T, 4, 2, 32, 32, T * T / 2),
        matmul(T, 128, 256),
        matmul(T, 256, 1024),
        elementwise(T * 1536),
        matmul(T, 512, 256),
        elementwise(6 * T * 256),
    ]
    return [gather(2 * T * 256), *2 * layer, elementwise(2 * T * 256), matmul(1, 256, 64)]


def test_a_pass_goes_through_both(ask):
    one, both = (ask(model, "prefill") for model in ("encoder", "pair"))
    assert both["time_s"] - one["time_s"] == pytest.approx(total(text()) + 2 * 10e-6)
    assert both["flops"] - one["flops"] == pytest.approx(sum(k.flops for k in text()))
    assert both["memory"]["weights_bytes"] - one["memory"]["weights_bytes"] == 2 * TEXT


def learning() -> list[Work]:
    layer = block(z=T, s=T, attend=core(1, T, 4, 2, 32, 32, T * T / 2))
    return 2 * layer + stem(T) + [ew(T * 256, T * 256), mm(1, 256, 64)]


def test_a_step_trains_both(ask):
    one, both = (step(ask, model, seq=50) for model in ("encoder", "pair"))
    more = COUNT * total(flat(learning())) + adam(TEXT) - 20e-6
    assert both["time_s"] - one["time_s"] == pytest.approx(more)
    assert both["flops"] - one["flops"] == pytest.approx(3 * COUNT * sum(k.flops for k in text()))


def test_recomputation_repeats_the_layers_of_both(ask):
    one, both = (
        step(ask, model, seq=50, recompute="full")["hardware_flops"] - step(ask, model, seq=50)["hardware_flops"]
        for model in ("encoder", "pair")
    )
    again = 2 * sum(k.flops for k in flat(learning()[:10], "forward"))
    assert both - one == pytest.approx(COUNT * again)
