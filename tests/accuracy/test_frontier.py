"""Published fronts of serving and ours: the arithmetic of a rate per device, and a table that says how far off it is."""

from __future__ import annotations

import pytest

from lab import search_vs_tuned
from rooflinecli.specs.snapshots import published

ROWS = {row["id"]: row for row in published("pareto")["rows"]}


def test_every_point_has_a_source_and_a_speed() -> None:
    assert len(ROWS) >= 14
    for row in ROWS.values():
        assert row["source"].startswith("https://inferencex") and row["tokens_per_s_per_user"] > 0
        assert {"model", "hardware", "prompt", "output", "total_tokens_per_s_per_device"} <= row.keys()


def test_both_kinds_of_tokens_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One device answers 100 requests a second of 8 tokens read and 1 written: 900 tokens; pools of 32 devices 4,800: 1,350 on each."""
    asked = []

    def search(options, goal, where, limits, top):
        asked.append({**options, **limits})
        pool = {"requests_per_s": 4800.0, "devices": 32.0}
        return {"results": [{"serve": {"requests_per_s": 200.0, "devices": 2.0}}], "pool_rows": [pool]}

    monkeypatch.setattr(search_vs_tuned, "search", search)
    row = {"model": "m", "hardware": "h", "prompt": 8, "output": 1, "tokens_per_s_per_user": 50}
    assert search_vs_tuned.reached({**row, "total_tokens_per_s_per_device": 450}) == pytest.approx((2.0, 3.0))
    assert [one["n"] for one in asked] == ["8", "32"] and all(
        one["itl"] == 0.02 and "dtype" not in one for one in asked
    )
    monkeypatch.setattr(search_vs_tuned, "search", lambda *a: {"results": [], "pool_rows": []})
    assert search_vs_tuned.reached({**row, "total_tokens_per_s_per_device": 450}) == (0.0, 0.0)


@pytest.mark.slow
def test_faster_for_a_user_is_less_for_a_device(reached) -> None:
    """Along a front our rate falls too, and what no layout reaches is counted apart."""
    slow, fast = (ROWS[f"inferencex-deepseek-r1-b200-fp8-1024x1024-i{speed}"] for speed in (42, 100))
    ours = [reached(row)[0] * row["total_tokens_per_s_per_device"] for row in (slow, fast)]
    assert ours[0] > ours[1] > 0
    line = search_vs_tuned._front_line("front", [(0.0, 0.5), (0.5, 0.0), (2.0, 1.5)])
    assert (line["points"], line["reached"]) == (3, 2)
    assert (line["over_least"], line["over_most"], line["over"], line["over_apart"]) == (-0.5, 1.0, 0.25, 0.0)
