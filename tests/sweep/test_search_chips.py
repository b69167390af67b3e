"""Search over several chips, prices on the command line, pools of two kinds of chip; compare under limits."""

from __future__ import annotations

import itertools
import shlex
from typing import Any

import pytest
from conftest import run_cli

SERVING = [
    "llama-3-8b",
    "--phase",
    "decode",
    "--prompt",
    "1k",
    "--output",
    "128",
    "--slo",
    "ttft=400ms,itl=20ms",
    "--tp",
    "1,2",
]


def found(verb: str, *args: str, code: int = 0) -> dict[str, Any]:
    ran = run_cli(verb, *args, "--format", "json")
    assert ran.code == code, ran.err
    return ran.json


def answered(command: str) -> dict[str, Any]:
    ran = run_cli(*shlex.split(command)[1:], "--format", "json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["time", "cost"])
def test_training_rows_of_all_chips_are_what_their_commands_print(objective: str) -> None:
    args = [
        "llama-3-8b",
        "-n",
        "16",
        "--batch",
        "64",
        "--objective",
        objective,
        "--top",
        "2",
        "--price",
        "mi300x=2.5,h100=4",
    ]
    both = found("search", *args, "--hw", "h100,mi300x")
    alone = [found("search", *args[:-2], "--price", p, "--hw", c) for c, p in (("h100", "4"), ("mi300x", "2.5"))]
    name = both["objective"][0]
    ends = [row["score_at_bound"][name] for row in both["results"]]
    assert ends == sorted(ends) and {row["chip"] for row in both["results"]} == {"h100", "mi300x"}
    assert ends[0] == min(one["results"][0]["score_at_bound"][name] for one in alone)
    assert both["layouts"] == sum(one["layouts"] for one in alone)
    for row in both["results"]:
        phase = answered(row["estimate"])
        assert phase["phases"]["train"]["time_s"] == row["time_s"]
        assert phase["cost"]["usd_per_million_training_tokens"] == row["usd_per_million_training_tokens"]


@pytest.mark.slow
def test_a_chip_without_a_price_is_named_where_dollars_rank() -> None:
    result = found("search", *SERVING, "--hw", "h100,mi250x", "--objective", "cost")
    mi250x = result["chips"][1]
    assert (
        result["unpriced"] == ["mi250x"]
        and not mi250x["feasible"]
        and "--price mi250x=USD" in mi250x["infeasible_reason"]
    )
    assert "--price mi250x=USD" in run_cli("search", *SERVING, "--hw", "h100,mi250x", "--objective", "cost").out
    ran = run_cli("search", *SERVING, "--hw", "mi250x,gaudi3", "--objective", "cost")
    assert ran.code == 2 and "no price is known for mi250x, gaudi3" in ran.err


def test_serving_rows_and_the_total_batch() -> None:
    result = found("search", *SERVING, "--hw", "h100,l40s", "--qps", "30", "--top", "2")
    assert result["objective"] == ["serve.usd_per_million_tokens"]
    for row in result["results"]:
        phases = answered(row["estimate"])["phases"]
        for phase, name in (
            ("prefill", "ttft_s"),
            ("decode", "itl_s"),
        ):  # an array's powers may differ in the last digit
            assert phases[phase]["time_s"] == pytest.approx(row["serve"][name], rel=1e-15, abs=0)
        assert row["serve"]["total_batch"] == row["layout"]["batch"] * row["layout"]["dp"] * row["serve"]["instances"]


@pytest.mark.slow
def test_pools_on_two_kinds_of_chip_are_no_worse_than_on_either() -> None:
    args = [*SERVING, "--qps", "60", "--objective", "cost", "--batch", "1..256x2"]
    both = found("search", *args, "--hw", "h100,l40s", "--top", "20")["pool_rows"]
    alone = [found("search", *args, "--hw", chip, "--top", "20")["pool_rows"] for chip in ("h100", "l40s")]
    bills = [row["usd_per_hour"] for row in both]
    assert bills == sorted(bills)
    assert bills[0] <= min(rows[0]["usd_per_hour"] for rows in alone if rows)
    assert any(row["prefill"]["chip"] != row["decode"]["chip"] for row in both)


@pytest.mark.slow
def test_a_pool_is_what_its_commands_print_times_its_instances() -> None:
    rows = found("search", *SERVING, "--qps", "60", "--hw", "h100,h200", "--price", "h200=4", "--top", "3")["pool_rows"]
    for row in rows:
        costs, rates = 0.0, []
        for phase, tokens, latency in (("prefill", 1024, "ttft_s"), ("decode", 128, "itl_s")):
            pool = row[phase]
            result = answered(pool["estimate"])
            assert result["phases"][phase]["time_s"] + pool.get("queue_s", 0.0) == pytest.approx(
                pool[latency], rel=1e-15
            )
            assert result["phases"][phase]["tokens_per_s"] / tokens == pytest.approx(pool["rate"], rel=1e-15)
            rates.append(pool["instances"] * pool["rate"])
            costs += pool["instances"] * result["layout"]["devices"] * result["cost"]["usd_per_device_hour"]
            assert f"--hw {pool['chip']}" in pool["estimate"]
        assert row["requests_per_s"] == min(rates) >= 60
        pool = row["prefill"]  # M/D/1: half of u / (1 - u) services
        load = 60 / (pool["instances"] * pool["rate"])
        assert pool["queue_s"] == pytest.approx(load / (1 - load) / 2 / pool["rate"], rel=1e-12)
        assert row["usd_per_hour"] == pytest.approx(costs, rel=1e-15)
        assert row["usd_per_million_tokens"] == pytest.approx(costs / (min(rates) * 1152 * 3600) * 1e6, rel=1e-14)


@pytest.mark.slow
def test_a_prompt_of_a_pool_meets_its_limit_with_its_wait() -> None:
    """A tighter TTFT takes more prefill instances, each with less of a queue; of pools of one size the one that carries most is first."""
    args = [*SERVING, "--qps", "60", "--hw", "h100", "--batch", "1..256x2", "--top", "9"]
    free = found("search", *args)["pool_rows"]
    at_bound = free[0]["prefill"]["latency_at_bound_s"]
    assert at_bound > free[0]["prefill"]["ttft_s"] > free[0]["prefill"]["queue_s"] > 0
    limits = [f"ttft={at_bound * 0.8}s,itl=20ms" if word.startswith("ttft=") else word for word in args]
    tight = run_cli("search", *limits, "--format", "json").json["pool_rows"]
    assert all(row["prefill"]["latency_at_bound_s"] <= at_bound * 0.8 * (1 + 1e-9) for row in tight)
    assert tight[0]["devices"] >= free[0]["devices"]
    same = [row for row in free if row["devices"] == free[0]["devices"]]
    carried = [min(row[p]["instances"] * row[p]["rate_at_bound"] for p in ("prefill", "decode")) for row in same]
    assert len(same) > 1 and carried == sorted(carried, reverse=True)


@pytest.mark.slow
def test_a_front_over_chips_holds_no_dominated_point() -> None:
    rows = found("search", *SERVING, "--hw", "h100,l40s", "--objective", "cost,itl", "--top", "500")["results"]
    scores = [tuple(row["score"].values()) for row in rows]
    assert {row["chip"] for row in rows} and len(scores) > 2
    assert all(not (a[0] <= b[0] and a[1] <= b[1]) for a, b in itertools.permutations(scores, 2))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--slo", "ttft=1s", "--ttft", "2s"], "ttft duplicates --ttft"),
        (["--slo", "ttft=1s@99"], "search uses mean latencies"),
        (["--slo", "queue=1s"], "the limits here are ttft and itl"),
        (["--price", "b200=3"], "not among"),
        (["--price", "nosuch=3"], "unknown chip of --price"),
        (["--price", "h100=-1"], "negative"),
    ],
)
def test_what_is_wrong_is_one_sentence(args: list[str], says: str) -> None:
    ran = run_cli("search", "llama-3-8b", "--phase", "decode", "--hw", "h100", *args)
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1


def test_compare_holds_limits_at_the_pessimistic_end() -> None:
    args = ["llama-3-8b", "--hw", "h100,l40s,mi300x", "-n", "1", "--batch", "32"]
    free = {row["chip"]: row for row in found("compare", *args)["rows"]}
    limit = free["h100"]["interval"][1] * 1.001
    held = {row["chip"]: row for row in found("compare", *args, "--slo", f"itl={limit!r}s")["rows"]}
    assert held["h100"]["feasible"] and not held["l40s"]["feasible"] and "itl is" in held["l40s"]["infeasible_reason"]
    tighter = run_cli("compare", *args, "--slo", f"itl={free['h100']['value']!r}s", "--format", "json").json
    assert not {row["chip"]: row for row in tighter["rows"]}["h100"]["feasible"]


def test_compare_takes_prices_by_chip() -> None:
    args = ["llama-3-8b", "--hw", "h100,mi250x", "-n", "2", "--at", "same-cost"]
    unknown = {row["chip"]: row for row in found("compare", *args)["rows"]}
    assert "--price mi250x=USD" in unknown["mi250x"]["infeasible_reason"]
    rows = {row["chip"]: row for row in found("compare", *args, "--price", "mi250x=1.5", "--price", "h100=3")["rows"]}
    assert (
        rows["h100"]["usd_per_hour"] == 6.0
        and rows["mi250x"]["layout"]["devices"] == 4
        and rows["mi250x"]["usd_per_hour"] == 6.0
    )
    assert "no price is known for mi250x" in run_cli("compare", *args[:5], "--hw", "h100,mi250x").out


@pytest.mark.slow
def test_the_keys_of_the_first_release():
    args = ["llama-3-8b", "--hw", "h100,h200", "-n", "1", "--batch", "32"]
    now, first = found("compare", *args), found("compare", *args, "--schema", "1")
    assert first["schema"] == "roofline/compare/1" and first["hold"] == now["bound"]
    assert [row["held"] for row in first["rows"]] == [row["value_at_bound"] for row in now["rows"]]
    assert first["rows"][0]["plan"] == now["rows"][0]["layout"]
    assert "memory.headroom" in first["rows"][0]["quantities"]
    now, first = found("search", *SERVING, "--hw", "h100"), found("search", *SERVING, "--hw", "h100", "--schema", "1")
    assert first["schema"] == "roofline/search/1" and first["hold"] == now["bound"]
    assert [row["held"] for row in first["results"]] == [row["score_at_bound"] for row in now["results"]]
    assert first["results"][0]["memory"]["headroom"] == now["results"][0]["memory"]["headroom_fraction"]
