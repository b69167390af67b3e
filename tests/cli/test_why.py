"""`--explain plan` and how layouts are chosen."""

from __future__ import annotations

import re

import pytest
from conftest import run_cli

from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.explain import why


@pytest.mark.slow
def test_the_chosen_plan_is_the_fastest_of_those_that_fit():
    answers = {a["work"]: a for a in why(build_request.request({"model": "llama70b", "hw": "h100", "n": 64}))}
    training = answers["training"]
    times = [row["time_at_bound_s"] for row in training["considered"] if row["fits"]]
    (chosen,) = (row for row in training["considered"] if row["layout"] == training["chosen"])
    assert len(times) > 10 and chosen["time_at_bound_s"] == min(times)
    assert all(row["time_s"] < row["time_at_bound_s"] for row in training["considered"] if row["fits"])
    assert all(
        row["bytes_per_device"] > training["capacity_bytes"] for row in training["considered"] if not row["fits"]
    )


def test_fewer_devices_would_not_do():
    for answer in why(build_request.request({"model": "llama70b", "hw": "h100"})):
        assert answer["smaller"]["least_bytes_per_device"] > answer["capacity_bytes"]


def test_serving_prefers_replicas_to_stages():
    plan = estimate(build_request.request({"model": "llama70b", "hw": "h100", "n": 64, "phase": "decode"})).layout
    assert plan.pp == 1 and plan.tp == 8 and plan.dp == 8


def test_the_page_names_layouts_and_reasons():
    ran = run_cli("estimate", "llama70b", "--hw", "h100", "--explain", "plan")
    assert (
        ran.code == 0
        and "smallest power of two that fits" in ran.out
        and "does not fit" in ran.out
        and "*  2 devices (tp2)" in ran.out
    )


def test_a_layout_is_named_with_all_that_tells_it_from_the_others(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    asked = "llama-3-8b --hw h100 -n 64 --tp 2 --zero 3 --phase train --batch 64 --recompute none".split()
    page = run_cli("estimate", *asked, "--explain", "layout").out
    rows = [line.lstrip("* ") for line in page.splitlines() if re.match(r"^\*? +64 devices", line)]
    named = [row.partition(")")[0] for row in rows]
    assert len(rows) > 2 and len(set(named)) == len(named) and any("hsdp" in name for name in named)
    layout = re.search(r"on 64 devices \((.*?)\)", " ".join(run_cli("estimate", *asked).out.split()))
    assert f"training: 64 devices ({layout[1]})" in " ".join(page.split())


def test_the_floor_names_the_operation_of_every_term():
    text = run_cli(
        "estimate",
        "llama-3.1-8b",
        "--hw",
        "h100",
        "-n",
        "2",
        "--tp",
        "2",
        "--phase",
        "decode",
        "--explain",
        "decode.floor_s",
    ).out
    for term in ("t_c[attention.qkv]", "t_m[lm_head]", "t_floor[tp.all_reduce]"):
        assert f"{term} = " in text
    assert "\n      t_c = " not in text
