"""A sweep whose first rate is not sustained has its rows, as an estimate has an answer."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("rates", ["2.497", "2.497,1"])
def test_a_rate_that_is_not_sustained_is_a_row(cli: Any, rates: str) -> None:
    asked = "qwen2.5-32b --hw tpu-v5e --prompt 2745 --output 697 --engine trtllm -n 8 --tp 8 --pp 1 --dp 1 --ep 1 --phase decode".split()
    points = cli("sweep", *asked, "--qps", rates, "--columns", "decode.time_s", "--format", "json").json["points"]
    assert [point["feasible"] for point in points] == [False, True][: len(points)]
    assert len(points) == len(rates.split(",")) and points[0]["violation"]
