"""Several promises, classes of requests, the warm-up and the course over time, each against plain arithmetic on the requests."""

from __future__ import annotations

import csv
import json
import math

import pytest
from conftest import run_cli
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.slo import NAMES, limits
from rooflinecli.simulate.summary import round_interval

BASE = ("simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", "--no-interval")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Sixty seconds of short chats, and a long document every second."""
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    chats = [f"{i / 6:.3f},{200 + 37 * (i % 11)},{20 + 13 * (i % 7)},chat" for i in range(360)]
    documents = [f"{i + 0.05},6000,150,batch" for i in range(60)]
    path.write_text("time,prompt,output,class\n" + "\n".join(chats + documents) + "\n")
    return path


def answer(*args):
    ran = run_cli(*BASE, *args, "--format", "json")
    assert ran.code in (0, 1) and not ran.err, ran.err
    return json.loads(ran.out)


def rows_of(path):
    with path.open() as stream:
        return [{k: v if k == "class" else float(v or "nan") for k, v in row.items()} for row in csv.DictReader(stream)]


def test_promises_follow_one_another():
    found = limits("ttft=500ms@50,ttft=2s,itl=50ms@99.5,batch:e2e=10min@95,API log:queue=1s").slos
    assert [(p.label, p.seconds, p.share) for p in found] == [
        ("", (("ttft", 0.5),), 0.5),
        ("", (("ttft", 2.0), ("itl", 0.05)), 0.995),
        ("batch", (("e2e", 600.0),), 0.95),
        ("API log", (("queue", 1.0),), 0.99),
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "chat", "batch"]),
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
            st.integers(1, 100),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_said_of_promises_reads_as_they_were_written(rows):
    written = ",".join(
        f"{label}{':' if label else ''}{','.join(f'{name}=250ms' for name in names)}@{share}"
        for label, names, share in rows
    )
    assert limits(limits(written).text) == limits(written)


@pytest.mark.parametrize("written", ["@99", "ttft=1s@", "ttft=1s@99@98", "chat:@99", "ttft=1s,@99", "ttft=1s@99,,itl=2s", "x:y:ttft=1s"])  # fmt: skip
def test_a_promise_that_is_none_is_refused(written):
    with pytest.raises(UsageError, match="--slo"):
        limits(written)


def test_shares_and_percentiles_by_class_are_those_of_the_requests(trace, tmp_path):
    out = tmp_path / "r.csv"
    promise = "ttft=60ms@50,chat:ttft=150ms,itl=15ms@99,batch:e2e=5s@90"
    found = answer("--trace", str(trace), "--slo", promise, "--requests-out", str(out))
    rows = rows_of(out)
    chat, batch = ([r for r in rows if r["class"] == name] for name in ("chat", "batch"))
    inside = [
        sum(r["ttft_s"] <= 0.06 for r in rows) / 420,
        sum(r["ttft_s"] <= 0.15 and r["tpot_s"] <= 0.015 for r in chat) / 360,
        sum(r["e2e_s"] <= 5 for r in batch) / 60,
    ]
    said = found["slo"]["targets"]
    assert [one["attainment"] for one in said] == pytest.approx(inside)
    assert [one["met"] for one in said] == [i >= a for i, a in zip(inside, (0.5, 0.99, 0.9), strict=True)]
    margin = min(i - a for i, a in zip(inside, (0.5, 0.99, 0.9), strict=True))
    assert found["simulate"]["slo_attainment_margin"] == pytest.approx(margin)
    assert found["slo"]["met"] == (margin >= 0)
    good = [
        r for r in rows if r["ttft_s"] <= 0.06 and (r["e2e_s"] <= 5 if r["class"] == "batch" else r["tpot_s"] <= 0.015)
    ]
    assert found["simulate"]["slo_attainment"] == pytest.approx(len(good) / 420)
    assert [(c["class"], c["requests"]) for c in found["classes"]] == [("chat", 360), ("batch", 60)]
    assert found["classes"][1]["e2e_max_s"] == max(r["e2e_s"] for r in batch)
    assert found["classes"][0]["ttft_mean_s"] == pytest.approx(sum(r["ttft_s"] for r in chat) / 360)


def test_a_promise_to_one_class_says_nothing_of_another(trace, tmp_path):
    out = tmp_path / "r.csv"
    found = answer("--trace", str(trace), "--slo", "chat:e2e=900ms@50,batch:e2e=60s@90", "--requests-out", str(out))
    rows = rows_of(out)
    good = sum(r["e2e_s"] <= (0.9 if r["class"] == "chat" else 60) for r in rows)
    assert 60 < good < 420 and found["simulate"]["slo_attainment"] == pytest.approx(good / 420)
    assert [c["slo_attainment"] for c in found["classes"]] == pytest.approx([(good - 60) / 360, 1])
    alone = answer("--trace", str(trace), "--slo", "batch:e2e=60s@90")
    assert alone["simulate"]["slo_attainment"] == 1 and alone["simulate"]["goodput_requests_per_s"] < 1.1 * 60 / 60
    assert "slo_attainment" not in alone["classes"][0]


def test_a_promise_missed_decides_the_exit_and_the_fewest_replicas(trace):
    """The fewest replicas keep to every promise; one fewer misses one, though its chats are served."""
    promise = "chat:ttft=2s@50,batch:e2e=1750ms@99"
    found = answer("--trace", str(trace), "--speed", "3", "--replicas", "min", "--slo", promise)
    fewest = found["simulate"]["replicas"]
    assert fewest > 1 and found["slo"]["met"] and found["slo"]["margin_with_one_fewer_replica"] < 0
    ran = run_cli(*BASE, "--trace", str(trace), "--speed", "3", "--replicas", str(fewest - 1), "--slo", promise)
    assert ran.code == 1 and "missed: 1 of 2 targets" in ran.out and "batch" in ran.out


def test_a_class_that_the_load_does_not_have_is_named(trace):
    ran = run_cli(*BASE, "--trace", str(trace), "--slo", "chats:ttft=1s@99")
    assert ran.code == 2 and "batch, chat" in ran.err
    ran = run_cli(*BASE, "--qps", "1", "--requests", "5", "--slo", "chat:ttft=1s@99")
    assert ran.code == 2 and "a column class" in ran.err


def test_requests_of_the_warm_up_do_not_count(trace, tmp_path):
    out = tmp_path / "r.csv"
    found = answer("--trace", str(trace), "--warmup", "20s", "--slo", "ttft=100ms@50", "--requests-out", str(out))
    every = rows_of(out)
    rows = [r for r in every if r["arrival_s"] >= 20]
    values = found["simulate"]
    assert (len(every), values["requests"]) == (420, len(rows)) and len(rows) == 280
    assert values["ttft_max_s"] == max(r["ttft_s"] for r in rows)
    assert values["duration_s"] == pytest.approx(max(r["arrival_s"] + r["e2e_s"] for r in rows) - 20)
    assert values["output_tokens_per_s"] == pytest.approx(
        sum(r["output"] for r in rows) / values["duration_s"], rel=0.02
    )
    whole = answer("--trace", str(trace))["simulate"]
    assert 0 < values["engine_utilization"] <= 1 and values["steps"] < whole["steps"]
    assert values["itl_mean_s"] == pytest.approx(whole["itl_mean_s"], rel=0.1)  # the same load, third by third
    ran = run_cli(*BASE, "--trace", str(trace), "--warmup", "2h")
    assert ran.code == 2 and "--warmup" in ran.err and "no request" in ran.err


def test_the_course_over_time_adds_up(trace, tmp_path):
    out, single = tmp_path / "t.csv", tmp_path / "r.csv"
    answer(
        "--trace",
        str(trace),
        "--timeline",
        str(out),
        "--every",
        "5s",
        "--requests-out",
        str(single),
        "--slo",
        "ttft=80ms@50",
    )
    course, rows = rows_of(out), rows_of(single)
    assert [r["start_s"] for r in course[:3]] == [0, 5, 10]
    assert sum(r["arrived"] for r in course) == sum(r["ended"] for r in course) == 420
    assert 5 * sum(r["output_tokens_per_s"] for r in course) == pytest.approx(sum(r["output"] for r in rows))
    assert 5 * sum(r["input_tokens_per_s"] for r in course) == pytest.approx(sum(r["prompt"] for r in rows))
    second = [r for r in rows if 5 <= r["arrival_s"] < 10]
    assert course[1]["arrived"] == len(second)
    assert (
        min(r["ttft_s"] for r in second)
        <= course[1]["ttft_p50_s"]
        <= course[1]["ttft_p99_s"]
        <= max(r["ttft_s"] for r in second)
    )
    assert course[1]["slo_attainment"] == pytest.approx(sum(r["ttft_s"] <= 0.08 for r in second) / len(second))
    inside = sum(r["e2e_s"] for r in rows) / max(r["arrival_s"] + r["e2e_s"] for r in rows)
    steady = course[1:-2]
    assert sum(r["batch"] for r in steady) / len(steady) == pytest.approx(
        inside, rel=0.35
    )  # Little, roughly: steps are no instants
    assert math.isnan(course[-1]["ttft_p50_s"]) == (course[-1]["arrived"] == 0)


def test_what_was_drawn_can_be_played_again(tmp_path):
    """--requests-out is a trace: the same requests at the same instants give the same times."""
    out = tmp_path / "r.csv"
    first = answer("--qps", "6", "--requests", "150", "--lengths", "0.5:1", "--requests-out", str(out))["simulate"]
    again = answer("--trace", str(out))["simulate"]
    assert again["ttft_p99_s"] == first["ttft_p99_s"] and again["e2e_mean_s"] == first["e2e_mean_s"]


@pytest.mark.parametrize(("seconds", "step"), [(100, 1.0), (101, 2.0), (86_400, 1000.0), (0.42, 0.005), (1999, 20.0)])
def test_an_interval_is_round(seconds, step):
    assert round_interval(seconds) == pytest.approx(step)


def test_every_needs_a_timeline_and_a_timeline_one_run(trace, tmp_path):
    assert "--timeline" in run_cli(*BASE, "--qps", "1", "--every", "5s").err
    ran = run_cli(*BASE, "--qps", "1,2", "--timeline", str(tmp_path / "t.csv"))
    assert ran.code == 2 and "single simulation" in ran.err
    ran = run_cli(*BASE, "--trace", str(trace), "--timeline", str(tmp_path / "t.csv"), "--every", "1us")
    assert ran.code == 2 and "longer" in ran.err
