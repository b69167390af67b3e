"""Closed loops of short answers and of equal lengths: an estimate counts them by the rules that a simulation follows."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import run_cli

from rooflinecli.engine import counted_loop as engine_loop
from rooflinecli.engine.serving_load import ReplicaLoad
from rooflinecli.formulas import counted_loop
from rooflinecli.formulas.counted_loop import ROUNDED, SIZES, SPLITS, LoopPrices, count, line, loop_means
from rooflinecli.interfaces import verbs
from rooflinecli.specs.layout import Layout

PRICES = LoopPrices(
    front=0, per_token=0, per_stream=0, prompt=100, steps=4, spread=0, budget=1000, pieces=1, stages=1, factor=1, look_ahead=False, whole=False, rides=True, room=0, adds=0, attention=0, starts=0, launches=0,
    power=1, lone=10, each=1e9, rate=0, slots=float("inf"), decodes=(1, 1, 1, 1), passes=(10, 34, 258), shared=(0,) * 8,
)  # fmt: skip


def two(policy: str, **changed: Any) -> Any:
    """(first token, time of a further one, sequences in its step) of two clients."""
    rules = {"whole": policy == "trtllm", "rides": policy != "sglang"}
    return pytest.approx(count(PRICES._replace(**rules, **changed), 2, 50, 0), rel=0.05)


def test_two_clients_in_lockstep_by_hand() -> None:
    """Both prompts in one pass of 18 s, three steps of 1 s for both, and again."""
    assert two("vllm") == (18, 1, 2)


def test_the_burst_is_one_request_of_each_client() -> None:
    """Whole prompts: the first takes 10 s; the second 10 s and a step of the first client, 1 s."""
    assert two("trtllm", budget=101, each=1).expected[0] == pytest.approx((10 + 21) / 2)


def test_loops_of_any_number_of_clients_are_counted_at_a_few() -> None:
    """A search asks for every number; between two that are counted, first token and step are in proportion and add up to the request."""
    count.cache_clear()
    found = {clients: loop_means(PRICES, float(clients)) for clients in range(1, 65)}
    assert count.cache_info().misses <= len(SIZES) + len(SPLITS)
    assert found[2][:2] == pytest.approx(count(PRICES, 2, 1000, 24)[:2], rel=0.05)
    request = {clients: first + 3 * step for clients, (first, step, *_) in found.items()}
    for clients, low, high in ((7, 4, 8), (9, 8, 16), (20, 16, 32), (60, 32, 64)):
        on_line = request[low] + (request[high] - request[low]) * (clients - low) / (high - low)
        assert request[clients] == pytest.approx(on_line)
        assert found[clients][1] >= 1 and 1 <= found[clients][2] <= clients


def test_two_clients_make_no_fewer_tokens_by_the_digits_that_prices_are_rounded_to() -> None:
    """One after the other, two take twice as long as one: prices of seven digits made that 4e-8 more."""
    asked = {"model": "mixtral-8x7b", "hw": "h200", "n": 1, "tp": 1, "engine": "sglang", "gpu_memory_utilization": 0.85}
    asked |= {"prompt": 2172, "output": 16, "phase": "decode"}
    one, two = (
        verbs.answer(verbs.question("estimate").read({**asked, "concurrency": users}))["phases"]["decode"]
        for users in (1, 2)
    )
    assert one["tokens_per_s"] <= two["tokens_per_s"] <= one["tokens_per_s"] * (1 + 1e-5)


def test_prompts_first_stall_the_others() -> None:
    """The second prompt stalls the first client for 10 s, three of the six tokens of a round; then three steps for both."""
    assert two("sglang", budget=100) == (15, 1 + 10 / 6, 2)


def test_a_prompt_beyond_the_budget_is_read_in_pieces() -> None:
    """60 tokens take 6.8 s and 40 take 5.2: 4 s of a prompt's 12 are fixed, half for each piece; the second also waits for two steps."""
    found = two("vllm", budget=60, pieces=2, passes=(12, 36, 260), each=1)
    assert found.expected[0] == pytest.approx((12 + 26) / 2, rel=0.05)


def test_answers_of_one_token_are_passes_alone() -> None:
    assert two("sglang", steps=1, front=3) == (21, 0, 1)


def test_a_pipeline_takes_the_next_prompt_before_the_last_is_finished() -> None:
    """Two stages of 9 s for both prompts: the first tokens after 18 s, and the replica is free after 9."""
    assert two("vllm", stages=2, steps=1) == (18, 0, 1)


def test_launches_are_the_least_of_a_step_that_decodes() -> None:
    assert two("vllm", budget=101, launches=50).expected[1] > two("vllm", budget=101).expected[1] + 10


def test_a_graph_holds_short_prompts() -> None:
    """After the burst a prompt that comes while the other decodes takes 1 s in a graph, not 10."""
    alone, graph = (
        two("vllm", budget=101, room=room, shared=(0, 0.3, 1, 1, 1, 1, 1, 1)).expected[1] for room in (0, 200)
    )
    assert graph - 1 < (alone - 1) / 5


def test_more_clients_make_no_fewer_tokens_and_no_more_than_prompts_allow() -> None:
    requests = [
        (users, first + 3 * step)
        for users in (1, 2, 3, 5, 8, 9, 17, 33, 64, 65, 200)
        for first, step, *_ in (loop_means(PRICES._replace(spread=0.2, look_ahead=True), users),)
    ]
    assert all(
        after[1] / after[0] <= before[1] / before[0] * (1 + 1e-9) for before, after in itertools.pairwise(requests)
    )
    assert all(seconds >= 8 * users for users, seconds in requests)  # 8 s of each prompt among many


@pytest.mark.parametrize("rate", [0.001, 0.06])
def test_one_server_with_one_queue(rate: float) -> None:
    """Answers of one token, a prompt a pass: an M/D/1 queue, whose mean wait is u t / 2 (1 - u)."""
    first, _, _ = count(PRICES._replace(steps=1, rate=rate, budget=100), 0, 20_000, 0)
    assert first == pytest.approx(10 + rate * 100 / (2 * (1 - rate * 10)), rel=0.05)


def ask(verb: str, options: dict[str, Any]) -> Any:
    return verbs.answer(verbs.question(verb).read(options))


@pytest.mark.slow
def test_more_clients_make_more_tokens_in_a_sweep_as_in_an_estimate() -> None:
    clients = (1, 2, 3, 7, 8, 20, 27, 28, 32, 40, 100)
    for output in (16, 200):  # the last with equal lengths
        load = {"model": "gpt-oss-120b", "hw": "h200", "engine": "sglang", "prompt": 700, "output": output}
        more = {"equal_lengths": True} if output > 16 else {}
        asked = [part for key in ("hw", "engine", "prompt", "output") for part in (f"--{key}", str(load[key]))]
        asked += ["--equal-lengths", "yes"] if more else []
        points = run_cli("sweep", str(load["model"]), *asked, "-n", "1", "--concurrency", ",".join(map(str, clients)),
                         "--phase", "prefill,decode", "--columns", "prefill.time_s,decode.tokens_per_s", "--format", "json").json["points"]  # fmt: skip
        rates = [point["decode.tokens_per_s"] for point in points]
        assert all(more >= fewer * (1 - 1e-9) for fewer, more in itertools.pairwise(rates))
        for point, users in list(zip(points, clients, strict=True))[::3]:
            one = ask("estimate", load | more | {"n": 1, "concurrency": users, "phase": "prefill,decode"})["phases"]
            assert point["prefill.time_s"] == pytest.approx(one["prefill"]["time_s"], rel=1e-9)
            assert point["decode.tokens_per_s"] == pytest.approx(one["decode"]["tokens_per_s"], rel=1e-9)


def test_streams_of_an_open_loop_are_its_rate_times_the_time_of_a_request() -> None:
    """Little's law: N = r (t_first + steps x step), where every stream in flight makes the first token later."""
    slow, plain = (loop_means(PRICES._replace(rate=0.02, per_stream=each, budget=100), 0) for each in (5.0, 0.0))
    in_flight = (slow[0] - plain[0]) / 5.0 - 1  # and the own one of the request
    assert in_flight == pytest.approx(0.02 * (slow[0] + (PRICES.steps - 1) * slow[1])) and slow[1] > 0


def test_a_price_lies_on_straight_lines_over_a_power_of_the_size() -> None:
    sizes, prices = (1.0, 4.0, 16.0), (10.0, 40.0, 60.0)
    assert [line(sizes, prices, size, 1.0) for size in (1, 2, 4, 10, 16, 28)] == pytest.approx([10, 20, 40, 50, 60, 80])
    assert line(sizes, prices, 9.0, 0.5) == pytest.approx(50)  # half way from 2 to 4
    assert line(sizes, prices, 0.0, 1.0) == pytest.approx(0)


def test_a_pass_of_prompts_with_and_without_others() -> None:
    """Of 100 tokens each: 10 s for one, 8 for each further one up to four, 8 from there; 2 of the 10 are fixed."""
    p = PRICES._replace(
        factor=1.5, starts=3, launches=0, room=50, shared=(8.0, 20.0, 68.0, 260.0, 516.0, 1028.0, 2052.0, 4100.0)
    )
    assert (
        p.mixed(100, 0, False) == (10, 0)
        and p.mixed(200, 0, False) == (18, 0)
        and p.mixed(1000, 0, False) == pytest.approx((82, 0))
    )
    assert p.mixed(100, 3, True) == (15, 0)
    assert p.mixed(50, 0, False) == (5 + 2 * 0.5, 0)  # half of a prompt in one piece
    assert p._replace(pieces=2).mixed(50, 0, False) == (5, 0)  # and in two
    # 32 tokens of a graph take 20 s and 8 take 8: half a second each
    assert p.mixed(20, 10, True) == pytest.approx((20 * 0.5 * 1.5, 0)) and p.mixed(40, 10, True)[0] == pytest.approx(
        (20 + 18 * 0.5 - 9) * 1.5
    )
    assert p.mixed(41, 10, True)[0] == pytest.approx(1.5 * (4.1 + 2 * 0.59))
    assert p.mixed(20, 0, False)[0] == pytest.approx(2 + 2 * 0.8)
    # one pass of any number of tokens: half a second each, the prompt's attention and the start of its kernels
    one = p._replace(room=float("inf"), adds=2.0, attention=4.0)
    assert (
        one.mixed(500, 10, True) == pytest.approx(((500 * 0.5 + 5 * 4 + 2) * 1.5, 0))
        and one.mixed(500, 0, True)[0] == 63
    )
    launched = p._replace(launches=7, room=0)
    assert launched.mixed(100, 3, True) == ((10 - 3) * 1.5, 7) and launched.mixed(100, 3, False) == (10, 0)
    assert launched._replace(starts=11).mixed(100, 3, True) == (0, 7)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, ...]]:
    """`count` answers with n for the first token and n / 10 for a further one, of n clients; the calls are kept."""
    calls: list[tuple[float, ...]] = []

    def count(p: LoopPrices, clients: int, some: int, each: int) -> tuple[float, float, float]:
        calls.append((clients, some, each))
        return float(clients or 7), (clients or 7) / 10, clients / 2

    monkeypatch.setattr(counted_loop, "count", count)
    return calls


def test_requests_beyond_the_slots_wait_for_one(counts: list[tuple[float, ...]]) -> None:
    """20 clients on eight slots: a request takes 20 + 3 x 2 s, of which those in flight are 8 of 20."""
    assert loop_means(PRICES._replace(slots=8), 20) == pytest.approx((26 * 8 / 20 - 6, 2, 10, 1)) and counts == [
        (20, 1000, 24)
    ]
    assert loop_means(PRICES._replace(slots=8), 200)[2] == 32 and counts[-1] == (64, 1000, 24)
    assert loop_means(PRICES._replace(slots=70), 200)[2] == 35.5 and counts[-1] == (
        71,
        1000,
        24,
    )  # one more than there are slots
    assert (
        loop_means(PRICES._replace(slots=1), 3)[0] == pytest.approx(3.9 / 3 - 0.9)
        and loop_means(PRICES._replace(slots=1, steps=40), 3)[0] == 0
    )


def test_an_open_loop_is_counted_once_and_its_front_end_grows_with_the_streams(counts: list[tuple[float, ...]]) -> None:
    p = PRICES._replace(rate=0.1, per_stream=2.0)
    in_flight = 0.1 * (7 + 3 * 0.7) / (1 - 0.2)
    assert loop_means(p, 0) == pytest.approx((7 + 2 * in_flight, 0.7, 0, 1)) and counts == [(0, 2000, 0)]
    assert loop_means(p._replace(rate=0.6), 0)[0] == pytest.approx(7 + 2 * 0.6 * 9.1 / 1e-3)


def test_between_numbers_of_clients_a_request_lies_on_a_line(counts: list[tuple[float, ...]]) -> None:
    """One client alone takes 10 + 3 s; four, by their count, 5.2 s, but no fewer than 8 s of a prompt each: 32; eight 64, and six lie between."""
    first, step, decoding, scale = loop_means(PRICES, 6)
    assert counts == [(size, 1000, 24) for size in (2, 3, 4, 8, 6)]
    each = 8 * (1 + 1e-6)  # (258 - 34) / 28 s
    request = 6 * each
    assert (first, step, decoding, scale) == pytest.approx((request * 6 / 7.8, request * 0.6 / 7.8, 3, 7.8 / request))
    alone = loop_means(PRICES, 1)
    assert alone[0] + 3 * alone[1] == pytest.approx(13 * (1 - ROUNDED)) and counts[-1] == (1, 1000, 24)
    # where prompts are quick, the counted seconds stand, and grow no faster than the clients
    quick = PRICES._replace(passes=(0.1, 0.2, 0.3), lone=0.1)
    found = loop_means(quick, 2)
    assert found[0] + 3 * found[1] == pytest.approx(2.6)
    assert counts[-2:] == [(2, 1000, 24), (2, 1000, 24)]


def test_beyond_the_most_that_are_counted_all_grow_as_before(counts: list[tuple[float, ...]]) -> None:
    quick = PRICES._replace(passes=(0.1, 0.2, 0.3), lone=0.1)
    low, high = loop_means(quick, 32), loop_means(quick, 64)
    first, step, decoding, scale = loop_means(quick, 96)
    wanted = [b + 32 * min(max((b - a) / 32, 0), b / 64) for a, b in zip(low[:3], high[:3], strict=True)]
    assert (first, step, decoding) == pytest.approx(wanted) and scale == high[3]
    slow = loop_means(PRICES, 6400)
    assert slow[0] + 3 * slow[1] == pytest.approx(8 * (1 + 1e-6) * 6400)


@pytest.mark.parametrize(
    ("changed", "is_counted"),
    [({}, True), ({"kind": "open"}, True), ({"kind": "static"}, False), ({"policy": "static"}, False), ({"hold_steps": 1}, False),
     ({"poll_steps": 2}, False), ({"splits_layers": True}, True), ({"splits_layers": True, "pp": 2.0}, False)],
)  # fmt: skip
def test_loops_of_schedulers_that_wait_for_more_requests_are_not_counted(changed: dict[str, Any], is_counted: bool) -> None:  # fmt: skip
    """Nor batches without a load, nor engines that split layers between devices."""
    asked = SimpleNamespace(**{"kind": "closed", "policy": "vllm", "hold_steps": 0, "poll_steps": 1, "splits_layers": False, "pp": 1.0} | changed)  # fmt: skip
    ctx: Any = SimpleNamespace(
        engine=SimpleNamespace(scheduler=asked, splits_layers=asked.splits_layers),
        without_trace=lambda layout: (ctx, layout), memoized=lambda *_, **__: "counted",
    )  # fmt: skip
    found = engine_loop.counted(ctx, Layout(pp=asked.pp), ReplicaLoad(asked.kind, 4.0, 8.0))
    assert found == ("counted" if is_counted else None)
