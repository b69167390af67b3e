"""A replica under load: how many sequences it holds, what prompts of others add, and how long a first token waits."""

from __future__ import annotations

import math

import pytest
from end_to_end_arithmetic.conftest import HAND
from end_to_end_arithmetic.hand import attention, total
from end_to_end_arithmetic.serving import SEQUENCE, STEP, B, S, ends, layer, prompt_layer, token_layer

from rooflinecli.formulas import closed_loop

# engines/python-server.yaml
HOLD, AHEAD, FRONT, STREAM, ERROR, BUDGET = 0, 1, 25e-3, 0.4e-3, 0.95, 8192
FRACTION, RESERVE, MOST = 0.92, 2e9, 2048
STARTS = 6 * 10e-6
LOAD = {"prompt": 200, "output": 100}
DECODE = total(6 * token_layer() + ends(B, B)) + STARTS + STEP + B * SEQUENCE  # a step of 8 sequences at 250 tokens


pytestmark = pytest.mark.usefixtures("means")


def many_prompts(tokens: int) -> float:
    """Seconds per prompt of a pass over 2^20 prompts, kernel by kernel: weights and starts vanish, the rest is linear."""
    n = 2**20
    m = n * tokens
    compute, stream = 50e12, 0.8e12

    def multiply(rows: float, k: int, width: int) -> float:
        t_c = 2 * rows * k * width * (1 + 32 / k) / compute
        t_m = (rows * k + k * width + rows * width) * 2 / stream
        return math.hypot(t_c, t_m) + 3e-6 + 0.5e-9 * k + rows * k * 3 / 0.4e12

    def sweep(elements: float) -> float:
        return ((1e-6) ** 3 + (elements * 2 / 0.5e12) ** 3) ** (1 / 3)

    pairs = tokens * tokens / 2
    core = 2 * n * 4 * pairs * 64 * (1 + 24 / 32) * (1 + 16 * tokens / pairs) / 40e12
    tail = 4 * 40 * (32 + 24) * tokens / 40e12
    traffic = n * tokens * 6 * 64 * 2 / 0.7e12
    append = m * 2 * 64 * 4 / 0.6e12
    attention = core + tail + traffic + 5e-6 + append + m * 4 / 128 * 7e-9
    layer = 2 * sweep(2 * m * 256) + sweep(2 * m * 192) + sweep(m * 1536) + sweep(6 * m * 256) + attention
    layer += multiply(m, 256, 256) + multiply(m, 128, 256) + multiply(m, 256, 1024) + multiply(m, 512, 256)
    ends = 2 * m * 256 * 2 / 0.25e12 + 2e-6 + sweep(2 * m * 256) + multiply(n, 256, 1000)
    return (6 * layer + ends + STARTS) / n


def test_a_closed_loop_adds_the_prompts_of_the_other_seven(ask):
    """Each of the others brings a new prompt every 100 steps; the engine's time per step is paid once, not by the prompt."""
    answer = ask("dense", "decode", concurrency=B, **LOAD)
    added = 7 / 100 * many_prompts(200)
    assert answer["time_s"] == pytest.approx(DECODE + added, rel=1e-9)
    assert answer["breakdown_s"]["prefill_interference"] == pytest.approx(added)
    assert answer["load_kind"] == "closed" and answer["batch"] == B


def test_one_sequence_is_disturbed_by_nobody(ask):
    assert ask("dense", "decode", concurrency=1, **LOAD)["breakdown_s"]["prefill_interference"] == 0


def together(prompts: int, tokens: int) -> float:
    """Seconds of one pass over several prompts, kernel by kernel."""
    core = attention(prompts, tokens, 4, 2, 32, 32, tokens * tokens / 2, span=tokens)
    kernels = 6 * layer(prompts * tokens, core) + ends(prompts * tokens, prompts)
    return total(kernels) + STARTS + STEP + prompts * SEQUENCE


def following(itl: float, slots: int) -> float:
    """A request that follows another: three busy steps, then one that holds its prompt's own pass, half of the chance that another's is in front."""
    share = slots * many_prompts(200) / (100 * itl)
    return (HOLD + AHEAD) * itl + (DECODE + together(1, 200)) * (1 + share / 2)


def test_a_first_token_in_a_closed_loop(ask):
    """A tenth of the requests come in the burst at the start: eight prompts in one pass, which all wait for."""
    alone = ask("dense", "prefill", prompt=200, output=100)["time_s"]
    itl = ask("dense", "decode", concurrency=B, **LOAD)["time_s"]
    answer = ask("dense", "prefill", concurrency=B, **LOAD)
    seconds = together(B, 200) / 10 + 0.9 * following(itl, B) + FRONT + B * STREAM
    assert answer["time_s"] == pytest.approx(seconds)
    assert answer["breakdown_s"]["waiting"] == pytest.approx(seconds - alone)
    assert answer["interval_s"] == pytest.approx([seconds / (1 + ERROR), seconds * (1 + ERROR)])


def test_a_slot_alone_waits_for_nobody(ask):
    """No other request is in flight: every request is read at once, whether it follows another or not."""
    alone = ask("dense", "prefill", prompt=200, output=100)["time_s"]
    for per_slot in (1, 10, "inf"):
        found = ask("dense", "prefill", concurrency=1, prompts_per_slot=per_slot, **LOAD)["time_s"]
        assert found == pytest.approx(alone + FRONT + STREAM)


def test_two_slots_wait_no_longer_than_one_after_the_other_would(ask):
    """Answers of one token: the second request ends when two have been read alone, sooner than the three steps of its turn."""
    own = {"prompt": 200, "output": 1, "prompts_per_slot": "inf", "scheduler": "poll_steps=5,front=0 s,per_stream=0 s"}
    alone = ask("dense", "prefill", prompt=200, output=1)["time_s"]
    step = sum(
        ask("dense", "decode", concurrency=2, **own)["breakdown_s"].values()
    )  # which no one waits for, so it is no ITL
    assert (4 / 2 + AHEAD) * step > 2 * alone
    assert ask("dense", "prefill", concurrency=2, **own)["time_s"] == pytest.approx(2 * alone)


def test_prompts_per_slot_say_how_much_of_a_loop_is_its_burst(ask):
    itl = ask("dense", "decode", concurrency=B, **LOAD)["time_s"]
    steady, once = (
        ask("dense", "prefill", concurrency=B, prompts_per_slot=n, **LOAD)["time_s"] - FRONT - B * STREAM
        for n in ("inf", 1)
    )
    assert steady == pytest.approx(following(itl, B))
    assert once == pytest.approx(together(B, 200))


def test_a_budget_takes_the_burst_in_turns(ask):
    """Three prompts of 200 tokens a step of 600: eight take three passes, so that a first token waits for two of them in the mean,
    the second of which meets half of the sequences decoding."""
    seconds = ask("dense", "prefill", concurrency=B, prompts_per_slot=1, token_budget=600, **LOAD)["time_s"]
    assert seconds == pytest.approx(2 * together(3, 200) + DECODE / 2 + FRONT + B * STREAM)


def test_a_launched_step_takes_no_less_than_its_launches(ask):
    """vLLM's 80 us for each of 60 operations in 6 layers, where the prompt takes less; its factor of 1.1 where it takes more."""
    own = {"concurrency": B, "prompts_per_slot": "inf", "engine": "vllm", **LOAD}
    bare = "graph_tokens=0,look_ahead=0,front=0 s,per_token=0 s,per_stream=0 s"
    alone = ask("dense", "prefill", prompt=200, output=100, engine="vllm")["time_s"]
    itl, step = (ask("dense", "decode", **load)["time_s"] for load in (own, {**LOAD, "batch": B, "engine": "vllm"}))
    share = B * 1.1 * many_prompts(200) / (100 * itl)
    for launch, mixed in (("80 us", 6 * 10 * 80e-6), ("0 s", step + 1.1 * alone)):
        found = ask("dense", "prefill", **own, scheduler=f"{bare},launch={launch}")["time_s"]
        assert found == pytest.approx(mixed * (1 + share / 2))


BARE = "look_ahead=0,front=0 s,per_token=0 s,per_stream=0 s"


def shared_step(ask, model: str, scheduler: str, factor: float, **more) -> tuple[float, float, float]:
    """Of vLLM: a step that holds a prompt, from what a request that follows another waits, half of the chance of another taken off and, where
    prompts fit into a graph, half of the step under way; then a decode step and a prompt's own pass."""
    asked = {**LOAD, "engine": "vllm", **more}
    own = {**asked, "concurrency": B, "prompts_per_slot": "inf", "scheduler": f"{BARE},{scheduler}"}
    itl, step = (ask(model, "decode", **load)["time_s"] for load in (own, {**asked, "batch": B}))
    share = B * factor * (itl - step) / 7 / itl  # seven others' prompts lie between tokens, a hundredth in each step
    under_way = itl / 2 if int(scheduler.split(",")[0].removeprefix("graph_tokens=")) >= asked["prompt"] else 0.0
    return (
        (ask(model, "prefill", **own)["time_s"] - under_way) / (1 + share / 2),
        step,
        ask(model, "prefill", **asked)["time_s"],
    )


@pytest.mark.parametrize(("model", "factor"), [("dense", 1.1), ("moe", 1.4)])
def test_prompts_beside_decodes_take_longer_and_more_so_in_a_mixture(ask, model, factor):
    mixed, step, alone = shared_step(ask, model, "graph_tokens=0,launch=0 s", factor)
    assert mixed == pytest.approx(step + factor * alone)


@pytest.mark.parametrize(("chip", "starts"), [("h100", 4 * 0.3e-3), (HAND, 0.0)])
def test_launches_of_a_shared_step_replace_what_a_prompt_starts(ask, chip, starts):
    """vLLM's further 0.3 ms of each of four layers of experts are starts, which a step that is launched one by one has already; where the
    chip's file says what a layer takes to start, a prompt's pass has none of them, and there is nothing to replace."""
    mixed, step, alone = shared_step(ask, "moe", "graph_tokens=0,launch=1 ns", 1.4, chip=chip)
    assert alone > starts and mixed == pytest.approx(step + 1.4 * (alone - starts))


def test_prompts_fill_no_more_than_all_of_the_time(ask):
    """64 slots whose answers have one token each bring 64 prompts a step, more than it holds: another is in front half of the times, no more."""
    own = {"prompt": 1000, "output": 1, "engine": "vllm", "n": 1}
    settings = {"concurrency": 64, "prompts_per_slot": "inf", "scheduler": f"{BARE},graph_tokens=0,launch=0 s"}
    alone, step = ask("dense", "prefill", **own)["time_s"], ask("dense", "decode", batch=64, **own)["time_s"]
    itl = sum(ask("dense", "decode", **own, **settings)["breakdown_s"].values())
    assert 64 * 1.1 * (itl - step) / 63 > itl
    assert ask("dense", "prefill", **own, **settings)["time_s"] == pytest.approx(1.5 * (step + 1.1 * alone))


def test_looks_that_a_scheduler_skips_gather_prompts(ask):
    """A look every eleventh step: five steps in the mean until it comes, and whoever came in ten steps is read in the same pass."""
    mixed, step, _ = shared_step(ask, "dense", "graph_tokens=0,launch=0 s", 1.1)
    own = {**LOAD, "engine": "vllm", "concurrency": B, "prompts_per_slot": "inf"}
    itl = ask("dense", "decode", **own)["time_s"]
    cost = (itl - step) * 100 / 7
    share = B * 1.1 * cost / (100 * itl)
    found = ask("dense", "prefill", **own, scheduler=f"{BARE},graph_tokens=0,launch=0 s,poll_steps=11")["time_s"]
    assert found == pytest.approx(5 * itl + (mixed + 1.1 * 10 * B / 100 * cost) * (1 + share / 2))


def test_messages_of_eleven_tokens_wait_for_ten_more(ask):
    """Under speculation a round leaves 1.875 tokens, and what a message waits for is counted in rounds."""
    own = {**LOAD, "engine": "vllm", "concurrency": B, "prompts_per_slot": "inf"}
    for more, tokens in (({}, 1), ({"speculate": "eagle", "draft_tokens": 3, "acceptance": 0.5}, 1.875)):
        itl = ask("dense", "decode", **own, **more)["time_s"]
        at_once, later = (
            ask("dense", "prefill", **own, **more, scheduler=f"stream_steps={steps}")["time_s"] for steps in (1, 11)
        )
        assert later - at_once == pytest.approx(10 * itl * tokens)


def test_a_cached_prefix_is_tokenised_all_the_same(ask):
    """A front end of 3 us a token reads the whole prompt, cached or not."""
    own = {**LOAD, "engine": "vllm", "concurrency": B, "prefix_hit": 0.5}
    bare, paid = (
        ask("dense", "prefill", **own, scheduler=f"front=0 s,per_token={cost}")["time_s"] for cost in ("0 s", "3 us")
    )
    assert paid - bare == pytest.approx(200 * 3e-6)


def test_an_ideal_engine_launches_nothing(ask):
    mixed, step, alone = shared_step(ask, "dense", "graph_tokens=0,launch=80 us", 1.1, efficiency="ideal")
    assert mixed == pytest.approx(step + 1.1 * alone) and mixed < 60 * 80e-6


def test_a_step_that_a_graph_holds_shares_its_weights(ask):
    """Prompts of 160 to 240 tokens and eight of decodes fit into a graph of 248, where no other prompt came with them, e^-0.08: what a pass over
    all takes more than one over the eight, and no launches. Half of them fit into one of 208, and none into one of 168."""

    def kernels(tokens: int, keys: int) -> float:
        core = attention(1, tokens, 4, 2, 32, 32, tokens * keys / 2, keys=keys)
        return total(6 * layer(tokens, core) + ends(tokens, 1))

    launched, alone_in_it = 60 * 80e-6, math.exp(-8 / 100)
    for room, share in ((248, 1.0), (208, 0.5), (168, 0.0)):
        mixed, step, _ = shared_step(ask, "dense", f"graph_tokens={room},launch=80 us", 1.1)
        replayed, fits = step + 1.1 * (kernels(208, 200) - kernels(8, 1)), share * alone_in_it
        assert mixed == pytest.approx(fits * replayed + (1 - fits) * launched)


def test_a_prompt_beyond_the_budget_is_read_in_pieces(ask):
    """1000 tokens in pieces of 500: everything is started and streamed twice, and each piece attends to its half of the pairs."""
    core = attention(1, 500, 4, 2, 32, 32, 1000 * 1000 / 2 / 2, keys=1000)
    passes = 2 * (total(6 * layer(500, core) + ends(500, 1)) + STARTS + STEP + SEQUENCE)
    assert ask("dense", "prefill", prompt=1000, token_budget=500)["time_s"] == pytest.approx(passes)
    assert ask("dense", "prefill", prompt=500, token_budget=500) == ask("dense", "prefill", prompt=500)


def test_a_first_token_on_an_idle_replica_is_its_pass(ask):
    kernels = 6 * prompt_layer() + ends(S, 1)
    assert ask("dense", "prefill", prompt=S)["time_s"] == pytest.approx(total(kernels) + STARTS + STEP + SEQUENCE)


def test_an_open_loop_holds_what_arrives_while_a_request_lasts(ask):
    """Little 1961: b = r S_o ITL; steps share the time that prompts leave, u = r t_pre. A step with a prompt streams weights twice and
    starts its kernels; b others decode with it."""
    qps = 40.0
    answer = ask("dense", "decode", qps=qps, **LOAD)
    assert answer["batch"] == pytest.approx(qps * 100 * answer["time_s"], rel=1e-6)
    assert answer["load_kind"] == "open"
    cost = many_prompts(200)
    share = qps * cost
    step = answer["time_s"] - answer["breakdown_s"]["prefill_interference"]
    alone = ask("dense", "prefill", prompt=200, output=100)["time_s"]
    again = alone - cost

    def taken(seconds: float) -> float:
        return share * seconds + (1 - math.exp(-qps * seconds)) * again

    steady = step / (1 - share)
    for _ in range(50):
        steady = step + taken(steady)
    assert answer["time_s"] == pytest.approx(steady, rel=1e-5)
    b = answer["batch"] + 1
    near = [ask("dense", "decode", batch=size, **LOAD)["time_s"] for size in (math.floor(b), math.ceil(b))]
    assert near[0] <= step <= near[1]


def test_a_first_token_in_an_open_loop(ask):
    """Others are decoding with 1 - e^(-99 r ITL); then M/D/1, half a step, the one put together meanwhile, and the step that holds the prompt;
    else passes of prompts alone; the front end and a stream for each in flight."""
    qps = 40.0
    decode, prefill = (ask("dense", phase, qps=qps, **LOAD) for phase in ("decode", "prefill"))
    alone, cost = ask("dense", "prefill", prompt=200, output=100)["time_s"], many_prompts(200)
    share, busy = qps * cost, 1 - math.exp(-decode["batch"] * 0.99)
    mixed = decode["time_s"] - decode["breakdown_s"]["prefill_interference"] + alone
    turn = (0.5 + AHEAD) * decode["time_s"] + mixed + share * cost / (2 * (1 - share))
    idle = closed_loop.wait_for_passes(qps, alone, cost)
    seconds = alone + busy * (turn - alone) + (1 - busy) * idle + FRONT
    in_flight = qps * (prefill["time_s"] + 99 * decode["time_s"])
    assert prefill["time_s"] == pytest.approx(seconds + (1 + in_flight) * STREAM)


def test_replicas_divide_the_rate(ask):
    one = ask("dense", "decode", qps=20, **LOAD)
    two = ask("dense", "decode", qps=40, **LOAD, n=2, dp=2, tp=1, pp=1)
    assert two["time_s"] == pytest.approx(one["time_s"]) and two["batch"] == pytest.approx(one["batch"])


def test_the_largest_batch_is_what_memory_leaves(ask):
    """50 GB less weights and 2 GB, 92 % of it, over the cache of 300 tokens; never above 2048 sequences."""
    answer = ask("dense", "decode", concurrency=1, **LOAD)
    cache = 6 * 300 * 2 * 2 * 32 * 2
    fits = (50e9 - answer["memory"]["weights_bytes"] - RESERVE) * FRACTION // cache
    assert fits > MOST and answer["max_batch"] == MOST
    long = {"prompt": 100_000, "output": 100}
    answer = ask("dense", "decode", batch=1, **long)
    cache = 6 * 100_100 * 2 * 2 * 32 * 2
    assert answer["max_batch"] == (50e9 - answer["memory"]["weights_bytes"] - RESERVE) * FRACTION // cache


def test_as_many_as_memory_holds(ask):
    long = {"prompt": 100_000, "output": 100}
    answer = ask("dense", "decode", concurrency="max", **long)
    cache = 6 * 100_050 * 2 * 2 * 32 * 2  # requests are at random places of their answers: half of each is cached
    most = (50e9 - answer["memory"]["weights_bytes"] - RESERVE) * FRACTION // cache
    assert answer["batch"] == most and answer["load_kind"] == "closed"
    assert answer["memory"]["kv_cache_bytes"] == most * cache


def test_stages_wait_for_their_own_sequences(ask):
    """Two stages share the batch: the others in front of a prompt, and those that disturb a step, are those of one stage."""
    plan = {"n": 2, "pp": 2, "tp": 1}
    alone = ask("dense", "prefill", **LOAD, **plan)["time_s"]
    static = ask("dense", "decode", batch=B, **LOAD, **plan)["time_s"]
    busy = ask("dense", "decode", concurrency=B, **LOAD, **plan)
    cost = (busy["time_s"] - static) * 100 / (B / 2 - 1)
    assert cost > many_prompts(200)  # the handover of a stage comes on top
    share = B / 2 * cost / (100 * busy["time_s"])
    itl, step = busy["time_s"], static
    turn = (HOLD + AHEAD) * itl + (step + alone) * (1 + share / 2)
    found = ask("dense", "prefill", concurrency=B, prompts_per_slot="inf", **LOAD, **plan)["time_s"]
    assert found == pytest.approx(turn + FRONT + B / 2 * STREAM)
    assert found > alone
