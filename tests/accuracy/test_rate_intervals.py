"""Every rate has an interval, and what follows a rate has the rate's rather than its time's."""

from __future__ import annotations

import pytest

from rooflinecli.engine.build_request import request
from rooflinecli.interfaces.python import api
from rooflinecli.questions.conditions import ends
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


# tables of published runs that no constant was fitted to: title, group, least rows
UNSEEN = [
    ("inference: published, throughput at the batch that memory allows", "dense, never seen", 60),
    ("inference: published, throughput at the batch that memory allows", "MoE, never seen", 20),
    ("inference: published, inter-token latency", "one sequence, never seen", 12),
    ("inference: published, time to first token", "one sequence, never seen", 12),
    *(
        (f"inference: published, other releases and machines, {quantity}", "never seen", rows)
        for quantity, rows in (
            ("throughput at the batch that memory allows", 700),
            ("inter-token latency", 35),
            ("time to first token", 45),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("title", "group", "rows"), UNSEEN)
def test_an_80_percent_interval_holds_four_of_five_measurements_that_no_fit_saw(lines, title, group, rows) -> None:
    row = lines("inference", title)[group]
    assert row["rows"] >= rows and row["coverage"] >= 0.75
    assert row["mean"] < row["floor_mean"]


def width(hw: str = "h100", **options: object) -> float:
    """Expected over pessimistic tokens per second."""
    asked = {"n": 1, "phase": "decode", "prompt": 500, "output": 100, **options}
    found = api.estimate("llama-3-8b", hw, **asked)["phases"]["decode"]
    return found["tokens_per_s"] / found["tokens_per_s_interval"][0]


def test_an_interval_is_wider_where_less_was_measured() -> None:
    """A batch on a server that fits saw; one sequence; a card that no serving fit saw; weights in a format of few runs."""
    assert 1 < width(batch=2) == width(concurrency=8) < width(batch=1)
    assert width(concurrency=8) < width("rtx-4090", weight_dtype="int8", concurrency=8)
    assert width(batch=1) < width(batch=1, weight_dtype="int4")


@pytest.mark.slow
def test_the_width_of_a_throughput_is_that_of_the_misses_of_published_servers(lines) -> None:
    """Nine of ten misses of 185 dense throughputs on fitted servers lie within 1.25 times the half width, and half within it."""
    row = lines("inference", "inference: published, throughput at the batch that memory allows")["dense, fitted"]
    half = width(concurrency=8) - 1
    assert row["median"] < half and row["p90"] < 1.25 * half and row["rows"] == 185


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
