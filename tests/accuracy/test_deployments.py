"""Experts over many devices, against what DeepSeek and SGLang published of theirs: never fitted, within 30 %."""

from __future__ import annotations

import pytest

from rooflinecli.specs.snapshots import published
from rooflinecli.validate import inference

ROWS = {row["id"]: row for row in published("deployments")["rows"]}


@pytest.mark.parametrize("name", ROWS)
def test_a_published_deployment_is_met(name: str) -> None:
    p = inference.deployment_points(ROWS[name])
    assert p.expected[0] == pytest.approx(p.measured[0], rel=0.30)
    assert p.low[0] <= p.measured[0] <= p.high[0] <= p.floor[0]


def test_every_deployment_keeps_its_source_and_its_layout() -> None:
    for row in ROWS.values():
        assert row["source"] in {"deepseek-day6", "sglang-96"} and row["plan"]["attention-dp"]
