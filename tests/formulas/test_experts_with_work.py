"""Experts of a rank that have work, where routing is balanced: as many as there are slots, and never more than it holds."""

from __future__ import annotations

import pytest

from rooflinecli.formulas.grouped_gemm import experts_with_work_balanced


@pytest.mark.parametrize(("slots", "with_work"), [(1.0, 1.0), (3.0, 3.0), (8.0, 8.0), (9.0, 8.0), (512.0, 8.0)])
def test_every_slot_is_another_expert_until_all_have_work(slots, with_work):
    assert experts_with_work_balanced(8.0, slots) == with_work
