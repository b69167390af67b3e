"""Ranges as written, the order of points, boxes and shards."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.core.errors import UsageError
from rooflinecli.questions import conditions
from rooflinecli.questions.sweep import axes, run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", [3]),
        ("1..4", [1, 2, 3, 4]),
        ("1..10/4", [1, 5, 9]),
        ("1..8x2", [1, 2, 4, 8]),
        ("1..100x10", [1, 10, 100]),
        ("4,1,4", [4, 1]),
        ("1,2,8..10,16..64x2", [1, 2, 8, 9, 10, 16, 32, 64]),
        ("1..512/8", list(range(1, 513, 8))),
        ("0.1..0.3/0.1", [0.1, 0.2, 0.30000000000000004]),
        ("1..7x2", [1, 2, 4]),
        ("8..8", [8]),
    ],
)
def test_ranges(text: str, expected: list[float]) -> None:
    assert list(axes.values("--batch", text, float)) == expected


@pytest.mark.parametrize(
    "text", ["4..1", "1..", "..4", "1..4/0", "1..8x1", "0..8x2", "1..1e10", "a..b", "1..8xtwo", ""]
)
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises((UsageError, ValueError)):
        axes.values("--batch", text, float)


def space(**options: Any) -> axes.Space:
    figures = options.pop("set_", None)
    return axes.space({"model": "gpt2", "hw": "h100", **options}, figures)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory.bandwidth=2..3/0.5 TB/s", (2e12, 2.5e12, 3e12)),
        ("memory.bandwidth=3 TB/s,4 TB/s", (3e12, 4e12)),
        ("peak.bf16=x1,x2", (1, 2)),
        ("peak.bf16=x1..4x2", (1, 2, 4)),
        ("efficiency.matmul.compute=0.5,0.75", (0.5, 0.75)),
        ("efficiency.matmul.overhead=1 us,2 us", (1e-6, 2e-6)),
        ("network.0.bandwidth=100..400x2 GB/s", (1e11, 2e11, 4e11)),
    ],
)
def test_hardware_figures(text: str, expected: tuple[float, ...]) -> None:
    assert space(set_=[text]).sizes[-1].values == pytest.approx(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"set_": ["memory.speed=1 TB/s"]},
        {"set_": ["memory.bandwidth=1"]},
        {"set_": ["memory.bandwidth"]},
        {"set_": ["efficiency.matmul=1"]},
        {"set_": ["memory.bandwidth=0 TB/s"]},
        {"batch": "0"},
        {"batch": "1M-tokens,8"},
        {"zero": "5"},
        {"recompute": "some"},
        {"flash": "perhaps"},
        {"utilisation": "2"},
        {"phase": "sleep"},
        {"tp": "1.5"},
        {"wheels": "4"},
        {"concurrency": "max,4"},
    ],
)
def test_wrong_axes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        space(**options)


shapes = st.lists(st.integers(1, 6), max_size=4).map(tuple)


@given(shapes, st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 50))
def test_boxes_cover_a_run_of_points_once_and_in_order(shape: tuple[int, ...], a: int, b: int, limit: int) -> None:
    points = list(itertools.product(*map(range, shape)))
    start, stop = sorted((a % (len(points) + 1), b % (len(points) + 1)))
    found: list[tuple[int, ...]] = []
    for box in run.boxes(shape, start, stop, limit):
        part = list(itertools.product(*(range(*side) for side in box)))
        assert len(part) <= limit
        found += part
    assert found == points[start:stop]


@given(st.integers(0, 10**9), st.integers(1, 200))
def test_shards_concatenate_to_the_whole(points: int, count: int) -> None:
    parts = [run.shard(points, f"{i}/{count}") for i in range(1, count + 1)]
    assert parts[0][0] == 0 and parts[-1][1] == points
    assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
    assert max(b - a for a, b in parts) - min(b - a for a, b in parts) <= 1


@pytest.mark.parametrize("text", ["0/4", "5/4", "a/b", "3", "1/0", "-1/2"])
def test_wrong_shards_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        run.shard(10, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("decode.time_s <= 40 ms", 0.04),
        ("decode.time_s<=0.04", 0.04),
        ("decode.memory.total_bytes < 70 GB", 7e10),
        ("train.mfu >= 40 %", 0.4),
        ("train.tokens_per_s > 2Mtok/s", 2e6),
        ("cost.training_usd <= 9 MUSD", 9e6),
        ("phases.decode.time_s != 1", 1.0),
    ],
)
def test_conditions(text: str, value: float) -> None:
    found = conditions.condition(text)
    assert math.isclose(found.limit, value) and not found.quantity.startswith("phases.")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["decode.time_s", "decode.time_s <= 40 GB", "<= 4", "decode.time_s <= soon"])
def test_wrong_conditions_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        conditions.condition(text)
