"""What holds of every scheduler, whatever the load; and two loads that a second, independent scheduler answers alike."""

from __future__ import annotations

import random

import pytest
from conftest import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from simulate import tiny

from rooflinecli.simulate.cluster import Cluster, run_closed_loop, run_open_loop
from rooflinecli.simulate.prefix_cache import PrefixCache
from rooflinecli.simulate.replica import SAMPLES, Replica, ReplicaLimits, ReplicaStats, gap_percentiles
from rooflinecli.simulate.request import SimRequest
from rooflinecli.simulate.step_times import KNOTS, StepTimeTable
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.registry import kinds, load
from rooflinecli.specs.scheduler import Scheduler

POLICIES = kinds("simulate/policies")
ROUND = load("simulate/routers", "round-robin")
LENGTHS = st.lists(st.tuples(st.floats(0, 2), st.integers(1, 900), st.integers(1, 200)), min_size=1, max_size=40)


def scheduler(policy="vllm", **more):
    return Scheduler(policy=policy, **{"token_budget": 512, "source": "test", **more})


def run(prices, jobs, setting, pool=10**9, sequences=64, stride=True, replicas=1, store=False):
    made = [
        Replica(prices, ReplicaLimits(pool, sequences, 1e5, 1e10, stride), setting, PrefixCache() if store else None)
        for _ in range(replicas)
    ]
    ended = run_open_loop(Cluster(made, ROUND), jobs)
    return sorted(ended, key=lambda job: job.index), made


def jobs_of(rows):
    return [SimRequest(i, *row) for i, row in enumerate(sorted(rows))]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=LENGTHS, pool=st.integers(1200, 6000), swap=st.booleans(), ahead=st.integers(0, 1), mixed=st.booleans())
def test_nothing_is_lost_and_no_limit_is_passed(prices, policy, rows, pool, swap, ahead, mixed):
    """Requests and tokens are conserved; no step beyond the budget, no instant beyond the pool; time goes forward."""
    setting = scheduler(policy, preemption="swap" if swap else "recompute", look_ahead=ahead, mixed=mixed)
    ended, (replica,) = run(prices, jobs_of(rows), setting, pool)
    assert [job.index for job in ended] == list(range(len(rows)))
    assert all(job.made == job.output for job in ended)
    assert sum(job.preempted for job in ended) == replica.tally.preemptions
    assert replica.tally.output_tokens == sum(job.output for job in ended)
    assert replica.tally.most_used <= pool
    if policy in ("vllm", "sglang"):
        assert replica.tally.most_tokens <= setting.token_budget
    assert all(job.arrival <= job.queued <= job.first <= job.finish for job in ended)
    assert (replica.batch, replica.context, replica.filling, replica.owed, replica.under_way) == (0, 0, 0, 0, 0)
    assert sum(replica.tally.gaps.values()) == sum(job.output - 1 for job in ended)
    waited = sum(job.finish - job.first for job in ended)  # what a preempted one stood still counts to its next token
    assert replica.tally.gap_sum == pytest.approx(waited, rel=1e-9, abs=1e-9)
    if not replica.tally.preemptions:
        assert replica.tally.prompt_tokens == sum(job.prompt for job in ended)
        assert [job.queued for job in ended] == sorted(job.queued for job in ended)  # first come, first served
        inside = sum(job.finish - job.queued for job in ended)
        assert replica.tally.area_batch == pytest.approx(inside, rel=1e-9)  # Little: L = lambda W, over the whole run


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pool", [3000, 10**9])
def test_a_stride_equals_its_steps(prices, policy, pool):
    """Means within 0.1 % of taking every decode step by itself."""
    draw = random.Random(policy)
    rows = [(draw.expovariate(0.2), draw.randint(1, 900), draw.randint(1, 300)) for _ in range(150)]
    runs = [run(prices, jobs_of(rows), scheduler(policy, look_ahead=1), pool, stride=s) for s in (True, False)]
    found = [ended for ended, _ in runs]
    areas = [replica.tally.area_used for _, (replica,) in runs]
    assert areas[0] == pytest.approx(areas[1], rel=5e-3)
    for what in (lambda j: j.first - j.arrival, lambda j: j.finish - j.arrival):
        long, short = (sum(map(what, ended)) for ended in found)
        assert long == pytest.approx(short, rel=1e-3)


@pytest.mark.parametrize(("rate", "pool", "most"), [(20, 10**9, 64), (60, 10**9, 8), (60, 4000, 64)])
def test_a_second_scheduler_agrees(ctx, prices, rate, pool, most):
    """Request by request, against tests/simulate/tiny.py, which takes single steps and asks the engine for each."""
    draw, now, rows = random.Random(rate), 0.0, []
    for _ in range(40):
        now += draw.expovariate(rate)
        rows.append((now, draw.randint(1, 900), draw.randint(1, 12)))
    ended, (replica,) = run(prices, jobs_of(rows), scheduler(), pool, most)
    assert not replica.tally.preemptions  # tiny has none
    expected = tiny.simulate(tiny.Engine(ctx, Layout(zero=0)), rows, 512, pool, 16, most)
    assert [job.first for job in ended] == pytest.approx(expected.first, rel=1e-4)
    assert [job.finish for job in ended] == pytest.approx(expected.finish, rel=1e-4)


class ByFormula(StepTimeTable):
    """Tables of the prices of tiny.Formula."""

    def grow_prompts(self, tokens):
        price = tiny.Formula()
        self.linear = [price.bare(n) for n in range(tokens + 4096)]
        self.scores = [price.scores(n) for n in range(tokens + 4096)]

    def grow_decodes(self, batch):
        price = tiny.Formula()
        self.level = [[price.decode(n, 0)] * (KNOTS + 1) for n in range(batch + 64)]
        self.slope = [[price.decode(n, 1) - price.decode(n, 0)] * (KNOTS + 1) for n in range(batch + 64)]


@pytest.mark.parametrize(
    ("setting", "rules"),
    [
        ({"policy": "vllm"}, {}),
        ({"policy": "vllm", "one_pass": True, "prompt_factor": 1.5}, {"graph": 10**9, "factor": 1.5}),
        ({"policy": "vllm", "look_ahead": 1, "stream_steps": 4}, {"ahead": True, "stream": 4}),
        ({"policy": "vllm", "poll_steps": 3, "graph_tokens": 64, "prompt_factor": 1.5}, {"poll": 3, "graph": 64, "factor": 1.5}),
        ({"policy": "sglang"}, {}),
        ({"policy": "sglang", "mixed": True, "prompt_factor": 1.5}, {"mixed": True, "factor": 1.5}),
        ({"policy": "sglang", "poll_steps": 5, "stream_steps": 10}, {"poll": 5, "stream": 10}),
        ({"policy": "trtllm", "reserve_share": 1.0}, {"reserve": 1.0}),
        ({"policy": "trtllm", "reserve_share": 0.5, "hold_steps": 6, "hold_share": 0.9}, {"reserve": 0.5, "hold": (6, 0.9)}),
        ({"policy": "static"}, {}),
    ],
)  # fmt: skip
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=LENGTHS,
    pool=st.sampled_from([1200, 2500, 10**9]),
    most=st.sampled_from([2, 8, 64]),
    block=st.sampled_from([1, 16]),
)
@example(
    [(0.0, 100, 150), (0.1, 50, 5), (0.15, 60, 90), (0.3, 400, 2)], 10**9, 64, 16
)  # prompts come to a running batch
@example([(0.0, 500, 200), (0.001, 400, 200), (0.002, 100, 150), (0.5, 700, 9)], 1200, 8, 1)  # and overflow its cache
@example(
    [(0, 710, 200), (0, 722, 8), (1, 12, 8), (1, 164, 7), (0.5, 1, 5), (0.5, 278, 49)], 1200, 64, 1
)  # one is preempted again in the step in which its stream interval is full
def test_every_policy_is_that_of_a_second_scheduler(ctx, setting, rules, rows, pool, most, block):
    """Instants of each request and sums over the steps, to the digit, under prices by formula; caches that overflow included."""
    prices = ByFormula(ctx, Layout(zero=0))
    ended, (replica,) = run(prices, jobs_of(rows), scheduler(**setting, block=block), pool, most)
    expected = tiny.simulate(tiny.Formula(), sorted(rows), 512, pool, block, most, setting["policy"], **rules)
    for name in ("queued", "first", "finish", "preempted"):
        assert [getattr(job, name) for job in ended] == pytest.approx(getattr(expected, name), rel=1e-9), name
    tally = replica.tally
    assert (tally.steps, tally.prompt_tokens, tally.most_batch, tally.most_tokens) == (
        expected.steps, expected.prompt_tokens, expected.most_batch, expected.most_tokens
    )  # fmt: skip
    assert (tally.busy, tally.area_batch) == pytest.approx((expected.busy, expected.area))


def test_a_full_pool_preempts_the_last_to_come(prices):
    """Two answers outgrow the cache: the second loses its place, is computed again, and both end whole."""
    rows = [(0.0, 500, 700), (0.001, 500, 700)]
    for how in ("recompute", "swap"):
        ended, (replica,) = run(prices, jobs_of(rows), scheduler(preemption=how), pool=1700)
        assert replica.tally.preemptions >= 1
        assert ended[0].preempted == 0 and ended[1].preempted >= 1
        assert ended[0].finish < ended[1].finish
    rows = [(0.0, 150, 900)] * 3
    ended, (replica,) = run(prices, jobs_of(rows), scheduler(front=0.0, per_stream=0.0, per_token=0.0), pool=1300)
    assert replica.tally.preemptions == sum(job.preempted for job in ended) > max(job.preempted for job in ended) > 1
    assert [job.queued for job in ended] == [0.0] * 3  # a queue is waited in once
    rows = [(0.0, 500, 700), (0.001, 500, 700)]
    reserved, (replica,) = run(prices, jobs_of(rows), scheduler(reserve_share=1), pool=1700)
    assert not replica.tally.preemptions  # the second was never let in
    assert reserved[1].queued >= reserved[0].finish


def test_prompts_first_stops_the_others(prices):
    """SGLang's decodes stand still while a prompt is read, vLLM's ride along in one graph: the largest gap shows it."""
    rows = [(0.0, 50, 300), (0.5, 900, 2)]
    gap = {}
    for policy in ("vllm", "sglang"):
        _, (replica,) = run(prices, jobs_of(rows), scheduler(policy, token_budget=2048, graph_tokens=2048))
        gap[policy] = max(replica.tally.gaps)
    assert gap["sglang"] > gap["vllm"]


def test_prompts_take_longer_where_sequences_decode(prices):
    """An idle replica takes its price, one that decodes the factor times it; a graph of both is one pass."""
    alone = prices.mixed(400, prices.attention(0, 400), 0, 0.0)[0]
    riding = [
        prices.mixed(400, prices.attention(0, 400), 8, 300.0, factor, graph)[0] - prices.decode(8, 300.0)
        for factor, graph in ((1.0, 0), (1.5, 0), (1.0, 408), (1.0, 407))
    ]
    assert riding[0] == pytest.approx(alone) and riding[1] == pytest.approx(1.5 * alone)
    assert riding[2] < 0.7 * alone and riding[3] == riding[0]
    rows = [(0.0, 100, 40), (0.2, 100, 5)]
    first = [run(prices, jobs_of(rows), scheduler(prompt_factor=f))[0] for f in (1.0, 2.0)]
    assert first[0][0].first == first[1][0].first  # no request decoded yet
    assert first[1][1].first > first[0][1].first


def test_a_step_that_no_graph_replays_takes_its_launches(prices):
    """Llama's layer is ten operations, 32 layers: at 1 ms each a mixed step lasts 0.32 s at least; graphs and lone prompts do not wait for it."""
    short, long = prices.attention(0, 64), prices.attention(0, 40_000)
    assert prices.mixed(64, short, 4, 300.0, 1.0, 0, 1e-3)[0] == pytest.approx(0.32)
    assert prices.mixed(64, short, 4, 300.0, 1.0, 68, 1e-3) == prices.mixed(64, short, 4, 300.0, 1.0, 68)
    assert prices.mixed(40_000, long, 4, 300.0, 1.0, 0, 1e-3) == prices.mixed(40_000, long, 4, 300.0)
    rows = [(0.0, 100, 40), (0.2, 100, 5)]
    bare, launched = (run(prices, jobs_of(rows), scheduler(launch=each))[0] for each in (0.0, 1e-3))
    assert bare[0].first == launched[0].first and launched[1].first - launched[1].queued >= 0.32


def test_look_ahead_costs_an_arrival_a_step(prices):
    rows = [(0.0, 100, 200), (0.55, 100, 5)]
    waits = [run(prices, jobs_of(rows), scheduler(look_ahead=a))[0][1] for a in (0, 1)]
    step = prices.decode(1, 150)
    assert waits[1].queued - waits[0].queued == pytest.approx(step, rel=0.05)


def test_all_who_came_during_a_pass_are_in_the_next(prices):
    """Answers of one token: the second and the third prompt come while the first is read, and are read together."""
    first = prices.mixed(200, prices.attention(0, 200), 0, 0)[0]
    ended, (replica,) = run(prices, jobs_of([(0, 200, 1), (first / 3, 200, 1), (first / 2, 200, 1)]), scheduler())
    assert replica.tally.steps == 2 and ended[1].finish == ended[2].finish > ended[0].finish == pytest.approx(first)


def test_equal_prompts_are_read_once(prices):
    """A prefix that was computed before is not computed again, and its cache is shared by those who use it."""
    keys = tuple(range(60))
    jobs = [SimRequest(i, 0.5 * i, 960 + 16, 20, hashes=keys, span=16) for i in range(5)]
    ended, (replica,) = run(prices, jobs, scheduler(), store=True)
    assert [job.hit for job in ended] == [0, 960, 960, 960, 960]
    assert ended[1].first - ended[1].arrival < 0.8 * (ended[0].first - ended[0].arrival)
    assert replica.saved == 0 and replica.store.idle == 960
    assert replica.tally.hit_tokens == 4 * 960


def test_the_last_token_of_a_cached_prompt_is_computed(prices):
    """Its output is the first token: of a prompt that is cached to its end one token is no hit."""
    jobs = [SimRequest(i, 0.5 * i, 960, 20, hashes=tuple(range(60)), span=16) for i in range(2)]
    ended, (replica,) = run(prices, jobs, scheduler(), store=True)
    assert ended[1].hit == replica.tally.hit_tokens == 959


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1), st.integers(1, 60), st.integers(1, 80), st.integers(0, 3)), min_size=1, max_size=40
    ),
    pool=st.integers(1300, 4000),
)
def test_shared_blocks_are_given_back(prices, rows, pool):
    """Whatever is shared and dropped: nothing beyond the pool, nothing held at the end, idle blocks counted right."""
    jobs = [
        SimRequest(i, t, 16 * blocks, out, hashes=tuple(f"{who}/{k}" for k in range(blocks)), span=16)
        for i, (t, blocks, out, who) in enumerate(sorted(rows))
    ]
    ended, (replica,) = run(prices, jobs, scheduler(), pool, store=True)
    assert len(ended) == len(rows) and replica.tally.most_used <= pool
    assert replica.saved == 0 and not any(references for references, _ in replica.store.blocks.values())
    assert replica.store.idle == 16 * len(replica.store.blocks) <= pool


def test_a_closed_loop_keeps_its_number_under_way(prices):
    jobs = [SimRequest(i, 0.0, 100, 30) for i in range(60)]
    replica = Replica(prices, ReplicaLimits(10**9, 64), scheduler())
    ended = run_closed_loop(Cluster([replica], ROUND), jobs, 6)
    assert len(ended) == 60 and replica.tally.most_batch <= 6
    instants = sorted([(j.arrival, 1) for j in ended] + [(j.finish, -1) for j in ended])
    now = most = 0
    for _, change in instants:
        now += change
        most = max(most, now)
    assert most == 6


@pytest.mark.parametrize("count, concurrency, prefill, first", [(40, 4, 1, 4), (40, 4, 2, 8), (3, 8, 1, 3)])
def test_a_closed_loop_over_two_pools(prices, count, concurrency, prefill, first):
    """Each replica of both pools has its clients; whoever ends a request sends the next one at that instant."""
    made = [Replica(prices, ReplicaLimits(10**6, 64), scheduler(), None, hand) for hand in [True] * prefill + [False]]
    router = load("simulate/routers", "least-loaded")
    fleet = Cluster(made[:prefill], ROUND, made[prefill:], router, transfer=1e-9)
    ended = run_closed_loop(fleet, [SimRequest(i, 0.0, 256, 10) for i in range(count)], concurrency)
    clients = min(first + concurrency, count)  # and those of the pool that decodes
    assert len(ended) == count and sum(job.arrival == 0 for job in ended) == clients
    following = sorted(job.arrival for job in ended if job.arrival)
    assert following == sorted(job.finish for job in ended)[: count - clients]


def test_moving_a_cache_between_pools_stands_in_the_gap_after_the_first_token(prices):
    """Ten requests, two pools, a second and a half for each cache: one gap of each answer holds it."""
    made = [Replica(prices, ReplicaLimits(10**6, 64), scheduler(), None, hand) for hand in (True, False)]
    router = load("simulate/routers", "least-loaded")
    fleet = Cluster(made[:1], ROUND, made[1:], router, transfer=1.5 / 512)
    ended = run_open_loop(fleet, [SimRequest(i, i / 2, 512, 20) for i in range(10)])
    gaps: dict[int, int] = {}
    for replica in made:
        for key, count in replica.tally.gaps.items():
            gaps[key] = gaps.get(key, 0) + count
    assert sum(gaps.values()) == 190
    assert sum(r.tally.gap_sum for r in made) == pytest.approx(sum(job.finish - job.first for job in ended))
    within, most = gap_percentiles(gaps, (0.9, 1.0))
    assert within < 0.1 < 1.5 < most < 1.6


def test_samples_of_a_long_run_are_thinned_evenly():
    """By hand: samples double their distance at every 4096th, so that 10,240 steps leave every fourth, 4 to 10,240."""
    stats = ReplicaStats()
    for step in range(1, 5 * SAMPLES + 1):
        stats.count = step
        if step >= stats.due:
            stats.sample(float(step), 1, 0, 0.0)
    assert [instant for instant, *_ in stats.samples] == [4.0 * i for i in range(1, 5 * SAMPLES // 4 + 1)]


def test_a_replica_that_is_idle_after_the_warm_up_has_no_statistics(prices):
    """One replica ends before the warm-up does and never takes the step that starts its statistics over."""
    from rooflinecli.simulate.request import times
    from rooflinecli.simulate.summary import summary

    made = [Replica(prices, ReplicaLimits(10**6, 64), scheduler()) for _ in range(2)]
    for replica in made:
        replica.warm = 50.0
    ended = run_open_loop(Cluster(made, ROUND), jobs_of([(0.0, 64, 32), (0.1, 64, 32), (60.0, 64, 16)]))
    counted = summary(times(ended).since(50.0), made, None, 2.0, warmup=50.0)
    assert sum(sum(replica.tally.gaps.values()) for replica in made) == 15 and counted["requests"] == 1
    last = max(ended, key=lambda job: job.arrival)
    assert counted["itl_mean_s"] == pytest.approx((last.finish - last.first) / 15)
