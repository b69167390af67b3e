"""When a rate leaves a replica behind: by a share of what is under way, however little or much that is."""

from __future__ import annotations

import pytest

from rooflinecli.engine.serving_load import BEHIND, is_unstable


@pytest.mark.parametrize(
    ("excess", "batch", "behind"),
    [
        (0.5, 1000.0, False),  # half a sequence of a thousand is the search's error
        (2.0, 1000.0, True),
        (0.002, 1.0, True),
        (0.0005, 1.0, False),
        (1e-5, 1e-3, True),  # a rate of next to nothing
        (1e-7, 1e-3, False),
        (-3.0, 10.0, False),
    ],
)
def test_a_thousandth_is_the_line(excess, batch, behind):
    assert BEHIND == 1e-3
    assert is_unstable(excess, batch) is behind
