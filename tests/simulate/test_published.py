"""Percentiles of published runs: the rows are whole, and what is scored is what they state."""

from __future__ import annotations

import pytest

from lab import percentiles
from rooflinecli.specs.snapshots import published


def test_a_row_states_percentiles_in_their_order():
    for row in published("percentiles")["rows"]:
        stated = [name for name in percentiles.NAMES if name in row]
        assert stated and ("qps" in row) != ("concurrency" in row), row
        for name in stated:
            mean, half, most = row[name]
            assert half > 0 and (mean is None or mean > 0) and (most is None or half <= most), row


def test_both_readings_of_an_unstated_layout_are_scored():
    rows = published("percentiles")["rows"]
    readings = {row["assumed"] for row in rows if "assumed" in row}
    assert readings == {"tp 4", "tp 8"}
    by = [{(row["qps"], tuple(row["e2e"])) for row in rows if row.get("assumed") == reading} for reading in readings]
    assert by[0] == by[1]


def test_a_line_is_the_errors_of_a_group_by_hand():
    """Two runs, one of which states no p99: 10 % high and 20 % low in the mean, the p99 of the other alone."""
    base = {"engine": "vllm", "concurrency": 8}
    found = [
        ({**base, "ttft": [1.0, 1.0, 2.0]}, {"ttft_mean_s": 1.1, "ttft_p50_s": 1.0, "ttft_p99_s": 3.0}),
        ({**base, "ttft": [1.0, 1.0, None]}, {"ttft_mean_s": 0.8, "ttft_p50_s": 1.0, "ttft_p99_s": 9.0}),
        (
            {**base, "engine": "sglang", "ttft": [1.0, 1.0, 1.0]},
            {"ttft_mean_s": 5.0, "ttft_p50_s": 5.0, "ttft_p99_s": 5.0},
        ),
    ]
    mean = percentiles._line(found, "mean", "vllm, closed loop", "ttft")
    assert mean["rows"] == 2 and mean["mean"] == pytest.approx(0.15)
    most = percentiles._line(found, "p99", "vllm, closed loop", "ttft")
    assert most["rows"] == 1 and most["mean"] == pytest.approx(0.5)
    assert percentiles._line(found, "p99", "vllm, closed loop", "itl") is None
