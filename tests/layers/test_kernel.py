"""`kernel` makes the Op that the class makes, field by field."""

from __future__ import annotations

import inspect

from rooflinecli.ledger.ops import ExpertWorkload, Gradient, Op, kernel


def test_a_kernel_has_the_fields_of_an_op_in_their_order_with_their_defaults():
    parameters = inspect.signature(kernel).parameters
    assert tuple(parameters) == Op._fields
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    assert defaults == Op._field_defaults


def test_a_kernel_is_the_op_of_the_same_words():
    written = dict(
        zip(
            Op._fields,
            (
                "x",
                "matmul",
                "bf16",
                1.0,
                2.0,
                3,
                4,
                5,
                6,
                7,
                8,
                9,
                "v",
                Gradient(1.0, 2.0),
                ExpertWorkload(1, 2, 3, 4, 5, 6),
                10,
                True,
            ),
            strict=True,
        )
    )
    assert kernel(**written) == Op(**written)
    assert kernel(**written).group == "matmul"
