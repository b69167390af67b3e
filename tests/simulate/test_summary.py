"""Numbers of runs of a few requests, written down by hand: means, percentiles, windows, shares, timelines; and loads by their rules."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.importers.traces.formats import Row
from rooflinecli.simulate import changing_clusters, request_load, slo
from rooflinecli.simulate.replica import SAMPLES, ReplicaStats, gap_percentiles
from rooflinecli.simulate.request import RequestLatencies, SimRequest, percentiles, times
from rooflinecli.simulate.summary import (
    _tokens_written,
    _usage,
    is_short,
    is_sustained,
    round_interval,
    shares_in,
    steady_window,
    summary,
    timeline,
)


def ended(index: int, arrival: float, queued: float, first: float, finish: float, output: int, label: str = "", prompt: int = 100) -> SimRequest:  # fmt: skip
    job = SimRequest(index, arrival, prompt, output, label=label)
    job.queued, job.first, job.finish, job.replica, job.preempted, job.hit = queued, first, finish, 0, 0, 0
    return job


# ten requests a second apart; each is read at once, writes its first token after 0.5 s and nine more in 1.8 s
STEADY = times([ended(i, float(i), float(i), i + 0.5, i + 2.3, 10) for i in range(10)])


def replica(**tally: Any) -> Any:
    counts = {"gaps": Counter(), "gap_sum": 0.0, "busy": 6.0, "area_batch": 20.0, "most_batch": 3, "area_used": 5000.0, "most_used": 800,
              "preemptions": 2, "hit_tokens": 250, "steps": 40, "samples": []}  # fmt: skip
    limits = SimpleNamespace(pool=1000)
    return SimpleNamespace(tally=SimpleNamespace(**{**counts, **tally}), limits=limits, store=None)


def test_latencies_of_a_request() -> None:
    found = times([ended(1, 1.0, 1.25, 2.0, 5.0, 4, "chat"), ended(0, 0.0, 0.0, 1.0, 1.0, 1)])
    assert found.arrival.tolist() == [0, 1] and found.queue.tolist() == [0, 0.25] and found.ttft.tolist() == [1, 1]
    assert found.e2e.tolist() == [1, 4] and found.tpot.tolist() == [0, 1] and found.of("itl") is found.tpot
    assert found.label.tolist() == ["", "chat"] and found.since(1.0).prompt.tolist() == [100]
    assert "label" in found.columns and "label" not in found.since(2.0).columns


def test_percentiles_are_numpy_s() -> None:
    found = percentiles("ttft", np.arange(1.0, 102.0))
    assert found == {
        "ttft_mean_s": 51,
        "ttft_p50_s": 51,
        "ttft_p90_s": 91,
        "ttft_p95_s": 96,
        "ttft_p99_s": 100,
        "ttft_max_s": 101,
    }
    assert set(percentiles("ttft", np.array([])).values()) == {0.0}


def test_a_run_in_numbers() -> None:
    """From 0 to 11.3 s; steady from the median request, 2.3 s, to the last arrival at 9 s."""
    found = summary(STEADY, [replica(), replica(most_used=900, most_batch=5, busy=5.3)], None, devices=4)
    assert (
        found["requests"] == 10
        and found["duration_s"] == pytest.approx(11.3)
        and found["steady_s"] == pytest.approx(6.7)
    )
    # requests 0 to 8 are under way in it: 0 to 2 end at 2.3 to 4.3 s, 6.7 of 7 and of the last ones 7: 2, 8: 1 s
    inside = [0.0, 1.0, 2.0, *[2.3] * 4, 2.0, 1.0, 0.0]
    each = sum(inside) / 2.3 / 6.7
    assert found["requests_per_s"] == pytest.approx(each)
    assert found["input_tokens_per_s"] == pytest.approx(100 * each) and found["output_tokens_per_s"] == pytest.approx(
        10 * each
    )
    assert found["output_tokens_per_s_per_device"] == pytest.approx(10 * each / 4)
    assert found["ttft_mean_s"] == pytest.approx(0.5) and found["tpot_mean_s"] == pytest.approx(0.2)
    assert found["e2e_mean_s"] == pytest.approx(2.3) and found["queue_mean_s"] == 0
    assert found["engine_utilization"] == pytest.approx(11.3 / 22.6) and found[
        "running_requests_mean"
    ] == pytest.approx(40 / 22.6)
    assert found["decode_batch_max"] == 5 and found["kv_cache_usage_mean"] == pytest.approx(10 / 22.6)
    assert found["kv_cache_usage_max"] == 0.9 and found["preemptions"] == 4 and found["steps"] == 80
    assert found["prefix_cache_hit_rate"] == 0.5 and found["itl_mean_s"] == 0
    paid = summary(STEADY, [replica(), replica()], None, devices=4, copies=1.5)
    assert paid["engine_utilization"] == pytest.approx(12 / (11.3 * 1.5))


def test_gaps_are_means_and_percentiles_of_tokens() -> None:
    """Three tokens came 0.2 s after the one before, one 0.4 s; a histogram knows them within half a per cent."""
    stats = ReplicaStats()
    stats.gap(0.2, 3)
    late = ReplicaStats()
    late.gap(0.4, 1)
    found = summary(STEADY, [replica(gaps=one.gaps, gap_sum=one.gap_sum) for one in (stats, late)], None, 1)
    assert found["itl_mean_s"] == pytest.approx(0.25)
    assert found["itl_p50_s"] == pytest.approx(0.2, rel=0.006) and found["itl_p90_s"] == found[
        "itl_max_s"
    ] == pytest.approx(0.4, rel=0.006)
    both = stats.gaps | late.gaps
    assert gap_percentiles(both, (0.75, 0.76)) == [found["itl_p50_s"], found["itl_max_s"]]
    assert gap_percentiles({}, (0.5, 0.9)) == [0.0, 0.0]


def test_samples_over_time_are_thinned_out_and_counts_start_over() -> None:
    stats = ReplicaStats()
    for i in range(2 * SAMPLES):
        stats.count += 1
        stats.sample(float(i), 1, 0, 0.5)
        assert stats.due == stats.count + (1 if i < 2 * SAMPLES - 1 else 2)
    assert len(stats.samples) == SAMPLES and stats.samples[0][0] == 1.0 and stats.every == 2
    stats.steps = 7
    again = stats.reset_copy()
    assert (again.steps, again.samples, again.every, again.count, again.due) == (
        0,
        stats.samples,
        2,
        stats.count,
        stats.due,
    )


def test_requests_of_one_token_have_no_time_between_two() -> None:
    found = summary(times([ended(0, 0.0, 0.0, 1.0, 1.0, 1), ended(1, 2.0, 2.0, 3.0, 3.0, 1)]), [replica()], None, 1)
    assert not [name for name in found if name.startswith(("itl", "tpot"))] and found["ttft_p50_s"] == 1
    mixed = summary(times([ended(0, 0.0, 0.0, 1.0, 1.0, 1), ended(1, 2.0, 2.0, 3.0, 5.0, 3)]), [replica()], None, 1)
    assert mixed["tpot_mean_s"] == 1  # of those that have more


def test_a_warm_up_ends_the_statistics_and_is_no_part_of_the_run() -> None:
    told = []
    one = replica()
    one.end_warmup = lambda: told.append(1)
    found = summary(STEADY.since(4.0), [one], None, 1, warmup=4.0)
    assert told == [1] and found["duration_s"] == pytest.approx(11.3 - 4.0)


def test_what_tiers_brought_back_is_a_share_of_the_prompts() -> None:
    one, two = replica(), replica()
    one.store = SimpleNamespace(tiers=[SimpleNamespace(name="host", loaded=300)])
    two.store = SimpleNamespace(tiers=[SimpleNamespace(name="host", loaded=100)])
    assert summary(STEADY, [one, two], None, 1)["reloaded_host_share"] == pytest.approx(0.4)


def test_a_burst_has_no_steady_part() -> None:
    burst = times([ended(i, 0.0, 0.0, 1.0, 4.0, 5) for i in range(3)])
    assert steady_window(burst) == (0, 4)
    # from the median request at 3 s to the last arrival at 4 s is a fifth of five seconds, of 5.1 less
    for last, window in ((1.0, (3.0, 4.0)), (1.1, (0.0, 5.1))):
        ends = ended(3, 4.0, 4.0, 4.5, 4.0 + last, 5)
        over = [ended(i, 0.0, 0.0, 1.0, 3.0, 5) for i in range(5)]
        between = [ended(i, 3.0, 3.0, 3.5, 4.0, 5) for i in range(3)]
        assert steady_window(times([*over, *between[:2], ends])) == pytest.approx(window)
        for few in ([], between[:1], [ended(9, 0.0, 0.0, 1.0, 3.5, 5)]):
            assert steady_window(times([*over, *few, ends])) == pytest.approx((0.0, 4 + last))


def test_two_requests_of_a_trace_have_the_rate_of_the_run() -> None:
    """Between the end of the first and the arrival of the last there is nothing to count but what rounding leaves."""
    found = summary(times([ended(0, 1.0, 1.0, 1.03, 1.1, 10), ended(1, 5.0, 5.0, 5.03, 5.1, 10)]), [replica()], None, 1)
    assert found["output_tokens_per_s"] == pytest.approx(20 / 4.1)


def test_how_much_of_a_request_lies_in_a_window() -> None:
    assert shares_in(STEADY, (1.0, 2.15)).tolist() == pytest.approx([0.5, 0.5, 0.15 / 2.3, *[0.0] * 7])


@pytest.mark.parametrize("spacing, short", [(1.27, True), (1.28, False)])
def test_a_run_is_short_below_five_requests_one_after_the_other(spacing: float, short: bool) -> None:
    """Nine gaps of 1.27 s are less than 5 x 2.3 s."""
    assert (
        is_short(times([ended(i, i * spacing, 0.0, i * spacing + 0.5, i * spacing + 2.3, 10) for i in range(10)]))
        is short
    )


def _queue(count: int, late: float, waiting: int) -> RequestLatencies:
    """Arrivals a second apart; the last fifth waits `late`, the others 1 s, and `waiting` requests still wait at the last arrival."""
    waits = [late if i >= 0.8 * count else 1.0 for i in range(count)]
    for i in range(count - waiting, count):
        waits[i] = max(waits[i], count - 1 - i + 0.5)
    return times([ended(i, float(i), float(i), i + waits[i], i + waits[i] + 1, 2) for i in range(count)])


def test_an_open_load_is_sustained_until_its_queue_grows() -> None:
    assert is_sustained(STEADY)
    assert is_sustained(_queue(100, 1.0, 8)) and not is_sustained(_queue(100, 9.0, 9))
    assert is_sustained(_queue(100, 8.0, 8))  # eight may come together by chance
    assert (
        is_sustained(_queue(100, 1.4, 0))
        and is_sustained(_queue(1000, 19.6, 20))
        and not is_sustained(_queue(1000, 21.4, 21))
    )
    # recorded arrivals come in bursts: a tenth of them may wait
    assert not is_sustained(_queue(100, 9.6, 10)) and is_sustained(_queue(100, 9.6, 10), recorded=True)
    assert not is_sustained(_queue(100, 10.6, 11), recorded=True)
    # many wait at the end, but no longer than in the middle
    assert is_sustained(times([ended(i, float(i), float(i), i + 30.0, i + 31.0, 2) for i in range(100)]))


@pytest.mark.parametrize("seconds, step", [(100, 1), (101, 2), (201, 5), (501, 10), (0.001, 1e-5), (1e-9, 1e-6)])
def test_about_a_hundred_intervals(seconds: float, step: float) -> None:
    assert round_interval(seconds) == pytest.approx(step)


def test_a_timeline_of_ten_requests() -> None:
    limits = slo.limits("ttft=400ms@50")
    found = timeline(STEADY, [], every=4.0, limits=limits, paid=[(0.0, 1), (6.0, 3)])
    assert (
        found["start_s"].tolist() == [0, 4, 8]
        and found["arrived"].tolist() == [4, 4, 2]
        and found["ended"].tolist() == [2, 4, 4]
    )
    assert found["input_tokens_per_s"].tolist() == [100, 100, 50]
    assert found["ttft_p50_s"] == pytest.approx([0.5] * 3) and found["e2e_p99_s"] == pytest.approx([2.3] * 3)
    assert found["slo_attainment"].tolist() == [0, 0, 0] and found["replicas"].tolist() == [1, 2, 3]
    # until 4 s: 10 + 10 tokens, and of the request from 2 s one and (4 - 2.5) / 0.2, of that from 3 s one and 0.5 / 0.2
    written = 20 + 8.5 + 3.5
    assert found["output_tokens_per_s"][0] == pytest.approx(written / 4) and (
        found["output_tokens_per_s"] * 4
    ).sum() == pytest.approx(100)
    late = timeline(times([ended(0, 0.0, 0.0, 1.0, 2.0, 2), ended(1, 9.0, 9.0, 10.0, 12.0, 2)]), [], every=4.0)
    assert np.isnan(late["ttft_p50_s"][1]) and late["arrived"].tolist() == [1, 0, 1] and "replicas" not in late
    with pytest.raises(UsageError, match=r"11\.3 s are more than 100,000 intervals"):
        timeline(STEADY, [], every=1e-4)
    assert len(timeline(STEADY, [])["start_s"]) == 57  # of 0.2 s


def test_tokens_until_an_edge() -> None:
    one = times([ended(0, 0.0, 0.0, 1.0, 3.0, 5)])
    assert _tokens_written(one, np.array([0.0, 1.0, 2.0, 9.0])).tolist() == [0, 1, 3, 5]


def test_samples_of_replicas_add_up_by_interval() -> None:
    samples = [(0.5, 2, 1, 0.1), (1.5, 4, 3, 0.5), (2.5, 6, 0, 0.2)]
    found = _usage([replica(samples=samples), replica()], np.array([0.0, 2.0, 4.0, 6.0]))
    assert found["batch"].tolist() == [3, 6, 6] and found["queue"].tolist() == [3, 0, 0]
    assert found["kv_use_share"].tolist() == [0.5, 0.2, 0.2]


@pytest.mark.parametrize("written, cv", [("poisson", 1.0), ("gamma:2", 2.0), ("gamma:0.5", 0.5)])
def test_gaps_between_arrivals_have_their_mean_and_variation(written: str, cv: float) -> None:
    found = request_load.arrival_times(written, 4.0, 20_000, seed=1)
    gaps = np.diff(found)
    assert (
        found[0] == 0
        and gaps.mean() == pytest.approx(0.25, rel=0.05)
        and gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)
    )
    assert (
        found
        == request_load.arrival_times(written, 4.0, 20_000, seed=1)
        != request_load.arrival_times(written, 4.0, 20_000, seed=2)
    )


def test_constant_arrivals_and_those_that_are_none() -> None:
    assert request_load.arrival_times("constant", 4.0, 3, seed=1) == [0, 0.25, 0.5]
    for written in ("gamma:0", "gamma:100", "gamma:", "gamma:x", "uniform:2"):
        with pytest.raises(UsageError, match="--arrivals"):
            request_load.arrival_times(written, 4.0, 3, seed=1)
    assert request_load.arrival_times("gamma:99", 4.0, 1, seed=1) == [0]


@pytest.mark.parametrize(
    "written, mean, deviation",
    [("400", 400, 0), ("uniform:100,300", 200, 200 / 12**0.5), ("exponential:500", 500, 500), ("lognormal:300,0.5", 300, 300 * (math.exp(0.25) - 1) ** 0.5)],
)  # fmt: skip
def test_lengths_have_the_mean_and_deviation_of_their_distribution(written: str, mean: float, deviation: float) -> None:
    found = request_load.lengths("prompt", written)
    drawn = np.array(found.draw(20_000, 3, 1))
    assert (
        found.mean == mean
        and drawn.mean() == pytest.approx(mean, rel=0.03)
        and drawn.std() == pytest.approx(deviation, rel=0.05)
    )
    assert (drawn.min() >= 1 and found.draw(5, 3, 1) == found.draw(5, 3, 1) != found.draw(5, 3, 2)) or not deviation
    scaled = request_load.lengths("prompt", written, (0.5, 1.0))
    assert scaled.mean == 0.75 * mean and np.mean(scaled.draw(20_000, 3, 1)) == pytest.approx(0.75 * mean, rel=0.03)
    assert request_load.Lengths("fixed", (0.1,)).mean == 1


@pytest.mark.parametrize(
    "written",
    [
        "uniform:300,100",
        "uniform:1",
        "lognormal:300,6",
        "lognormal:300",
        "exponential:0.5",
        "normal:3,4",
        "uniform:0.5,3",
    ],
)
def test_distributions_out_of_range(written: str) -> None:
    with pytest.raises(UsageError, match="--output"):
        request_load.lengths("output", written)


def test_edges_of_distributions_are_taken() -> None:
    assert request_load.lengths("output", "uniform:100,100").draw(2, 1, 1) == [100, 100]
    assert request_load.lengths("output", "lognormal:300,0").draw(2, 1, 1) == [300, 300]
    assert request_load.lengths("output", "lognormal:300,5").values == (300, 5)
    assert request_load.lengths("output", "uniform:1,3").values == (1, 3)


def test_factors_of_lengths_and_windows_of_traces() -> None:
    assert (
        request_load.spread("0.8:1") == (0.8, 1)
        and request_load.spread("1:1") == (1, 1)
        and request_load.spread("0.1:100") == (0.1, 100)
    )
    for written in ("0:1", "1:0.8", "1", "1:101", "a:b"):
        with pytest.raises(UsageError, match="--length-range"):
            request_load.spread(written)
    assert request_load.between("10min:20min") == (600, 1200) and request_load.between(":30") == (0, 30)
    assert request_load.between("1.5:2") == (1.5, 2)
    for written in ("20:10", "10:10", "10", "x:y"):
        with pytest.raises(UsageError, match="--trace-window"):
            request_load.between(written)


def row(time: float | None, prompt: int = 10, session: str = "", think: float | None = None) -> Row:
    return Row(time=time, prompt=prompt, output=5, session=session, think=think)


def test_a_window_keeps_its_rows_and_a_speed_divides_times() -> None:
    rows = [row(100.0), row(110.0), row(120.0), row(130.0)]
    assert [r.time for r in request_load._cut(rows, 2.0, "10:30", 0)] == [0, 5]
    assert [r.time for r in request_load._cut(rows, 1.0, "", 3)] == [0, 10, 20]
    talk = [
        row(0.0, session="a"),
        row(None, session="a", think=4.0),
        row(50.0, session="b"),
        row(None, session="b", think=6.0),
    ]
    kept = request_load._cut(talk, 2.0, "40:60", 0)
    assert [(r.session, r.time, r.think) for r in kept] == [("b", 5, None), ("b", None, 3)]


def test_turns_follow_the_answers_before_them() -> None:
    talk = [row(3.0, 1), row(1.0, 2, "a"), row(None, 3, "a", 4.0), row(None, 4, "a", 5.0), row(2.0, 5, "b")]
    trace = request_load.Trace(talk, 0, "csv")
    assert trace.timed and trace.means == (3, 5) and not request_load.Trace([row(None)], 0, "csv").timed
    assert request_load.Trace([], 0, "csv").means == (0, 0)
    jobs, follow = trace.jobs()
    assert [(j.index, j.arrival, j.prompt) for j in jobs] == [(1, 1, 2), (2, 2, 5), (0, 3, 1)] and follow is not None
    asking = next(j for j in jobs if j.session == "a")
    asking.finish = 10.0
    second = follow(asking)
    assert second is not None and (second.index, second.arrival, second.prompt, second.think) == (3, 14, 3, 4)
    second.finish = 20.0
    third = follow(second)
    assert third is not None and (third.index, third.arrival, third.prompt) == (4, 25, 4) and follow(third) is None
    assert follow(next(j for j in jobs if j.session == "b")) is None
    drawn, _ = trace.jobs(lambda count: [0.5 * i for i in range(count)])
    assert [j.arrival for j in drawn] == [0, 0.5, 1]


def test_rules_of_an_autoscaler_and_of_failures() -> None:
    found = changing_clusters.autoscale_policy("1:8@32", "3min")
    assert (found.least, found.most, found.target, found.start) == (1, 8, 32, 180)
    assert changing_clusters.autoscale_policy("2:2@0.5", "0 s").start == 0
    for written in ("0:8@32", "9:8@32", "1:8", "1@32", "1:8@0", "1:8@inf", "a:8@3"):
        with pytest.raises(UsageError, match="--autoscale"):
            changing_clusters.autoscale_policy(written, "3min")
    with pytest.raises(UsageError, match="how long until a new replica serves"):
        changing_clusters.autoscale_policy("1:8@32", "")
    for start in ("soon", "-1 s"):
        with pytest.raises(UsageError, match="--startup-time"):
            changing_clusters.autoscale_policy("1:8@32", start)
    two = changing_clusters.losses("2@2min:10min,1@11min")
    assert [(one.count, one.instant, one.downtime_s) for one in two] == [(2, 120, 600), (1, 660, float("inf"))]
    assert changing_clusters.max_concurrent_failures(two) == 3
    assert (
        changing_clusters.max_concurrent_failures(changing_clusters.losses("2@2min:10min,1@12min")) == 2
    )  # one is back as one fails
    for written in ("0@2min", "1", "1@2min:0s", "x@1min", "1@-1s"):
        with pytest.raises(UsageError, match="--failures"):
            changing_clusters.losses(written)
    assert changing_clusters.mean_paid([(0.0, 2), (10.0, 4), (15.0, 1)], 5.0, 20.0) == pytest.approx(
        (5 * 2 + 5 * 4 + 5) / 15
    )
