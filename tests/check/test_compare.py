"""`roofline compare`: every row is the estimate of that chip, the ranking is right, and what cannot run says why."""

from __future__ import annotations

import csv
import io
import json
import shlex
from itertools import pairwise

import pytest
from conftest import run_cli

CHIPS = "h100,h200,b200,tpu-v5e,l4"
BASE = ("compare", "llama-3.3-70b", "--hw", CHIPS)


def rows(*args: str) -> list[dict]:
    ran = run_cli(*BASE, *args, "--format", "json")
    assert ran.code == 0, ran.err
    return ran.json["rows"]


def alone(chip: str, plan: dict, *args: str) -> dict:
    return run_cli(
        "estimate", "llama-3.3-70b", "--hw", chip, "-n", str(plan["devices"]), *args, "--format", "json"
    ).json


@pytest.mark.sampled(1)
@pytest.mark.parametrize("at", ["same-devices", "same-cost", "same-memory"])
def test_every_row_is_the_estimate_of_its_chip(at):
    able = [r for r in rows("--at", at, "-n", "8", "--batch", "16") if r["feasible"]]
    assert len(able) >= 3
    for row in able:
        answer = alone(row["chip"], row["layout"], "--phase", "prefill", "--phase", "decode", "--batch", "16")
        assert row["value"] == pytest.approx(answer["phases"]["decode"]["time_s"])
        assert row["interval"] == pytest.approx(answer["phases"]["decode"]["interval_s"])
        assert row["quantities"]["prefill.time_s"] == pytest.approx(answer["phases"]["prefill"]["time_s"])


def test_same_devices_cost_and_memory_are_what_they_say():
    able = {
        at: [r for r in rows("--at", at, "-n", "8") if r["feasible"]]
        for at in ("same-devices", "same-cost", "same-memory")
    }
    assert {r["layout"]["devices"] for r in able["same-devices"]} == {8}
    spent = {r["chip"]: r["usd_per_hour"] for r in able["same-cost"]}
    assert all(cost <= spent["h100"] + 1e-9 for cost in spent.values())
    fleets = run_cli(
        "compare",
        "llama-3.1-8b",
        "--hw",
        "h100,h200,b200",
        "--at",
        "same-cost",
        "-n",
        "8",
        "--rank",
        "decode.tokens_per_s",
        "--format",
        "json",
    )
    hourly = next(r["usd_per_hour"] for r in fleets.json["rows"] if r["chip"] == "h100")
    assert all(r["usd_per_hour"] <= hourly + 1e-9 for r in fleets.json["rows"]) and len(fleets.json["rows"]) == 3
    memory = {r["chip"]: r["memory_bytes"] for r in able["same-memory"]}
    assert all(size >= memory["h100"] * (1 - 1e-9) for size in memory.values())
    h200 = next(r for r in able["same-memory"] if r["chip"] == "h200")
    assert h200["layout"]["devices"] <= 8


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("rank", "more"),
    [
        ("decode.time_s", False),
        ("decode.tokens_per_s", True),
        ("cost.usd_per_million_output_tokens", False),
        ("memory.headroom_fraction", True),
        ("decode.mfu", True),
    ],
)
def test_the_best_is_first(rank, more):
    values = [r["value_at_bound"] for r in rows("--rank", rank) if r["rank"]]
    assert values == sorted(values, reverse=more) and len(values) >= 3
    middle = [r["value"] for r in rows("--rank", rank, "--hold", "expected") if r["rank"]]
    assert middle == sorted(middle, reverse=more)
    assert [r["rank"] for r in rows("--rank", rank) if r["rank"]] == list(range(1, len(values) + 1))


COST = "cost.usd_per_million_output_tokens"
CHEAPEST = ("compare", "llama-3.3-70b", "--hw", "h200,b200", "--iso", "same-cost", "--batch", "32", "--rank-by", COST)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", [7, 6, 8])
def test_the_layout_of_a_chip_is_chosen_by_what_ranks(n):
    """Whatever the budget: B200 in replicas of one device, whose cost no other split of as many devices is below."""
    ran = run_cli(*CHEAPEST, "-n", str(n), "--format", "json")
    best, other = ran.json["rows"]
    assert [best["chip"], other["chip"]] == ["b200", "h200"] and best["layout"]["tp"] == 1
    for row in (best, other):
        made = run_cli(*shlex.split(row["command"])[1:], "--format", "json").json
        assert made["cost"]["usd_per_million_output_tokens"] == row["value"]
        assert row["sequences"] == made["workload"]["batch"] * made["layout"]["dp"] == 32 * row["layout"]["dp"]
        devices = row["layout"]["devices"]
        splits = [tp for tp in (1, 2, 4, 8) if devices % tp == 0]
        asked = (
            "estimate",
            "llama-3.3-70b",
            "--hw",
            row["chip"],
            "-n",
            str(devices),
            "--batch",
            "32",
            "--phase",
            "decode",
        )
        found = [run_cli(*asked, "--tp", str(tp), "--format", "json").json for tp in splits]
        costs = [one["cost"]["usd_per_million_output_tokens"] for one in found if one["feasible"]]
        assert row["value"] == pytest.approx(min(costs))


def test_rows_of_unequal_load_say_their_sequences_and_layout():
    table = run_cli(*CHEAPEST, "-n", "8").out
    assert "sequences" in table and "layout" in table
    equal = run_cli(*CHEAPEST[:4], "-n", "8", "--batch", "32").out
    assert "sequences" not in equal


def test_a_layout_that_keeps_to_the_limits_goes_before_a_cheaper_one():
    """Replicas of one B200 take 28 ms between tokens."""
    limited = run_cli(*CHEAPEST, "-n", "8", "--slo", "itl=20ms", "--format", "json").json["rows"]
    cheapest = run_cli(*CHEAPEST, "-n", "8", "--format", "json").json["rows"]
    (row,), (free,) = ([r for r in rows if r["chip"] == "b200"] for rows in (limited, cheapest))
    assert row["feasible"] and row["layout"]["tp"] > free["layout"]["tp"] and row["value"] > free["value"]


def test_an_overlap_of_intervals_is_owned_up_to():
    found = [r for r in rows() if r["rank"]]
    for above, row in pairwise(found):
        assert row["overlaps_previous"] == (row["interval"][0] <= above["interval"][1])
    assert not found[0]["overlaps_previous"]


def test_without_n_it_is_the_fewest_that_hold_it_on_every_chip():
    able = [r for r in rows("--phase", "decode") if r["feasible"]]
    fewest = [
        run_cli("estimate", "llama-3.3-70b", "--hw", r["chip"], "--phase", "decode", "--format", "json").json["layout"][
            "devices"
        ]
        for r in able
    ]
    assert {r["layout"]["devices"] for r in able} == {max(fewest)}


def test_a_chip_that_cannot_is_shown_with_the_reason():
    ran = run_cli(*BASE, "-n", "2")
    assert ran.code == 0 and "infeasible" in ran.out and "L4" in ran.out
    found = {r["chip"]: r for r in rows("-n", "2")}
    assert not found["l4"]["feasible"] and found["l4"]["infeasible_reason"] and found["l4"]["rank"] is None
    none = run_cli("compare", "llama-3.3-70b", "--hw", "l4,t4", "-n", "1", "--dtype", "fp16")
    assert none.code == 1 and none.out.count(": infeasible, ") == 2
    fp8 = run_cli("compare", "llama-3.1-8b", "--hw", "h100,a100-sxm-80", "--dtype", "fp8", "--format", "json").json[
        "rows"
    ]
    assert any("fp8" in r["infeasible_reason"] for r in fp8) or all(r["feasible"] for r in fp8)


@pytest.mark.slow
def test_training_is_ranked_when_asked():
    ran = run_cli(
        "compare",
        "llama-3-8b",
        "--hw",
        "h100,h200",
        "-n",
        "64",
        "--rank",
        "train.run_s",
        "--tokens",
        "1T",
        "--format",
        "json",
    )
    assert ran.code == 0 and all(r["value"] > 0 and "train.mfu" in r["quantities"] for r in ran.json["rows"])


@pytest.mark.slow
def test_formats_agree():
    answer = json.loads(run_cli(*BASE, "--format", "json").out)
    table = list(csv.DictReader(io.StringIO(run_cli(*BASE, "--format", "csv").out)))
    assert [r["chip"] for r in table] == [r["chip"] for r in answer["rows"]]
    for line, row in zip(table, answer["rows"], strict=True):
        assert not row["rank"] or float(line["value"]) == row["value"]
    ranked = sum(bool(r["rank"]) for r in answer["rows"])
    page = run_cli(*BASE, "--format", "markdown").out
    lines = page[page.index("|") :].split("\n\n")[0].splitlines()  # the first table; then what limits the first row
    assert len(lines) == 2 + ranked and len({line.count("|") for line in lines}) == 1
    shown = " ".join(run_cli(*BASE).out.split())
    assert all(r["name"] in shown for r in answer["rows"])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "args",
    [
        ("--hw", "h100"),
        ("--hw", "h100,h100"),
        ("--hw", "h100,h1000"),
        ("--hw", "h100,h200", "--at", "same-colour"),
        ("--hw", "h100,h200", "--rank", "speed"),
        ("--hw", "h100,h200", "--rank", "decode"),
        ("--hw", ","),
        ("--hw", "h100,h200", "-n", "x"),
        ("--hw", "h100,h200", "-n", "0"),
        ("--hw", "h100,h200", "-n", "1.5"),
        ("--hw", "h100,h200", "--tokens", "-3"),
        ("--hw", "h100,h200", "--rank", "train.run_s"),
        ("--hw", "h100,h200", "--batch", "many"),
        ("--hw", "mi250x,h100", "--at", "same-cost", "-n", "1"),
        ("--hw", "h100,h200", "--rank", "decode.bound"),
    ],
)
def test_a_wrong_question_is_usage(args):
    ran = run_cli("compare", "llama-3.3-70b", *args)
    assert ran.code == 2 and ran.err.count("\n") == 1 and not ran.out, ran


@pytest.mark.parametrize(
    ("phase", "ranked"),
    [
        (["train"], "train.time_s"),
        (["prefill"], "prefill.time_s"),
        (["prefill", "decode"], "decode.time_s"),
        ([], "decode.time_s"),
    ],
)
def test_unless_told_chips_are_ranked_by_the_time_of_the_phase_asked_for(phase, ranked):
    asked = [word for name in phase for word in ("--phase", name)]
    ran = run_cli("compare", "llama-3-8b", "--hw", "h100,h200", "-n", "8", *asked, "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["rank"] == ranked


def test_the_ratio_follows_the_bound_that_ranks():
    ran = run_cli(
        "compare", "llama-3.3-70b", "--hw", "h200,h100,mi300x", "--rank-by", "decode.time_s", "--format", "json"
    )
    ranked = ran.json["rows"]
    ratios = [row["relative"] for row in ranked]
    assert ratios == sorted(ratios)
    assert ratios[1] == pytest.approx(ranked[1]["value_at_bound"] / ranked[0]["value_at_bound"])
