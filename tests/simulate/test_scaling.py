"""Replicas that come and go with the load: when they serve, what is paid, and that no request is lost on the way."""

from __future__ import annotations

import csv
import json

import pytest
from conftest import examples, run_cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulate.test_losses import made
from simulate.test_schedulers import LENGTHS, jobs_of

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate import changing_clusters, cluster
from rooflinecli.simulate.changing_clusters import AutoscaledCluster, AutoscalePolicy
from rooflinecli.specs.registry import load

BASE = ("simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", "--no-interval")
LEAST = load("simulate/routers", "least-loaded")


def run(prices, jobs, rule, router=LEAST):
    state = AutoscaledCluster(made(prices, rule.most, router), rule)
    return sorted(state.run_open_loop(jobs), key=lambda job: job.index), state


def test_as_many_at_least_as_at_most_is_a_fleet(prices):
    rows = [(i / 5, 300 + 50 * (i % 5), 30) for i in range(40)]
    plain = sorted(cluster.run_open_loop(made(prices, 3, LEAST), jobs_of(rows)), key=lambda job: job.index)
    ended, state = run(prices, jobs_of(rows), AutoscalePolicy(3, 3, 1.0, 60.0))
    assert state.paid == [(0.0, 3)] and state.started == 0
    assert [(j.replica, j.finish) for j in ended] == [(j.replica, pytest.approx(j.finish)) for j in plain]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=LENGTHS, gap=st.floats(0, 400), target=st.floats(0.5, 20), start=st.floats(0, 40))
def test_every_request_ends_once_and_no_more_are_paid_than_may_be(prices, rows, gap, target, start):
    """Two bursts, some time apart."""
    twice = rows + [(at + gap, *rest) for at, *rest in rows]
    ended, state = run(prices, jobs_of(twice), AutoscalePolicy(1, 3, target, start))
    assert [job.index for job in ended] == list(range(len(twice)))
    assert all(job.made == job.output and job.arrival <= job.queued <= job.first <= job.finish for job in ended)
    assert all(1 <= count <= 3 for _, count in state.paid)
    assert [at for at, _ in state.paid] == sorted(at for at, _ in state.paid)
    assert state.active_replicas + len(state.draining) + len(state.free) == 3


def test_a_new_one_serves_after_its_start_up_and_is_let_go_after_a_while(prices):
    """By hand: four long requests at 1 s, under way for some 45 s; the look at 15 s asks for three more replicas, which serve at 25 s;
    those at 30 or 45 s are the last to ask for four, so that they are let go five minutes later."""
    early = [(1.0, 100, 6000)] * 4
    late = [(20.0, 100, 5), (26.0, 100, 5), (600.0, 100, 5)]
    ended, state = run(prices, jobs_of(early + late), AutoscalePolicy(1, 4, 1.0, 10.0))
    assert all(30 < job.finish < 60 for job in ended[:4])
    assert ended[4].replica == 0 and ended[5].replica != 0 and ended[6].replica == 0
    assert state.paid[1] == (15.0, 4) and state.started == 3
    last = 15 * (min(job.finish for job in ended[:4]) // 15)  # the last look that asked for four
    assert state.paid[-1] == (last + 315, 1)


def test_what_still_starts_is_let_go_first_and_may_start_again(prices):
    """By hand: a start-up of 400 s is longer than the five minutes after which the three are no longer needed, so that none of them ever serves;
    four requests at 1000 s make the look at 1005 s start three once more, which serve at 1405 s."""
    early, again = [(1.0, 100, 6000)] * 4, [(1000.0, 100, 60000)] * 4
    ended, state = run(
        prices, jobs_of([*early, (420.0, 100, 5), *again, (1406.0, 100, 5)]), AutoscalePolicy(1, 4, 1.0, 400.0)
    )
    assert all(job.finish < 60 for job in ended[:4]) and all(job.finish > 1406 for job in ended[5:9])
    last = 15 * (min(job.finish for job in ended[:4]) // 15)  # the last look that asked for four
    assert state.paid[:4] == [(0.0, 1), (15.0, 4), (last + 315, 1), (1005.0, 4)] and state.started == 6
    assert ended[4].replica == 0 and ended[9].replica != 0


def test_a_part_of_a_target_takes_a_whole_replica(prices):
    """Three requests in flight and two for each replica: two replicas, not one and a half."""
    _, state = run(prices, jobs_of([(1.0, 100, 6000)] * 3), AutoscalePolicy(1, 4, 2.0, 0.0))
    assert state.paid[1] == (15.0, 2)


def test_what_is_paid_is_an_area():
    """Two for ten seconds, four for five, one for five: 45 replica-seconds of 20."""
    paid = [(0.0, 2), (10.0, 4), (15.0, 1)]
    assert changing_clusters.mean_paid(paid, 0, 20) == pytest.approx(45 / 20)
    assert changing_clusters.mean_paid(paid, 12, 16) == pytest.approx((3 * 4 + 1) / 4)
    assert changing_clusters.mean_paid([(0.0, 3)], 0, 1) == 3


@pytest.mark.slow
def test_a_peak_costs_less_where_replicas_come_and_go(tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "course.csv"
    times = [i / 2 for i in range(1200)] + [250 + i / 20 for i in range(1600)]
    path.write_text("time,prompt,output\n" + "".join(f"{t:.3f},1000,128\n" for t in sorted(times)))
    asks = ("--trace", str(path), "--slo", "ttft=2s@90", "--format", "json")
    fixed = json.loads(run_cli(*BASE, *asks, "--replicas", "4").out)["simulate"]
    ran = run_cli(
        *BASE, *asks, "--autoscale", "1:4@12", "--startup-time", "20s", "--timeline", str(out), "--every", "10s"
    )
    scaled = json.loads(ran.out)["simulate"]
    assert 1 < scaled["replicas_mean"] < 4 and scaled["replicas_started"] >= 2 and scaled["requests"] == 2800
    ratio = scaled["usd_per_million_tokens"] / fixed["usd_per_million_tokens"]
    served = fixed["output_tokens_per_s"] / scaled["output_tokens_per_s"]
    assert ratio == pytest.approx(scaled["replicas_mean"] / 4 * served)
    assert 0 < scaled["engine_utilization"] <= 1
    with out.open() as stream:
        counts = [float(row["replicas"]) for row in csv.DictReader(stream)]
    assert counts[5] == 1 and max(counts) > 2
    assert "up to 4 x" in run_cli(*BASE, *asks[:4], "--autoscale", "1:4@12", "--startup-time", "20s").out


def test_rules_are_read():
    assert changing_clusters.autoscale_policy("1:8@32", "3min") == AutoscalePolicy(1, 8, 32.0, 180.0)
    for wrong in ("8", "1:8", "8:1@3", "0:3@1", "1:2@0", "1:2@x", "1:2@inf", ":@"):
        with pytest.raises(UsageError, match="--autoscale"):
            changing_clusters.autoscale_policy(wrong, "3min")
    for start in ("", "soon", "-3s"):
        with pytest.raises(UsageError, match="--startup-time"):
            changing_clusters.autoscale_policy("1:2@3", start)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--qps", "2", "--autoscale", "1:2@3"), "--startup-time"),
        (("--qps", "2", "--startup-time", "3min"), "--autoscale"),
        (("--qps", "2", "--replicas", "3", "--autoscale", "1:2@3", "--startup-time", "1min"), "leave --replicas out"),
        (("--qps", "2", "--replicas", "min", "--slo", "ttft=1s", "--autoscale", "1:2@3", "--startup-time", "1min"), "--replicas min and --autoscale"),
        (("--concurrency", "2", "--autoscale", "1:2@3", "--startup-time", "1min"), "open loop"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(more, why):
    ran = run_cli(*BASE, *more)
    assert ran.code == 2 and why in ran.err
