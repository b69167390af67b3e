"""Limits with a known answer: queues of theory, an empty machine, a full one, twice the machines."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from simulate.test_schedulers import jobs_of, run, scheduler

from rooflinecli.interfaces.python import api
from rooflinecli.questions.simulate.answer import run as answer
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.simulate.request import SimRequest

CHIP = (("dtype", "bf16"), ("engine", "vllm"), ("hw", "h100"), ("model", "llama-3-8b"))
BARE = ("front=0 s,per_stream=0 s,per_token=0 s,look_ahead=0,prompt_factor=1",)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_at_a_time_is_an_m_d_1_queue(prices, load):
    """Poisson arrivals, equal service: the mean wait is rho S / (2 (1 - rho)) (Pollaczek, Khinchine 1932)."""
    service = prices.mixed(512, prices.attention(0, 512), 0, 0)[0]
    draw, now, jobs = random.Random(3), 0.0, []
    for i in range(20_000):
        now += draw.expovariate(load / service)
        jobs.append(SimRequest(i, now, 512, 1))
    ended, _ = run(prices, jobs, scheduler(token_budget=512), sequences=1)
    wait = fmean(job.queued - job.arrival for job in ended)
    assert wait == pytest.approx(load * service / (2 * (1 - load)), rel=0.06)


def test_one_at_a_time_is_an_m_g_1_queue(prices):
    """Service that varies with the answer's length: the mean wait is rate E[S^2] / (2 (1 - rho))."""
    draw, now, jobs, services = random.Random(4), 0.0, [], []
    lengths = [draw.choice((1, 8, 40)) for _ in range(15_000)]
    cost = {
        n: prices.mixed(512, prices.attention(0, 512), 0, 0)[0] + sum(prices.decode(1, 513 + i) for i in range(n - 1))
        for n in (1, 8, 40)
    }
    services = [cost[n] for n in lengths]
    rate = 0.6 / fmean(services)
    for i, n in enumerate(lengths):
        now += draw.expovariate(rate)
        jobs.append(SimRequest(i, now, 512, n))
    ended, _ = run(prices, jobs, scheduler(token_budget=512), sequences=1)
    expected = rate * fmean(s * s for s in services) / (2 * (1 - 0.6))
    assert fmean(job.queued - job.arrival for job in ended) == pytest.approx(expected, rel=0.08)


def test_an_empty_machine_answers_as_the_estimate():
    """Requests far apart: first token and further tokens are those of `roofline estimate --batch 1`."""
    found = answer(
        Simulate(
            **dict(CHIP),
            qps=0.01,
            arrivals="constant",
            prompt="1024",
            output="200",
            num_requests=5,
            fixed_lengths=True,
            scheduler_config=BARE,
        )
    )
    single = api.estimate(
        "llama-3-8b", "h100", dtype="bf16", engine="vllm", prompt=1024, output=200, batch=1, phase=["prefill", "decode"]
    )["phases"]
    assert found.values["ttft_max_s"] == pytest.approx(single["prefill"]["time_s"], rel=1e-6)
    assert found.values["tpot_mean_s"] == pytest.approx(single["decode"]["time_s"], rel=1e-3)


def test_a_full_machine_makes_the_tokens_of_the_largest_batch():
    """More clients than memory holds: throughput is the closed form at the memory-limited batch, within 5 %."""
    most = api.estimate(
        "llama-3-8b", "h100", dtype="bf16", engine="vllm", prompt=1024, output=512, concurrency="max", phase=["decode"]
    )["phases"]["decode"]
    batch = int(most["max_batch"])
    found = answer(
        Simulate(
            **dict(CHIP),
            concurrency=batch + 40,
            requests_per_client=8,
            prompt="1024",
            output="512",
            length_range="0.7:1.3",
            scheduler_config=(*BARE, "reserve_share=1"),
        )
    )
    start, end = (
        0.25 * found.values["duration_s"],
        0.75 * found.values["duration_s"],
    )  # neither the first burst nor the last answers
    ends = found.times.arrival + found.times.e2e
    rate = found.times.output[(ends > start) & (ends <= end)].sum() / (end - start)
    assert rate == pytest.approx(most["tokens_per_s"], rel=0.05)
    assert found.values["kv_cache_usage_max"] > 0.85


@pytest.mark.slow
def test_twice_the_replicas_serve_no_worse():
    """The share inside the limits grows with the replicas, and first tokens come sooner."""
    asked = [
        Simulate(
            **dict(CHIP),
            qps=24.0,
            prompt="2k",
            output="128",
            num_requests=1500,
            replicas=n,
            slo="ttft=500ms,itl=30ms@99",
        )
        for n in (1, 2, 4, 8)
    ]
    found = [answer(one).values for one in asked]
    shares, firsts = [v["slo_attainment"] for v in found], [v["ttft_p99_s"] for v in found]
    assert shares == sorted(shares) and firsts == sorted(firsts, reverse=True)
    assert shares[0] < 0.5 < 0.95 < shares[-1]


def test_a_pipeline_reads_prompts_at_its_stages_rate(ctx):
    """Two stages: a lone prompt takes its whole pass, but the next may start after half of it."""
    from rooflinecli.simulate.step_times import StepTimeTable
    from rooflinecli.specs.layout import Layout

    staged = StepTimeTable(ctx, Layout(pp=2.0, zero=0))
    busy, fill = staged.mixed(512, staged.attention(0, 512), 0, 0)
    assert busy == pytest.approx(fill)
    ended, _ = run(staged, jobs_of([(0.0, 512, 1), (0.0, 512, 1)]), scheduler(token_budget=512))
    assert ended[0].first == pytest.approx(busy + fill) and ended[1].first == pytest.approx(2 * busy + fill)


def test_a_long_prompt_is_longer_in_front_of_the_scheduler():
    """Requests far apart: 4096 tokens at 5 us each are 20.48 ms more until the first token."""
    bare, informed = (
        answer(
            Simulate(
                **dict(CHIP),
                qps=0.01,
                arrivals="constant",
                prompt="4096",
                output="8",
                num_requests=3,
                fixed_lengths=True,
                scheduler_config=each,
            )
        )
        for each in (BARE, (*BARE, "per_token=5 us"))
    )
    assert informed.values["ttft_mean_s"] - bare.values["ttft_mean_s"] == pytest.approx(4096 * 5e-6, rel=1e-6)
