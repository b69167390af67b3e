"""What one verb says, another repeats: printed commands reproduce their rows, refusals name the mistake, nothing is dropped in silence."""

from __future__ import annotations

import shlex

import pytest


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "asked",
    [
        "llama-3-8b --hw h100 -n 8 --batch 64 --micro-batch-size 1 --top 2",
        "llama-3-8b --hw mi300x -n 8 --recipe lora --lora-rank 64 --top 2 --batch 64 --objective memory",
        "mixtral-8x7b --hw b200 -n 16 --batch 64 --seq 2048 --top 3",
    ],
)
def test_a_row_of_a_search_is_what_its_command_answers(cli, asked):
    for row in cli("search", *shlex.split(asked), "--format", "json").json["results"]:
        again = cli(*shlex.split(row["estimate"])[1:], "--format", "json").json["phases"]["train"]
        assert again["time_s"] == row["time_s"]
        assert again["memory"]["total_bytes"] == row["memory"]["total_bytes"]
        assert again["layout"]["micro_batch"] == row["layout"]["micro_batch"]


def test_the_nearest_remedy_is_a_whole_layout(cli):
    missed = cli("estimate", "mixtral-8x7b", "--hw", "h100", "-n", "8", "--phase", "train", "--format", "json").json
    violation = missed["violations"][0]
    flags = shlex.split(violation["message"].partition("nearest that works: ")[2])
    again = cli("estimate", "mixtral-8x7b", "--hw", "h100", "--phase", "train", *flags, "--format", "json").json
    assert again["feasible"]
    wanted, found = violation["nearest"], again["layout"]
    assert {k: found[k] for k in ("tp", "pp", "dp", "zero", "micro_batch")} == {
        k: wanted[k] for k in ("tp", "pp", "dp", "zero", "micro_batch")
    }


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("formula memory_time bytes_moved=141s bandwidth=1GB/s", "bytes_moved is in B"),
        ("formula memory_time bytes_moved=-5GB bandwidth=1GB/s", "not negative"),
        ("formula compute_time flops=-5 peak=1TFLOP/s", "not negative"),
        (
            "search llama-3-8b --hw h100 -n 8 --phase train --itl 1ns",
            "applies to serving; remove it, or add --phase decode",
        ),
        ("search llama70b --hw h100 -n 16 --tp 3", "no split of 16 devices"),
        ("search llama70b --hw h100 -n 24 --dp 5", "no split of 24 devices"),
        ("sweep llama70b --hw h100 --tp 8 --batch 4 --where foo>3", "unknown quantity 'foo'"),
        ("estimate llama70b --hw h100 -n 8 --tp 16", "takes 16 devices, which does not divide -n 8"),
    ],
)
def test_a_mistake_is_named(cli, command, says):
    ran = cli(*command.split())
    assert ran.code == 2
    assert says in ran.err


def test_an_empty_plan_is_told_how_a_plan_starts(cli, tmp_path):
    (tmp_path / "plan.yaml").write_text("")
    ran = cli("check", str(tmp_path / "plan.yaml"))
    assert ran.code == 3 and "start with 'checks: …'" in ran.err


def test_an_option_that_changes_nothing_says_so(cli):
    ran = cli("estimate", "llama70b", "--hw", "h100", "-n", "8", "--phase", "decode", "--zero", "3")
    assert ran.code == 0 and "--zero belongs to training and changes nothing here" in ran.err


def test_a_column_that_is_always_there_may_be_asked_for(cli):
    ran = cli("sweep", "llama70b", "--hw", "h100", "--tp", "8", "--columns", "feasible,decode.time_s")
    assert ran.code == 0 and "feasible" in ran.out
