"""Decoder-Only Transformers notes, sections 7.3 to 7.13 and 7.4.1."""

from __future__ import annotations

import pytest

from rooflinecli.formulas import attention, textbook
from rooflinecli.formulas import collectives as f
from rooflinecli.parallel import context, tensor
from rooflinecli.phases.fine_tuning import RECIPE
from rooflinecli.specs.layout import Layout

GPT3 = (96, 1, 2048, 12288, 96, 4, 2)  # layers, batch, sequence, width, heads, expansion, bytes


def sent(plan: Layout, backward: bool) -> float:
    volume = {"all-reduce": f.all_reduce_volume, "all-gather": f.gather_volume, "reduce-scatter": f.gather_volume}
    return sum(
        volume[c.op](c.size, c.n) * c.count for c in tensor.collectives(plan, 2048.0, 12288.0, 2.0, 1.0, 2.0, backward)
    )


def test_7_1_to_7_6_dpo():
    """Policy 6N, reference 2N, on the chosen and the rejected sequence."""
    assert textbook.dpo_flops_rule(1e9, 1e9, 1) == 8e9
    assert RECIPE["dpo"].passes == 3 + 1


def test_7_3_sequence_parallelism_sends_the_same_bytes_but_regathers_in_backward():
    plain, split = Layout(tp=8.0), Layout(tp=8.0, sequence_parallel=True)
    assert sent(split, False) == pytest.approx(sent(plain, False))
    assert sent(split, True) - sent(plain, True) == pytest.approx(2 * f.gather_volume(2048 * 12288 * 2, 8))


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_7_9_compute_over_communication(tp):
    """Proportional to (4 + 2E) D / T times bytes/s over FLOP/s."""
    d, e = 12288, 4
    flops = 2 * (4 + 2 * e) * d * d / tp
    moved = 2 * 2 * d * 2.0  # two all-reduces of one token in 16 bits, large T
    assert flops / moved == pytest.approx((4 + 2 * e) * d / tp / 4)


def test_7_11_to_7_13_activations():
    """eq. 7.12 with tensor parallelism, 7.13 with sequence parallelism; 3.7 without either."""
    d, s, a, layers = 12288, 2048, 96, 96
    whole = textbook.total_activations(*GPT3, 1, 1)
    assert whole == 2 * d * layers * s * (2 * 8 + 1) + a * layers * s * s * 5
    assert textbook.total_activations(*GPT3, 8, 1) == pytest.approx(
        2 * d * layers * s * (2 * (2 + 6 / 8) + 1) + a * layers * s * s * 5 / 8
    )
    assert textbook.total_activations(*GPT3, 8, 8) == pytest.approx(whole / 8)
    assert textbook.total_activations(*GPT3, 8, 1) / 2**30 == pytest.approx(51.75)
    assert textbook.total_activations(*GPT3, 8, 8) / 2**30 == pytest.approx(32.0625)


def test_7_4_1_causal_ring_attention():
    assert attention.ring_naive_pairs(8192, 4) == 14681088
    assert attention.ring_striped_pairs(8192, 4) == 8392704
    assert attention.ring_zigzag_pairs(8192, 4) == 8389632
    assert context.imbalance(Layout(cp=4.0, ring="naive"), 8192.0) == pytest.approx(14681088 / 8389632)
    assert context.imbalance(Layout(cp=4.0, ring="zigzag"), 8192.0) is None


@pytest.mark.parametrize("ring", ["naive", "striped"])
def test_busiest_rank_of_a_causal_ring_simulated(ring):
    """Each step a rank meets one block of keys; the step takes as long as its busiest rank."""
    s, r = 24, 4
    c = s // r
    at = (lambda rank, i: rank * c + i) if ring == "naive" else (lambda rank, i: i * r + rank)
    steps = [
        max(sum(at(rank, i) >= at((rank - shift) % r, j) for i in range(c) for j in range(c)) for rank in range(r))
        for shift in range(r)
    ]
    formula = attention.ring_naive_pairs if ring == "naive" else attention.ring_striped_pairs
    assert sum(steps) == formula(s, r)


def test_zigzag_ring_simulated():
    """Every rank holds an early and a late half chunk: all ranks do the same in every step."""
    s, r = 32, 4
    h = s // (2 * r)
    tokens = [[*range(rank * h, (rank + 1) * h), *range(s - (rank + 1) * h, s - rank * h)] for rank in range(r)]
    work = [
        [sum(q >= k for q in tokens[rank] for k in tokens[(rank - shift) % r]) for rank in range(r)]
        for shift in range(r)
    ]
    assert all(len(set(step)) == 1 for step in work)
    assert sum(step[0] for step in work) == attention.ring_zigzag_pairs(s, r)


def test_appendix_b_ring_volumes():
    assert f.gather_volume(1.0, 8) == 7 / 8
    assert f.all_reduce_volume(1.0, 8) == 14 / 8
