"""A recurrent step counted by hand: every element of the state is multiplied and added once per product of the rule."""

from __future__ import annotations

import pytest

from rooflinecli.formulas.recurrence import recurrent_flops


@pytest.mark.parametrize("products", [3.0, 4.0])
def test_each_element_of_the_state_meets_every_product(products):
    tokens, heads, key, value = 5.0, 7.0, 11.0, 13.0
    flops = 0.0
    for _ in range(int(tokens * heads)):
        for _ in range(int(key * value)):
            flops += 2 * products
    assert recurrent_flops(tokens, heads, key, value, products) == flops
