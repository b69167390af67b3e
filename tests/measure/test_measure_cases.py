"""Counts of cases by hand, the held-out third, and the grids."""

import pytest

from rooflinecli.measure import cases, shape_grids
from rooflinecli.measure.fit import LEAST


def test_matmul_counts():
    case = cases.matmul(2, 3, 5, "bf16")
    assert (case.flops, case.bytes) == (2 * 2 * 3 * 5, 2 * (2 * 5 + 5 * 3 + 2 * 3))


def test_prefill_counts_the_causal_half():
    half, full = cases.prefill(1, 8, 2, 1, 4, "fp32"), cases.prefill(1, 8, 2, 1, 4, "fp32", causal=False)
    assert full.flops == 2 * half.flops == 2 * 2 * 8 * 8 * (4 + 4)
    assert half.bytes == 4 * (8 * 2 * 8 + 8 * 1 * 8)


def test_decode_reads_the_cache():
    case = cases.decode(3, 100, 8, 2, 16, "bf16")
    assert case.bytes == 3 * 2 * (1 * 8 * 32 + 100 * 2 * 32)


def test_training_triples_a_matmul():
    one, three = cases.matmul(4, 8, 16, "fp32"), cases.matmul_training(4, 8, 16, "fp32")
    assert three.flops == 3 * one.flops and three.launches == 3 and three.regime == "training"
    assert three.bytes >= 3 * one.bytes


def test_attention_backward_takes_five_matmuls():
    one, both = cases.prefill(1, 128, 2, 2, 64, "fp32"), cases.prefill_training(1, 128, 2, 2, 64, "fp32")
    assert both.flops == pytest.approx(3.5 * one.flops) and both.launches == 2


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_a_third_is_held_out_whatever_the_dtype(platform):
    grid = shape_grids.chosen(tuple(shape_grids.GRIDS), platform, False, ("fp32",))
    share = sum(c.held_out for c in grid) / len(grid)
    assert 0.22 < share < 0.45
    assert cases.matmul(512, 512, 512, "fp32").held_out == cases.matmul(512, 512, 512, "bf16").held_out


def test_the_held_out_choice_does_not_drift():
    assert [cases.matmul(n, n, n, "fp32").held_out for n in (256, 384, 512, 640, 768)] == [
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
def test_every_suite_brings_the_two_roofs(platform, quick):
    for suite in ("matmul", "attention", "elementwise", "bandwidth"):
        grid = shape_grids.chosen((suite,), platform, quick)
        assert {"copy", "triad", "read", "matmul"} <= {c.op for c in grid}
        assert len({c.key for c in grid}) == len(grid)


def test_quick_has_enough_shapes_to_fit_every_class_it_times():
    grid = shape_grids.chosen(tuple(shape_grids.GRIDS), "cpu", True)
    for kind in ("matmul", "prefill_attention", "decode_attention"):
        assert sum(c.kind == kind and c.regime == "kernel" for c in grid) >= LEAST
