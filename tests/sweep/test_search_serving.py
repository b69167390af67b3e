"""Serving search against `estimate` asked point by point, its limits, its pools."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.search.question import Search
from rooflinecli.questions.search.serving import search
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

BASE = {"model": "llama-3-8b", "hw": "h100", "prompt": "1k", "output": "128"}


def ask(
    goal: str | None = None,
    where: tuple[str, ...] = (),
    top: int = 5,
    ttft: float | None = None,
    itl: float | None = None,
    qps: float | None = None,
    **options: Any,
) -> dict[str, Any]:
    limits = {name: limit for name, limit in {"ttft": ttft, "itl": itl, "qps": qps}.items() if limit is not None}
    return search({**BASE, **options}, goal, list(where), limits, top)


def by_hand(tp: int, pp: int, batch: int) -> EstimateAnswer:
    return estimate(
        Request(
            load_model(BASE["model"]),
            load_hardware(BASE["hw"]),
            phases=("prefill", "decode"),
            devices=tp * pp,
            tp=tp,
            pp=pp,
            dp=1,
            prompt=1024.0,
            output=128.0,
            concurrency=float(batch),
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 0.012])
def test_search_equals_brute_force(limit: float | None) -> None:
    best = math.inf
    for tp, pp, batch in itertools.product((1, 2, 4), (1, 2), range(1, 41)):
        result = by_hand(tp, pp, batch)
        if result.feasible and (limit is None or result.phases["decode"].interval_s[1] <= limit):
            best = min(best, result.cost.usd_per_million_tokens)
    found = ask("cost", tp="1,2,4", pp="1,2", batch="1..40", itl=limit)
    assert found["results"][0]["score"]["serve.usd_per_million_tokens"] == pytest.approx(best, rel=1e-14)


@pytest.mark.slow
def test_every_row_is_an_estimate() -> None:
    for row in ask("throughput", ttft=0.2, itl=0.02)["results"]:
        layout, serve = row["layout"], row["serve"]
        result = by_hand(layout["tp"], layout["pp"], layout["batch"])
        assert serve["ttft_s"] == pytest.approx(result.phases["prefill"].time_s, rel=1e-14)
        assert serve["itl_s"] == pytest.approx(result.phases["decode"].time_s, rel=1e-14)
        prefill, decode = (result.phases[phase].interval_s[1] for phase in ("prefill", "decode"))
        assert result.feasible and prefill <= 0.2 and decode <= 0.02
        assert row["limits_at_bound"] == pytest.approx({"serve.ttft_s": prefill, "serve.itl_s": decode}, rel=1e-14)


@pytest.mark.slow
def test_fewest_devices_carry_the_rate_and_one_fewer_instance_does_not() -> None:
    best = ask(qps=40, itl=0.03, ttft=0.4)["results"][0]["serve"]
    assert best["requests_per_s"] >= 40
    found = ask(qps=40, itl=0.03, ttft=0.4)["results"][0]["layout"]
    low = by_hand(found["tp"], found["pp"], found["batch"]).phases["decode"].tokens_per_s_interval[0] / 128
    assert best["instances"] * low >= 40 > (best["instances"] - 1) * low
    assert ask(qps=80, itl=0.03, ttft=0.4)["results"][0]["serve"]["devices"] >= best["devices"]


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["pessimistic", "expected", "floor"])
def test_limits_hold_at_the_bound_that_ranks(bound: str) -> None:
    """The command of the winner, asked again, keeps to the limits at the bound; the row prints that number."""
    found = search(
        {"model": "llama-3.3-70b", "hw": "h100", "n": "16", "prompt": "2048", "output": "512", "bound": bound},
        None,
        ["decode.memory.headroom_fraction >= 5 %"],
        {"ttft": 2.0, "itl": 0.04, "qps": 2.0},
        1,
    )
    (row,) = found["results"]
    phases = estimate(
        Request(
            load_model("llama-3.3-70b"),
            load_hardware("h100"),
            phases=("prefill", "decode"),
            devices=row.layout.devices,
            **{axis: float(row.layout[axis]) for axis in ("tp", "pp", "dp", "ep")},
            prompt=2048.0,
            output=512.0,
            concurrency=row.layout.batch,
        )
    ).phases
    first, other = (
        {"pessimistic": p.interval_s[1], "expected": p.time_s, "floor": p.floor_s}[bound]
        for p in (phases["prefill"], phases["decode"])
    )
    assert first <= 2 and other <= 0.040
    assert row.limits_at_bound is not None
    assert row.limits_at_bound["serve.ttft_s"] == pytest.approx(first, rel=1e-14)
    assert row.limits_at_bound["serve.itl_s"] == pytest.approx(other, rel=1e-14)
    assert row.limits_at_bound["serve.requests_per_s"] >= 2


@pytest.mark.slow
def test_a_tighter_limit_never_helps() -> None:
    costs = [ask("cost", itl=itl)["results"][0]["score"]["serve.usd_per_million_tokens"] for itl in (0.05, 0.02, 0.012)]
    assert costs == sorted(costs)


def test_pools_meet_their_limits_and_no_split_by_hand_is_better() -> None:
    found = ask("throughput", n="16", tp="1,2", pp="1", ttft=0.2, itl=0.02, batch="1..64")["pools"]
    assert found["devices"] <= 16
    assert found["prefill"]["latency_at_bound_s"] <= 0.2 and found["decode"]["latency_at_bound_s"] <= 0.02
    best = 0.0
    spec, chip = load_model(BASE["model"]), load_hardware(BASE["hw"])
    options: dict[str, list[tuple[int, float]]] = {"prefill": [], "decode": []}
    for tp, batch in itertools.product((1, 2), range(1, 65)):
        result = estimate(
            Request(
                spec,
                chip,
                phases=("prefill", "decode"),
                devices=tp,
                tp=tp,
                pp=1,
                dp=1,
                prompt=1024.0,
                output=128.0,
                batch=float(batch),
            )
        )
        p, d = result.phases["prefill"], result.phases["decode"]
        if p.interval_s[1] <= 0.2:
            options["prefill"].append((tp, p.tokens_per_s_interval[0] / 1024))
        if d.interval_s[1] <= 0.02:
            options["decode"].append((tp, d.tokens_per_s_interval[0] / 128))
    for (a, pr), (b, dr) in itertools.product(set(options["prefill"]), options["decode"]):
        for count in range(1, 16 // a + 1):
            best = max(best, min(count * pr, (16 - count * a) // b * dr))
    pools = [found[name]["instances"] * found[name]["rate_at_bound"] for name in ("prefill", "decode")]
    assert min(pools) == pytest.approx(best, rel=1e-12) and found["requests_per_s"] > best


@pytest.mark.slow
def test_nothing_feasible_says_what_is_missing() -> None:
    found = ask(itl=1e-6)
    assert not found["feasible"] and "ITL is" in found["nearest_miss"]["shortfall"]
    found = search({"model": "llama-3-405b", "hw": "l4", "n": "2"}, None, [], {}, 3)
    assert not found["feasible"] and "memory" in found["nearest_miss"]["shortfall"]
    asked = {"model": "llama-3-8b", "hw": "h100", "n": "2", "prompt": "1024", "output": "128"}
    miss = search(asked, None, [], {"qps": 200.0}, 3)["nearest_miss"]
    carried = 200 - miss["missing_requests_per_s"]
    enough = search({**asked, "n": "1024"}, None, [], {"qps": 200.0}, 1)["results"][0]
    assert 0 < carried < 200 and enough["serve"]["devices"] == pytest.approx(200 / (carried / 2), abs=1)
    assert f"{enough['serve']['devices']:g} would serve all" in miss["shortfall"]


@pytest.mark.slow
def test_a_front_holds_no_dominated_point() -> None:
    rows = ask("cost,itl", top=1000)["results"]
    scores = [tuple(r["score"].values()) for r in rows]
    assert len(scores) > 3
    assert all(not (a[0] <= b[0] and a[1] <= b[1]) for a, b in itertools.permutations(scores, 2))


@pytest.mark.parametrize(
    "options",
    [{"dp": "2"}, {"zero": "1"}, {"goal": "a,b,c"}, {"where": ("serve.nothing <= 1",)}],
)
def test_wrong_questions_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ask(**options)


@pytest.mark.parametrize("written", [{"qps": "-1"}, {"itl": "40"}])
def test_a_limit_without_its_unit_and_a_negative_rate_are_refused(written: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Search("llama-3-8b", hw="h100", phase=["decode"], **written)
