"""Layouts one move away from another: what a question leaves open, and nothing that it names."""

from __future__ import annotations

from typing import Any

import pytest

from rooflinecli.engine import build_request, training_layout
from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs.layout import Layout

START = {
    "tp": 2.0,
    "pp": 2.0,
    "dp": 8.0,
    "ep": 2.0,
    "micro_batch": 2.0,
    "virtual_stages": 2.0,
    "zero": 1,
    "recompute": "none",
    "sequence_parallel": True,
}


def moves(model: str = "mixtral-8x7b", start: dict[str, Any] = START, **given: Any) -> list[dict[str, Any]]:
    """What each neighbor changes."""
    ctx = EstimateContext(
        build_request.request(
            {"model": model, "hw": "h100", "phase": "train", "n": 32, "batch": 128, "seq": 2048, **given}
        )
    )
    layout = Layout(**start)
    found = list(training_layout.neighbors(ctx, layout))
    return [{name: value for name, value in one.__dict__.items() if value != getattr(layout, name)} for one in found]


def alone(found: list[dict[str, Any]], name: str) -> list[Any]:
    return [change[name] for change in found if set(change) == {name}]


def test_each_size_moves_by_itself() -> None:
    found = moves()
    assert sorted(alone(found, "ep")) == [
        1,
        4,
        8,
    ]  # of divisors of dp that divide eight experts, within a factor of four
    assert sorted(alone(found, "micro_batch")) == [1, 4, 8]  # of divisors of sixteen sequences
    assert alone(found, "sequence_parallel") == [False] and sorted(alone(found, "zero")) == [0, 2, 3]
    assert sorted(alone(found, "virtual_stages")) == [1, 4, 8, 16]  # equal chunks of the 16 layers of a stage
    assert (
        "full" in alone(found, "recompute")
        and {"recompute": "full", "micro_batch": 4.0} in found
        and {"recompute": "full", "micro_batch": 16.0} in found
    )
    assert {"zero": 3, "micro_batch": 4.0} in found and {"zero": 3, "micro_batch": 8.0} not in found
    assert {"zero": 3, "shard": 4.0} in found  # replicas of two ranks inside a host of eight


@pytest.mark.parametrize(
    "name, value",
    [
        ("ep", 2),
        ("micro_batch", 2),
        ("zero", 1),
        ("recompute", "none"),
        ("sequence_parallel", True),
        ("virtual_stages", 2),
    ],
)
def test_what_is_named_stays(name: str, value: Any) -> None:
    assert not any(name in change for change in moves(**{name: value}))


def test_axes_exchange_prime_factors() -> None:
    found = moves("llama-3-8b", {**START, "ep": 1.0})
    sizes = {tuple(change.get(axis, START.get(axis, 1.0)) for axis in ("tp", "pp", "cp", "dp")) for change in found}
    assert {
        (4, 1, 1, 8),
        (1, 4, 1, 8),
        (4, 2, 1, 4),
        (1, 2, 1, 16),
        (2, 1, 2, 8),
        (2, 1, 1, 16),
        (2, 4, 1, 4),
        (2, 2, 2, 4),
        (1, 2, 2, 8),
    } <= sizes
    assert all(tp * pp * cp * dp == 32 for tp, pp, cp, dp in sizes)
    named = moves("llama-3-8b", {**START, "ep": 1.0}, tp=2)
    assert not any("tp" in change for change in named) and any("dp" in change for change in named)
    one = [change for change in found if change.get("tp") == 1.0 and change.get("dp") == 16.0]
    assert one and all(change["sequence_parallel"] is False for change in one)  # of one tensor rank it is nothing


def test_experts_of_a_dense_model_do_not_move() -> None:
    assert not any("ep" in change for change in moves("llama-3-8b", {**START, "ep": 1.0}))


def test_what_depends_on_the_axes_follows_them() -> None:
    ctx = EstimateContext(
        build_request.request(
            {"model": "mixtral-8x7b", "hw": "h100", "phase": "train", "n": 32, "batch": 24, "seq": 2048}
        )
    )
    made = training_layout._consistent(
        ctx, Layout(**{**START, "dp": 4.0, "tp": 1.0, "ep": 8.0, "micro_batch": 4.0, "shard": 8.0})
    )
    assert (made.micro_batch, made.sequence_parallel, made.virtual_stages, made.ep, made.shard, made.zero) == (
        3,
        False,
        1,
        4,
        None,
        1,
    )
    kept = training_layout._consistent(ctx, Layout(**{**START, "dp": 8.0, "micro_batch": 3.0, "shard": 4.0}))
    assert (kept.micro_batch, kept.ep, kept.shard) == (3, 2, 4)
    assert training_layout._consistent(ctx, Layout(**{**START, "dp": 1.0, "ep": 1.0})).zero == 0


@pytest.mark.parametrize(("micro", "moved"), [(1.0, [11]), (11.0, [1, 13]), (13.0, [11, 143]), (143.0, [13])])
def test_a_batch_with_few_divisors_moves_to_the_next_one_however_far(micro: float, moved: list[int]) -> None:
    """143 sequences of a replica: divisors 1, 11, 13 and 143."""
    start = {"dp": 2.0, "micro_batch": micro, "zero": 1, "sequence_parallel": False}
    assert sorted(alone(moves("llama-3-8b", start, n=2, batch=286), "micro_batch")) == moved
