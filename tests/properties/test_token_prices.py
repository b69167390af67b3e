"""Input and output tokens at their prices add up to what the server costs, in every verb."""

from __future__ import annotations

import random

import pytest
from conftest import run_cli

from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate

MODELS = ("llama-3.1-8b", "mistral-7b-v0.1", "olmoe-1b-7b", "llama-3.3-70b", "phi-3-mini-4k")
CHIPS = ("h100", "h200", "a100", "mi300x")
IN, OUT, BOTH = (f"usd_per_million_{kind}tokens" for kind in ("input_", "output_", ""))


def question(seed: int) -> dict[str, object]:
    draw = random.Random(seed)
    asked: dict[str, object] = {
        "model": draw.choice(MODELS), "hw": draw.choice(CHIPS), "price": round(draw.uniform(0.5, 9), 2), "n": 4, "tp": 4,
        "prompt": draw.randrange(32, 3000), "output": draw.randrange(1, 900), "utilization": draw.choice((1.0, 0.6)),
    }  # fmt: skip
    if draw.random() < 0.5:
        return asked | {"concurrency": draw.randrange(1, 24)}
    return asked | {"qps": round(draw.uniform(0.05, 2), 3)}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(40))
def test_an_estimate_adds_up_to_the_server(seed: int) -> None:
    asked = question(seed)
    answer = estimate(build_request.request(asked | {"phase": "prefill,decode"}))
    per_s = float(answer.phases["decode"].tokens_per_s) / asked["output"]
    server = 4 * asked["price"] / 3600 / per_s / asked["utilization"]
    cost = answer.cost
    parts = (cost[IN] * asked["prompt"] + cost[OUT] * asked["output"]) / 1e6
    assert parts == pytest.approx(server, rel=1e-9) and cost[IN] > 0 and cost[OUT] > 0
    assert cost[BOTH] * (asked["prompt"] + asked["output"]) / 1e6 == pytest.approx(server, rel=1e-9)
    for phase, name in (("prefill", IN), ("decode", OUT)):
        alone = estimate(build_request.request(asked | {"phase": phase})).cost
        assert alone[name] == pytest.approx(cost[name], rel=1e-12)


def test_a_static_batch_pays_for_a_prefill_and_its_decode_steps() -> None:
    asked = {"model": "llama-3.1-8b", "hw": "h100", "price": 3, "prompt": 1000, "output": 100, "batch": 8}
    answer = estimate(build_request.request(asked | {"phase": "prefill,decode", "n": 1}))
    prefill, decode = answer.phases["prefill"], answer.phases["decode"]
    seconds = 1000 / prefill.tokens_per_s + 100 * decode.time_s / 8
    assert answer.cost[BOTH] * 1100 / 1e6 == pytest.approx(3 / 3600 * seconds)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "command",
    [
        "search llama-3.1-8b --hw h100 -n 4 --phase decode --prompt 900 --output 200 --batch 1..64x2",
        "search llama-3.1-8b --hw h100 --qps 9 --phase decode --prompt 900 --output 200 --batch 1..64x2",
        "simulate llama-3.1-8b --hw h100 --qps 2 --num-requests 80 --prompt 900 --output 200",
        "simulate llama-3.1-8b --hw h100 --concurrency 8 --num-requests 80 --prompt 900 --output 200",
    ],
)
def test_every_verb_adds_up(command: str) -> None:
    ran = run_cli(*command.split(), "--format", "json")
    assert ran.code == 0, ran.err
    answer = ran.json
    if "simulate" in answer:
        run = answer["simulate"]
        hourly = (run[IN] * run["input_tokens_per_s"] + run[OUT] * run["output_tokens_per_s"]) * 3600 / 1e6
        assert hourly == pytest.approx(3 * run["devices"])
        assert run[BOTH] * (run["input_tokens_per_s"] + run["output_tokens_per_s"]) * 3600 / 1e6 == pytest.approx(
            hourly
        )
        return
    rows = [(row["serve"], row["serve"]["devices"] * 3) for row in answer["results"]]
    rows += [(row, row["usd_per_hour"]) for row in answer["pool_rows"]]
    for serve, hourly in rows:
        request = (serve[IN] * 900 + serve[OUT] * 200) / 1e6
        assert request == pytest.approx(serve[BOTH] * 1100 / 1e6)
        assert request * serve["requests_per_s"] * 3600 == pytest.approx(hourly)
