"""The command of every ranked row prints the row's numbers again, to the last digit."""

from __future__ import annotations

import shlex
from typing import Any

import pytest


def estimate(cli: Any, row: dict[str, Any]) -> dict[str, Any]:
    """What the command of a row prints."""
    return cli(*shlex.split(row["estimate"])[1:], "--format", "json").json["phases"]


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
        if list(row["held"]) == ["train.time_s"]:
            assert row["held"]["train.time_s"] == pytest.approx(found["floor_s"], rel=1e-15)


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
        assert row["memory"]["total_bytes"] == found["decode"]["memory"]["total_bytes"]
        for quantity, value in row["score"].items():
            assert value == row["serve"][quantity.removeprefix("serve.")]
