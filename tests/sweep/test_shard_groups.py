"""Shard groups of ZeRO-3 (HSDP) in a search: which sizes are tried, that one is found where it is better, and that its command is its own."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rooflinecli.engine import layout_space
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.search.search_request import TrainingSearchQuestion, question
from rooflinecli.questions.search.training import report, request_of, search

FSDP = {"tp": 1, "pp": 1, "cp": 1, "zero": "3"}


def ask(**more: Any) -> TrainingSearchQuestion:
    """Llama 3 8B on 128 H100, four sequences to a device."""
    options = {"model": "llama-3-8b", "hw": "h100", "n": 128, "batch": 512, "seq": 4096, "phase": "train"}
    return question(options | {"bound": "expected"} | more, "time", [])


def tried(asked: TrainingSearchQuestion) -> set[tuple[int, int, int, int | None]]:
    """tp, cp, dp and shard group of every layout of ZeRO-3 that a search prices."""
    ctx, found = EstimateContext(asked.request), set()
    every = layout_space.layouts(ctx, asked, asked.devices[0])
    for structure in layout_space.structures(asked):
        laid = every.take(layout_space.affected_axes(ctx, every, asked, structure)).laid(ctx, structure)
        shard = [None] * len(laid) if laid.shard is None else laid.shard.astype(int).tolist()
        sizes = (laid.sizes[name].astype(int).tolist() for name in ("tp", "cp", "dp"))
        found |= set(zip(*sizes, shard, strict=True))
    return found


def test_groups_fill_one_and_two_hosts_beside_tensor_and_context_ranks() -> None:
    """8 H100 share NVLink: tp x cp ranks of a replica leave 8 / (tp x cp) replicas to a host; a group of one shards nothing."""
    layouts = tried(ask(zero="3", pp=1, recompute="full", **{"sequence-parallel": "no"}))
    assert {shard for tp, cp, _, shard in layouts if tp == cp == 1} == {None, 8, 16}
    assert {shard for tp, cp, _, shard in layouts if (tp, cp) == (2, 2)} == {None, 2, 4}
    assert {shard for tp, cp, _, shard in layouts if (tp, cp) == (4, 2)} == {None, 2}
    assert {shard for tp, cp, _, shard in layouts if (tp, cp) == (8, 4)} == {None}
    assert all(shard is None or (dp % shard == 0 and shard < dp) for _, _, dp, shard in layouts)


def test_a_domain_whose_size_does_not_divide_the_replicas_takes_the_largest_group_that_does() -> None:
    ctx = EstimateContext(ask(hw="gb200", n=256).request)  # 72 GPUs share NVLink
    sizes = {"tp": [1, 1, 4], "cp": [1, 1, 1], "dp": [256, 96, 64]}
    laid = layout_space.LayoutArrays({k: np.array(v, dtype=float) for k, v in sizes.items()}, np.arange(3.0))
    assert layout_space.groups(ctx, laid, 1).tolist() == [64, 48, 16]
    assert layout_space.groups(ctx, laid, 2).tolist() == [128, 96, 32]


@pytest.mark.parametrize("given", [{"zero": "0,1,2"}, {"zero": "3", "shard": 16}], ids=str)
def test_nothing_is_tried_without_zero_3_or_beside_a_group_that_is_given(given: dict[str, Any]) -> None:
    assert {shard for *_, shard in tried(ask(pp=1, **given))} == {None}


def test_a_group_holds_every_expert() -> None:
    asked = ask(model="mixtral-8x7b", zero="3", pp=1, recompute="full")
    ctx = EstimateContext(asked.request)
    every = layout_space.layouts(ctx, asked, 128)
    for domains, size in ((1, 8), (2, 16)):
        structure = layout_space.DeviceSplit(3, "full", False, domains)
        laid = every.take(layout_space.affected_axes(ctx, every, asked, structure)).laid(ctx, structure)
        assert laid.shard is not None and len(laid) and set(laid.sizes["ep"]) == {1, 2, 4, 8}
        assert not (laid.shard * laid.sizes["cp"] % laid.sizes["ep"]).any() and laid.shard.max() == size


def test_spread_experts_in_groups_are_priced_as_their_command_says() -> None:
    """Mixtral in groups of one host, its experts over the host: what a search prices is what `estimate` does."""
    asked = ask(model="mixtral-8x7b", zero="3", pp=1, ep=8, tp=1, cp=1, recompute="full", **{"sequence-parallel": "no"})
    rows = [
        row
        for row in report(replace(asked, every=True), search(replace(asked, every=True)), 40)["results"]
        if row["layout"]["shard"]
    ]
    assert {row["layout"]["shard"] for row in rows} == {16}  # of 8 the experts would not fit
    for row in rows[:3]:
        found = estimate(request_of(asked, row["layout"])).phases["train"]
        assert found.time_s == row["time_s"] and found.memory.total_bytes == row["memory"]["total_bytes"]


@pytest.mark.slow
def test_a_group_that_cannot_hold_every_expert_is_refused(cli: Any) -> None:
    words = [
        "estimate",
        "mixtral-8x7b",
        "--hw",
        "h100",
        "--phase",
        "train",
        "--batch",
        "128",
        "-n",
        "64",
        "--tp",
        "1",
        "--dp",
        "64",
    ]
    assert cli(*words, "--ep", "8", "--zero", "3", "--shard", "8").code in (0, 1)
    refused = cli(*words, "--ep", "8", "--zero", "3", "--shard", "4")
    assert refused.code == 2 and "--ep 8 does not divide the 4 ranks of a shard group" in refused.err


def slices(**more: Any) -> TrainingSearchQuestion:
    """Llama 3 70B over four slices of 256 TPU v5e, which the data-center network joins: FSDP inside a slice is what MaxText runs there."""
    options = {"model": "llama-3-70b", "hw": "tpu-v5e", "n": 1024, "batch": 1024, "seq": 4096, "phase": "train"}
    return question(options | {"recompute": "full"} | FSDP | more, "time", [])


def test_groups_inside_a_slice_are_found_where_they_are_better() -> None:
    """The best of all three is what `estimate` says is best of them, and the rows of a search without them are worse."""
    asked = slices()
    best = search(asked).top(1)[0]
    ends = {
        shard: estimate(request_of(asked, replace(best.layout, shard=shard))).phases["train"].interval_s[1]
        for shard in (None, 256, 512)
    }
    assert best.layout["shard"] == min(ends, key=ends.__getitem__) == 256
    assert best.keys[0] == pytest.approx(ends[256], rel=1e-12)
    whole = search(slices(shard=1024)).top(1)[0]
    assert whole.layout["shard"] is None and whole.keys[0] > 1.1 * best.keys[0]


@pytest.mark.slow
def test_a_row_says_its_group_and_its_command_prints_its_numbers(cli: Any) -> None:
    asked = "llama-3-70b --hw tpu-v5e -n 1024 --batch 1024 --seq 4096 --tp 1 --pp 1 --zero 3 --all --top 6"
    rows = cli("search", *shlex.split(asked), "--format", "json").json["results"]
    apart = [row for row in rows if row["layout"]["shard"]]
    assert apart and len(apart) < len(rows)
    for row in rows:
        said = f"--dp-shard {row['layout']['shard']}" in row["estimate"]
        assert said == (row["layout"]["shard"] is not None)
        found = cli(*shlex.split(row["estimate"])[1:], "--format", "json").json["phases"]["train"]
        same = ("time_s", "floor_s", "interval_s", "mfu", "memory", "communication_s")
        assert {name: row[name] for name in same} == {name: found[name] for name in same}
    shown = cli("search", *shlex.split(asked), "--details").out
    assert "zero3 hsdp256" in shown and "HSDP" in shown


def test_the_group_given_stays_and_is_said_once(cli: Any) -> None:
    asked = slices(shard=256)
    rows = report(asked, search(asked))["results"]
    assert rows and {row["layout"]["shard"] for row in rows} == {None}
    words = "search llama-3-70b --hw tpu-v5e -n 1024 --batch 1024 --seq 4096 --tp 1 --pp 1 --zero 3 --shard 256 --format json"
    for row in cli(*shlex.split(words)).json["results"]:
        assert row["estimate"].count("--dp-shard") == 1
        found = cli(*shlex.split(row["estimate"])[1:], "--format", "json").json["phases"]["train"]
        assert row["time_s"] == found["time_s"]
