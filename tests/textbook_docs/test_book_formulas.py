"""formulas/textbook.py against what the Scaling Book prints (jax-ml/scaling-book), and against the engine where both count the same."""

from __future__ import annotations

import pytest

from rooflinecli.formulas import collectives, textbook
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.specs.model import load_model

NEAR = 0.05  # the book's rounding


def test_parameters_of_chapter_4_and_of_real_models():
    assert textbook.gated_model_params(64, 4096, 4 * 4096, 32, 32, 128, 32000, 2) == pytest.approx(
        16e9, rel=0.1
    )  # D as 4e3 in the book
    assert textbook.gated_model_params(40, 5120, 13824, 40, 40, 128, 32000, 2) == pytest.approx(13.1e9, rel=NEAR)
    # the rule counts one norm a layer where Llama has two, and leaves out the last
    for name, shape, norms in (
        ("llama-3-70b", (80, 8192, 28672, 64, 8, 128, 128256, 2), 81),
        ("llama-2-13b", (40, 5120, 13824, 40, 40, 128, 32000, 2), 41),
    ):
        assert parameters(load_model(name)).total - textbook.gated_model_params(*shape) == norms * shape[1]


def test_size_below_which_latency_binds():
    assert textbook.latency_bound_size(45e9, 8, 1e-6) == pytest.approx(360e3)


def test_gather_between_gpus():
    for size, n, bandwidth, book in ((4096 * 65536 * 2, 8, 450e9, 1.04e-3), (1e9, 8, 450e9, 1e9 / 514e9)):
        gathered = collectives.collective_floor(collectives.gather_volume(size, n), bandwidth)
        assert gathered == pytest.approx(book, rel=NEAR)


def test_decode_step_is_the_floor_until_arithmetic_binds():
    small = textbook.decode_step_rule(30e9, 1, 8192 * 100e3, 4, 16 * 197e12, 16 * 810e9)
    assert small == pytest.approx(textbook.decode_floor(30e9, 8192 * 100e3, 4, 16 * 810e9)) and small == pytest.approx(
        2.5e-3, rel=NEAR
    )
    many = textbook.decode_step_rule(30e9, 1, 0.0, 256, 16 * 197e12, 16 * 810e9)
    assert many == pytest.approx(2 * 256 * 30e9 / (16 * 197e12)) and many > textbook.decode_floor(
        30e9, 0.0, 256, 16 * 810e9
    )


def test_critical_rows_is_where_both_times_are_equal():
    rows = textbook.matmul_critical_rows(4096, 16384, 394e12, 810e9, 1, 1, 1)
    compute, moved = 2 * rows * 4096 * 16384 / 394e12, (rows * 4096 + 4096 * 16384 + rows * 16384) / 810e9
    assert compute == pytest.approx(moved)


def test_flash_block_fills_the_chip():
    rows = textbook.flash_query_block(100000, 64, 128)
    assert 64 * 128 + rows * 128 + rows * 64 == pytest.approx(100000)
    assert textbook.flash_reread_elements(8192, 128, rows) == pytest.approx(128 * 8192 * 8192 / rows)
