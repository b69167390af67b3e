"""Routed experts by hand: who has which rows, what is moved, and where the rules of thumb end."""

from __future__ import annotations

import pytest

from rooflinecli.formulas import grouped_gemm as f


def test_the_busiest_rank_has_a_row_where_there_is_one() -> None:
    """64 slots over 16 ranks, the busiest with twice its share: eight rows. Half a slot on 16 ranks is half a row on the busiest."""
    assert f.expert_rows(64.0, 16.0, 2.0) == 8 == f.rows_of_busiest(8.0, 64.0)
    assert f.rows_of_busiest(f.expert_rows(2.0, 16.0, 1.0), 2.0) == 1
    assert f.rows_of_busiest(f.expert_rows(0.5, 16.0, 1.0), 0.5) == 0.5


def test_experts_of_the_busiest_rank() -> None:
    """One token with eight experts over four ranks: two of them each on average; no more experts than rows, one at least."""
    assert f.of_one_token(1.0, 8.0, 4.0) == f.of_one_token(9.0, 8.0, 4.0) == 2 and f.of_one_token(0.5, 8.0, 4.0) == 1
    assert f.experts_of_busiest(1.5, 2.0, 3.0) == 2 and f.experts_of_busiest(5.0, 2.0, 3.0) == 3
    assert f.experts_of_busiest(0.2, 0.1, 3.0) == 1


def test_what_experts_move_and_multiply() -> None:
    """Twelve rows of tokens with four experts each: three tokens of 100 values, one byte in and two out; five experts of 3 x 100 x 10."""
    assert f.expert_token_bytes(12.0, 4.0, 100.0, 1.0, 2.0) == 900
    assert f.expert_weight_bytes(5.0, 3.0, 100.0, 10.0, 0.5) == 7500 and f.expert_flops(12.0, 3.0, 100.0, 10.0) == 72000
    assert f.slot_passes_time(2.0, 100.0, 10.0, 5.0, 1000.0) == pytest.approx(2 * 2 * 110 * 5 / 1000)


def test_slots_passed_over_and_starts() -> None:
    """A kernel that permutes its own 30 slots looks at a tenth of 200 in addition, one that masks passes over all; 256 slots are half way to a whole start."""
    assert f.slots_passed(30.0, 200.0, 0.0) == pytest.approx(50) and f.slots_passed(30.0, 200.0, 1.0) == pytest.approx(
        200
    )
    assert f.slots_passed(30.0, 200.0, 0.5) == pytest.approx(0.5 * 30 + 0.55 * 200)
    assert f.expert_starts(8.0, 256.0, 0.5, 32.0, 0.01, 100.0, 10.0) == pytest.approx(4 * 1.5 + 16 + 1.1)


def test_constants_as_serving_sees_them() -> None:
    assert f.as_served(0.5, 1.5, 0.9) == 0.75 and f.as_served(0.8, 1.5, 0.9) == 0.9
    assert [f.crowded(n) for n in (1.0, 299.0, 300.0, 301.0)] == [0, 0, 1, 1]
    assert f.as_crowded(0.6, 0.5, 1.0) == pytest.approx(0.3) and f.as_crowded(0.6, 0.5, 0.0) == 0.6


def test_groups_and_their_bounds() -> None:
    """A bound below belongs to the next smaller group, one above to its own."""
    assert [f.uses(n, 8.0, 72.0) for n in (8.0, 9.0, 72.0, 73.0)] == [0, 1, 1, 0]
    assert [f.exchanging(n, 8.0) for n in (1.0, 2.0)] == [1, 16]
