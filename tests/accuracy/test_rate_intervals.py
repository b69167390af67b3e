"""Every rate has an interval, and what follows a rate has the rate's rather than its time's."""

from __future__ import annotations

import pytest

from rooflinecli.engine.build_request import request
from rooflinecli.interfaces.python import api
from rooflinecli.questions.check.interval_bounds import ends
from rooflinecli.questions.estimate.answer import estimate

SERVED = {"model": "llama-3-8b", "hw": "h100", "n": 1}


@pytest.mark.parametrize("load", [{}, {"concurrency": 16}, {"concurrency": "max"}, {"qps": 2}], ids=str)
@pytest.mark.parametrize("model", ["llama-3-8b", "mixtral-8x7b"])
def test_every_phase_has_one(model: str, load: dict) -> None:
    answer = api.estimate(model, "h200", n=2, prompt=1000, output=200, phase="prefill,decode", **load)
    for phase in answer["phases"].values():
        low, high = phase["tokens_per_s_interval"]
        rate = phase["tokens_per_s"]
        assert low < rate < high
        assert high <= rate * phase["time_s"] / phase["floor_s"] * (1 + 1e-12)


def test_training_has_one_too() -> None:
    step = api.estimate("llama-3-8b", "h100", n=8, phase="train")["phases"]["train"]
    low, high = step["interval_s"]
    assert step["tokens_per_s_interval"] == pytest.approx(
        [step["tokens_per_s"] * step["time_s"] / t for t in (high, low)]
    )


def test_a_loop_has_the_error_of_its_throughput_and_a_first_token_its_own() -> None:
    """x/÷ 1.15 of a dense server; a single sequence without one x/÷ 1.25; a chip that no fit saw x/÷ 1.35."""

    def width(hw: str = "h100", **options: object) -> float:
        found = api.estimate("llama-3-8b", hw, n=1, phase="decode", prompt=500, output=100, **options)["phases"][
            "decode"
        ]
        return found["tokens_per_s"] / found["tokens_per_s_interval"][0]

    assert width(concurrency=8) == pytest.approx(1.15)
    assert width(batch=1) == pytest.approx(1.25)
    assert width(batch=2) == pytest.approx(1.15)
    assert width("rtx-4090", weight_dtype="int8", concurrency=8) == pytest.approx(1.35)
    assert width(batch=1, weight_dtype="int4") == pytest.approx(1.5)


def test_a_check_and_a_cost_follow_the_rate() -> None:
    found = estimate(request({**SERVED, "phase": "prefill,decode", "concurrency": 64, "price": "3 USD/h"}))
    decode = found.phases["decode"]
    rate = ends(found, "decode.tokens_per_s")
    assert (rate.low, rate.high) == pytest.approx(decode.tokens_per_s_interval)
    money = ends(found, "cost.usd_per_million_output_tokens")
    paid = [money.expected * decode.tokens_per_s / r for r in decode.tokens_per_s_interval]
    assert (money.high, money.low) == pytest.approx(paid)
    time = ends(found, "decode.time_s")
    assert (time.low, time.high) == pytest.approx(decode.interval_s)
