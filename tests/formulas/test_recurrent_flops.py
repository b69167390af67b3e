"""A recurrent step counted by hand: every element of the state is multiplied and added once per product of the rule."""

from __future__ import annotations

import pytest

from rooflinecli.formulas.recurrence import recurrent_flops
from rooflinecli.layers.attention import short_conv


@pytest.mark.parametrize("products", [3.0, 4.0])
def test_each_element_of_the_state_meets_every_product(products):
    tokens, heads, key, value = 5.0, 7.0, 11.0, 13.0
    flops = 0.0
    for _ in range(int(tokens * heads)):
        for _ in range(int(key * value)):
            flops += 2 * products
    assert recurrent_flops(tokens, heads, key, value, products) == flops


def test_a_short_convolution_gates_each_channel_twice():
    """100 tokens of 2,048 channels: one product before the taps and one behind, whether read together or one by one."""
    gated = short_conv.Gated(key="H", value="H", channels=(("N",),))
    assert gated.scan(100.0, {"N": 2048.0}) == gated.step(100.0, {"N": 2048.0}) == 409_600
    assert gated.state_elements({"N": 2048.0}) == 0
