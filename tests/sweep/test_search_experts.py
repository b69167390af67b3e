"""Serving searches of mixtures: experts over replicas or over all ranks, attention data parallel; every row is what its command prints."""

from __future__ import annotations

import shlex

import pytest
from conftest import run_cli

from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.search import instances
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

ASKED = "deepseek-v3 --hw h200 --phase decode --dtype fp8 --engine sglang --prompt 1k --output 128 --objective throughput --batch 8,64"


def ctx(model: str = "mixtral-8x7b", **more) -> EstimateContext:
    return EstimateContext(Request(load_model(model), load_hardware("h100"), phases=("prefill", "decode"), **more))


def test_layouts_are_those_that_an_estimate_accepts():
    """Mixtral's 8 experts on up to 16 devices: over dp replicas, or over all tp x dp ranks."""
    found = instances.layouts(ctx(), {"pp": (1,)}, 16)
    sizes = {(f["tp"], f["dp"], f["ep"]) for f in found}
    wanted = {
        (tp, dp, ep)
        for tp in (1, 2, 4, 8, 16)
        for dp in (1, 2, 4, 8)
        for ep in (1, 2, 4, 8)
        if tp * dp <= 16 and (ep in (dp, tp * dp))
    }
    assert sizes == wanted and (8, 1, 8) in sizes and (2, 4, 8) in sizes and (1, 8, 8) in sizes


def test_attention_for_itself_leaves_no_tensor_ranks():
    found = instances.layouts(ctx(attention_dp=True), {"pp": (1,)}, 16)
    assert {(f["tp"], f["dp"], f["ep"]) for f in found} == {(1, n, n) for n in (1, 2, 4, 8)}


@pytest.mark.slow
@pytest.mark.parametrize("more", ["-n 16 --top 6", "-n 16 --attention-dp --top 2", "-n 16 --tp 4 --ep 16 --top 1"])
def test_a_row_is_what_its_command_prints(cli, more):
    rows = cli("search", *shlex.split(f"{ASKED} {more}"), "--format", "json").json["results"]
    assert rows
    for row in rows:
        again = cli(*shlex.split(row["estimate"])[1:], "--format", "json").json["phases"]
        assert again["decode"]["time_s"] == row["serve"]["itl_s"]
        assert again["prefill"]["time_s"] == row["serve"]["ttft_s"]
        assert again["decode"]["memory"]["total_bytes"] == row["memory"]["total_bytes"]
        assert {k: again["decode"]["layout"][k] for k in ("tp", "pp", "dp", "ep")} == {
            k: row["layout"][k] for k in ("tp", "pp", "dp", "ep")
        }


@pytest.mark.slow
def test_serving_ranks_by_the_end_that_is_held(cli):
    """The pessimistic rate is the expected one over one and the error of the phase; the floor is above both."""
    by = {
        hold: cli("search", *shlex.split(ASKED), "-n", "8", "--hold", hold, "--format", "json").json["results"]
        for hold in ("pessimistic", "expected", "floor")
    }
    name = "serve.tokens_per_s_per_device"
    for rows in by.values():
        ends = [row["score_at_bound"][name] for row in rows]
        assert ends == sorted(ends, reverse=True)
    worst, middle, best = (by[hold][0] for hold in ("pessimistic", "expected", "floor"))
    assert worst["score_at_bound"][name] < worst["score"][name] and middle["score_at_bound"] == middle["score"]
    assert best["score_at_bound"][name] > best["score"][name]


@pytest.mark.slow
def test_layouts_of_as_many_devices_are_told_apart_by_what_their_tokens_cost():
    """A rate asks for the fewest devices first: among equals the second objective says how far a row is behind."""
    asked = [
        "search",
        "deepseek-v3",
        "--hw",
        "h200",
        "-n",
        "8",
        "--phase",
        "decode",
        "--engine",
        "vllm",
        "--dtype",
        "fp8",
    ]
    ran = run_cli(*asked, "--qps", "2", "--slo", "ttft=2s,itl=60ms", "--format", "json")
    first, *others = ran.json["results"]
    usd = "serve.usd_per_million_tokens"
    assert others and {row["score_at_bound"]["serve.devices"] for row in ran.json["results"]} == {8}
    for row in others:
        gap = 100 * (row["score_at_bound"][usd] / first["score_at_bound"][usd] - 1)
        assert gap > 10 and row["why"].startswith(f"{gap:.0f}% worse in {usd}:"), row["why"]


def test_twice_as_many_devices_are_a_hundred_per_cent_behind():
    asked = ["search", "llama-3-8b", "--hw", "h100", "-n", "2", "--phase", "decode", "--engine", "vllm"]
    ran = run_cli(*asked, "--qps", "4", "--slo", "ttft=1s,itl=30ms", "--format", "json")
    first, *others = ran.json["results"]
    assert first["score_at_bound"]["serve.devices"] == 1 and others
    assert all(row["why"].startswith("100% worse: batch") for row in others)
