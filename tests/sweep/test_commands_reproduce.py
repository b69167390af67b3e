"""The command of every ranked row prints the row's numbers again, to the last digit."""

from __future__ import annotations

import shlex
from typing import Any

import pytest


def estimate(cli: Any, row: dict[str, Any]) -> dict[str, Any]:
    """What the command of a row prints; none of its options changes nothing."""
    ran = cli(*shlex.split(row["estimate"])[1:], "--format", "json")
    assert "changes nothing" not in ran.err, row["estimate"]
    return ran.json["phases"]


@pytest.mark.slow
def test_the_commands_of_pools_have_no_option_that_changes_nothing(cli: Any) -> None:
    asked = "llama-3-8b --hw h100 -n 8 --qps 5 --prompt 4k --output 64 --engine vllm --max-num-batched-tokens 4096"
    found = cli("search", *asked.split(), "--phase", "decode", "--tp", "1", "--top", "1", "--format", "json").json
    pool = found["pool_rows"][0]
    first, each = pool["prefill"], pool["decode"]
    assert "--max-num-batched-tokens 4096" in first["estimate"] and "--output" not in first["estimate"]
    assert "--output 64" in each["estimate"] and "--max-num-batched-tokens" not in each["estimate"]
    assert {*estimate(cli, first), *estimate(cli, each)} == {"prefill", "decode"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        "deepseek-v2-lite --hw gb200 -n 64 --batch 64 --seq 2048 --objective memory",  # experts kept whole: --ep 1 has to be said
        "gemma-2-9b --hw mi300x -n 32 --batch 64 --seq 8192 --dtype fp8 --objective throughput",
        "mixtral-8x7b --hw h100,b200 -n 16 --batch 64 --objective throughput,memory",
        "llama-3-8b --hw h100 -n 8 --batch 64 --all --hold floor --objective time",
    ],
)
def test_training(cli: Any, asked: str) -> None:
    rows = cli("search", *shlex.split(asked), "--top", "4", "--format", "json").json["results"]
    assert len(rows) >= 3
    for row in rows:
        found = estimate(cli, row)["train"]
        assert {name: row[name] for name in ("time_s", "floor_s", "interval_s", "mfu", "memory")} == {
            name: found[name] for name in ("time_s", "floor_s", "interval_s", "mfu", "memory")
        }
        for quantity, value in row["score"].items():
            _, *path = quantity.split(".")
            for part in path:
                found = found[part]
            assert value == found, (quantity, row["estimate"])
            found = estimate(cli, row)["train"]
        if list(row["score_at_bound"]) == ["train.time_s"]:
            assert row["score_at_bound"]["train.time_s"] == pytest.approx(found["floor_s"], rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        "gemma-2-9b --hw a100 --prompt 2048 --output 512 --engine vllm --qps 20 --objective ttft",
        "gpt-oss-120b --hw gb200 --prompt 2048 --output 128 --itl 60ms",
        "qwen3-30b-a3b --hw h100,mi300x --price mi300x=3 --qps 5 --kv-dtype fp8 --objective itl",
    ],
)
def test_serving(cli: Any, asked: str) -> None:
    rows = cli("search", *shlex.split(asked), "--phase", "decode", "--top", "4", "--format", "json").json["results"]
    assert len(rows) >= 2
    for row in rows:
        found = estimate(cli, row)
        assert (
            row["serve"]["ttft_s"] == found["prefill"]["time_s"] and row["serve"]["itl_s"] == found["decode"]["time_s"]
        )
        assert row["memory"] == {name: found["decode"]["memory"][name] for name in row["memory"]}
        for quantity, value in row["score"].items():
            assert value == row["serve"][quantity.removeprefix("serve.")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [  # each differed in a last digit when rows were those of the arrays that rank them
        "deepseek-v3 --hw b200,h200 --prompt 4k --output 333 --max-num-batched-tokens 4096 --qps 50 -n 64 --batch 64..256x2",
        "nemotron-3-nano --hw mi325x --hold floor --batch 1..256x2 --qps 50 --slo ttft=2s,itl=60ms --price 2.5",
        "mixtral-8x7b --hw mi300x,h200 --dtype fp8 --output 128 --memory 70GB --batch 1..256x2 --slo ttft=2s,itl=60ms --price 2.5",
        "nemotron-3-nano --hw h200 --hold expected --dtype fp8 --prompt 4k --kv-dtype fp8 --prefix-hit-rate 0.3 --qps 3 -n 16 --batch 1..256x2 --objective decode.mbu",
    ],
)
def test_every_number_of_a_serving_row_and_of_its_pools(cli: Any, asked: str) -> None:
    result = cli("search", *shlex.split(asked), "--phase", "decode", "--top", "3", "--format", "json").json
    assert result["results"] and result["pool_rows"]
    for row in result["results"]:
        whole = cli(*shlex.split(row["estimate"])[1:], "--format", "json").json
        first, other, serve = whole["phases"]["prefill"], whole["phases"]["decode"], row["serve"]
        assert (serve["ttft_s"], serve["itl_s"]) == (first["time_s"], other["time_s"])
        assert serve["instance_tokens_per_s"] == other["tokens_per_s"]
        assert serve["tokens_per_s"] == serve["instances"] * other["tokens_per_s"]
        assert serve["decode_requests_per_s"] == other["tokens_per_s"] / whole["workload"]["output"]
        assert serve.get("usd_per_million_output_tokens") == whole["cost"]["usd_per_million_output_tokens"]
        assert serve["joules_per_token"] == other["joules_per_token"]
        if "decode.mbu" in row["score"]:
            assert row["score"]["decode.mbu"] == other["mbu"]
    for pair in result["pool_rows"]:
        rates = []
        for phase, latency, length in (("prefill", "ttft_s", "prompt"), ("decode", "itl_s", "output")):
            whole = cli(*shlex.split(pair[phase]["estimate"])[1:], "--format", "json").json
            waits = pair[phase].get("queue_s", 0.0)
            assert pair[phase][latency] == pytest.approx(whole["phases"][phase]["time_s"] + waits, rel=1e-15, abs=0)
            rates.append(
                pair[phase]["instances"] * (whole["phases"][phase]["tokens_per_s"] / whole["workload"][length])
            )
        assert pair["requests_per_s"] == min(rates)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "asked",
    [
        "llama-3-8b --hw h100,b200,mi300x --at same-cost -n 8 --price mi300x=3 --batch 16 --engine vllm",
        "qwen3-30b-a3b --hw h100,tpu-v6e,gb200 -n 8 --phase train --batch 64 --seq 2048 --hold expected",
        "nemotron-3-nano --hw h200,l40s --at same-memory -n 2 --prompt 4k --concurrency 4 --slo ttft=1ms",
    ],
)
def test_a_comparison(cli: Any, asked: str) -> None:
    result = cli("compare", *shlex.split(asked), "--format", "json").json
    rows = [row for row in result["rows"] if row["command"]]
    assert len(rows) >= 2
    for row in rows:
        whole = cli(*shlex.split(row["command"])[1:], "--format", "json").json
        assert whole["layout"]["devices"] == row["layout"]["devices"]
        for quantity, value in row["quantities"].items():
            if quantity.partition(".")[0] in whole["phases"]:
                phase, name = quantity.split(".", 1)
                assert value == whole["phases"][phase][name], row["command"]
            elif quantity.startswith("cost."):
                assert value == whole["cost"][quantity.removeprefix("cost.")]
    shown = cli("compare", *shlex.split(asked)).out
    best = next((row for row in rows if row["rank"] == 1), None)
    assert best is None or best["command"] in shown.replace(" \\\n  ", " ")
