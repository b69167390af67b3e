"""Experts of a rank that have work, where routing is balanced: as many as there are slots, and never more than it holds."""

from __future__ import annotations

import pytest

from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, experts_op


@pytest.mark.parametrize(("slots", "with_work"), [(1.0, 1.0), (3.0, 3.0), (8.0, 8.0), (9.0, 8.0), (512.0, 8.0)])
def test_every_slot_is_another_expert_until_all_have_work(slots, with_work):
    shape, stored = ExpertShape(64.0, 128.0, 3.0, 8.0, 1.0), ExpertStorage(2.0, 2.0, 2.0, "bf16", "")
    routed = experts_op("experts", slots, shape, stored, 1.0, 1.0, even=True).routed
    assert routed is not None and routed.active == with_work
