"""How far a replica strides: against counting step by step until a sequence ends, the pool is full, a token is sent, or something arrives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rooflinecli.simulate.replica import Replica


def replica(**changed: Any) -> Any:
    """Four sequences with 400 tokens in a pool of 1,000; the first ends 30 steps from now."""
    ends = [(130, 0, 0, SimpleNamespace(epoch=0))]
    state = {"limits": SimpleNamespace(stride=True), "ends": ends, "batch": 4, "tick": 100, "context": 400, "pool": 1000, "filling": 0, "pad": 0, "partial": [],
             "saved": 0, "unsent": [], "pause": float("inf"), "now": 0.0, "steps": 0, "poll": 1}  # fmt: skip
    return SimpleNamespace(**{**state, **changed})


@pytest.mark.parametrize(
    "changed, steps",
    [
        ({}, 30), ({"limits": SimpleNamespace(stride=False)}, 1), ({"pool": 500}, 25), ({"pool": 520}, 30), ({"pool": 519}, 29), ({"pool": 520, "filling": 4}, 29),
        ({"pool": 520, "pad": 2}, 28), ({"pool": 520, "pad": 2, "partial": [0, 0]}, 27), ({"pool": 500, "saved": 12}, 28), ({"pool": 400}, 1), ({"unsent": [(110,)]}, 10),
        ({"unsent": [(200,)]}, 30), ({"pause": 7.9}, 7), ({"pause": 0.0}, 1), ({"tick": 130}, 1),
    ],
)  # fmt: skip
def test_a_stride_ends_where_something_happens(changed: dict[str, Any], steps: int) -> None:
    assert Replica._longest_stride(replica(**changed)) == steps


def test_long_strides_keep_to_an_eighth_of_the_context_and_ends_of_lost_places_are_passed_over() -> None:
    far = [(10_000, 0, 0, SimpleNamespace(epoch=0))]
    assert Replica._longest_stride(replica(ends=list(far), pool=10**9)) == 64
    assert Replica._longest_stride(replica(ends=list(far), pool=10**9, context=4 * 8 * 100)) == 100
    lost = [(105, 0, 0, SimpleNamespace(epoch=1)), (140, 0, 0, SimpleNamespace(epoch=0))]
    assert Replica._longest_stride(replica(ends=lost)) == 40 and len(lost) == 1


@given(
    st.floats(0.001, 50),
    st.floats(0.01, 2),
    st.sampled_from([0.0, 1e-3, 0.3]),
    st.integers(1, 5),
    st.integers(0, 7),
    st.integers(1, 200),
)
def test_steps_before_an_event_are_those_that_begin_before_it(
    left: float, first: float, slope: float, poll: int, done: int, most: int
) -> None:
    """Steps take first, first + slope, ...; the queue is looked at every `poll` steps."""
    starts = [0.0]
    while starts[-1] < left:
        starts.append(starts[-1] + first + slope * (len(starts) - 1))
    assume(all(abs(start - left) > 1e-6 for start in starts))
    steps = len(starts) - 1
    steps += -(done + steps) % poll
    one = replica(now=3.0, steps=done, poll=poll)
    assert Replica._steps_before(one, 3.0 + left, first, slope, most) == min(steps, most)
    assert (
        Replica._steps_before(one, 2.0, first, slope, 10**6)
        == Replica._steps_before(one, 3.0, first, slope, 10**6)
        == 1 + -(done + 1) % poll
    )
