"""Replicas that stop: no request is lost, none goes to a stopped replica, and an SLO needs a spare."""

from __future__ import annotations

import json

import pytest
from conftest import examples, run_cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulate.test_schedulers import LENGTHS, ROUND, jobs_of, scheduler

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.simulate import changing_clusters, cluster
from rooflinecli.simulate.changing_clusters import ReplicaFailure
from rooflinecli.simulate.prefix_cache import PrefixCache
from rooflinecli.simulate.replica import Replica, ReplicaLimits
from rooflinecli.simulate.request import INF
from rooflinecli.specs.registry import load

BASE = (
    "simulate",
    "llama-3-8b",
    "--hw",
    "h100",
    "--engine",
    "vllm",
    "--no-interval",
    "--requests",
    "600",
    "--output",
    "128",
)


def made(prices, count, router=ROUND, pool=10**6):
    replicas = [Replica(prices, ReplicaLimits(pool, 64), scheduler(), PrefixCache()) for _ in range(count)]
    return cluster.Cluster(replicas, router)


def run(prices, jobs, found, count=2, router=ROUND, pool=10**6):
    degraded = changing_clusters.DegradedCluster(made(prices, count, router, pool), found)
    return sorted(degraded.run_open_loop(jobs), key=lambda job: job.index), degraded.restarts


@pytest.mark.parametrize("router", ["round-robin", "least-loaded", "prefix"])
def test_a_loss_when_all_is_over_changes_nothing(prices, router):
    rows = [(i / 5, 300 + 50 * (i % 5), 30) for i in range(40)]
    plain = cluster.run_open_loop(made(prices, 3, load("simulate/routers", router)), jobs_of(rows))
    ended, restarts = run(prices, jobs_of(rows), (ReplicaFailure(1, 1e6),), 3, load("simulate/routers", router))
    assert restarts == 0
    before = sorted(plain, key=lambda j: j.index)
    assert [j.replica for j in ended] == [j.replica for j in before]
    assert [t for j in ended for t in (j.first, j.finish)] == pytest.approx(
        [t for j in before for t in (j.first, j.finish)], rel=1e-12
    )


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=LENGTHS,
    pool=st.integers(1200, 6000),
    at=st.lists(st.tuples(st.integers(1, 2), st.floats(0, 3), st.floats(0.01, 4)), min_size=1, max_size=3),
)
def test_every_request_ends_once_where_somebody_is(prices, rows, pool, at):
    found = tuple(ReplicaFailure(*each) for each in at)
    if changing_clusters.max_concurrent_failures(found) > 2:
        return
    ended, _ = run(prices, jobs_of(rows), found, 3, pool=pool)
    assert [job.index for job in ended] == list(range(len(rows)))
    assert all(job.made == job.output and job.arrival <= job.queued <= job.first <= job.finish for job in ended)


def test_what_is_under_way_begins_anew_on_the_other(prices):
    """Two replicas take turns; the second stops at 1 s with its one request half written, and that takes as long again as it ever does."""
    rows = [(0.0, 256, 400), (0.5, 256, 400), (20.0, 256, 400), (30.0, 256, 400)]
    (first, second, third, fourth), restarts = run(prices, jobs_of(rows), (ReplicaFailure(1, 1.0, 24.0),))
    assert restarts == 1 and first.replica == 0 and first.first < 1
    assert second.replica == 0 and second.first > 1 and second.arrival == 0.5
    alone = fourth.finish - fourth.arrival
    assert 1 + alone <= second.finish < 1 + 1.3 * alone  # shared with the first one
    assert (third.replica, fourth.replica) == (0, 1)  # one is away at 20 s, both are there at 30 s


def test_requests_wait_while_nobody_is_there(prices):
    rows = [(0.0, 100, 5), (2.0, 100, 5), (3.0, 100, 5), (9.0, 100, 5)]
    ended, restarts = run(prices, jobs_of(rows), (ReplicaFailure(1, 1.0, 5.0),), 1)
    assert restarts == 0
    assert [job.first > 6 for job in ended] == [False, True, True, True] and ended[1].first < 6.1
    with pytest.raises(Infeasible, match="every replica is lost"):
        run(prices, jobs_of(rows), (ReplicaFailure(1, 1.0),), 1)


def test_losses_are_read():
    assert changing_clusters.losses("1@2min:10min,2@30s") == (
        ReplicaFailure(1, 120.0, 600.0),
        ReplicaFailure(2, 30.0, INF),
    )
    assert changing_clusters.losses("1@0s:500ms") == (ReplicaFailure(1, 0.0, 0.5),)
    assert (
        changing_clusters.max_concurrent_failures(
            (ReplicaFailure(1, 0.0, 10.0), ReplicaFailure(1, 5.0, 10.0), ReplicaFailure(1, 10.0, 1.0))
        )
        == 2
    )
    for wrong in ("", "1", "0@1min", "1@soon", "x@1min", "1@1min:0s", "-1@1min", "1@1min:", "1@5", "1@-500ms"):
        with pytest.raises(UsageError, match="--failures"):
            changing_clusters.losses(wrong)


@pytest.mark.slow
def test_a_promise_that_holds_with_one_away_needs_a_spare():
    asks = ("--qps", "20", "--replicas", "min", "--slo", "ttft=300ms@99", "--format", "json")
    plain, spare = (json.loads(run_cli(*BASE, *asks, *more).out) for more in ((), ("--failures", "1@10s")))
    assert spare["simulate"]["replicas"] > plain["simulate"]["replicas"]
    assert spare["slo"]["met"] and spare["slo"]["margin_with_one_fewer_replica"] < 0
    assert spare["simulate"]["requests_restarted"] > 0 and "restarts" not in plain["simulate"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--qps", "2", "--failures", "1@1s,1@2s"), "there are 1"),
        (("--concurrency", "2", "--failures", "1@1s"), "open loop"),
        (("--qps", "2", "--failures", "one"), "--failures one"),
    ],
)
def test_what_cannot_be_lost_is_refused(more, why):
    ran = run_cli(*BASE, *more)
    assert ran.code == 2 and why in ran.err
