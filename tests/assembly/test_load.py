"""A replica under load: how many sequences it holds, what prompts of others add, and how long a first token waits."""

from __future__ import annotations

import math

import pytest
from assembly.hand import attention, total
from assembly.serving import SEQUENCE, STEP, B, S, ends, layer, prompt_layer, token_layer

# engines/python-server.yaml
HOLD, AHEAD, FRONT, STREAM, ERROR, BUDGET = 2, 1, 25e-3, 0.4e-3, 0.95, 8192
FRACTION, RESERVE, MOST = 0.92, 2e9, 2048
STARTS = 6 * 10e-6
LOAD = {"prompt": 200, "output": 100}
DECODE = total(6 * token_layer() + ends(B, B)) + STARTS + STEP + B * SEQUENCE  # a step of 8 sequences at 250 tokens


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
    assert answer["load"] == "closed" and answer["batch"] == B


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


def test_a_prompt_beyond_the_budget_is_read_in_pieces(ask):
    """1000 tokens in pieces of 500: everything is started and streamed twice, and each piece attends to its half of the pairs."""
    core = attention(1, 500, 4, 2, 32, 32, 1000 * 1000 / 2 / 2, keys=1000)
    passes = 2 * (total(6 * layer(500, core) + ends(500, 1)) + STARTS + STEP + SEQUENCE)
    assert ask("dense", "prefill", prompt=1000, token_budget=500)["time_s"] == pytest.approx(passes)
    assert ask("dense", "prefill", prompt=500, token_budget=500) == ask("dense", "prefill", prompt=500)


def test_equal_lengths_run_in_lockstep_where_prompts_come_first(ask):
    """SGLang: half of the prompts' time lies between tokens, the other half before the first; other engines do not care."""
    ours = {"concurrency": B, **LOAD, "engine": "sglang"}
    cost = many_prompts(200)
    apart, locked = (ask("dense", "decode", **ours, equal_lengths=said) for said in (False, True))
    assert apart["breakdown_s"]["prefill_interference"] == pytest.approx(7 / 100 * cost)
    assert locked["breakdown_s"]["prefill_interference"] == pytest.approx(7 / 100 * cost / 2)
    alone = ask("dense", "prefill", prompt=200, output=100, engine="sglang")["time_s"]
    first = ask("dense", "prefill", **ours, equal_lengths=True)["time_s"]
    assert first == pytest.approx(alone + 7 / 2 * cost + 0.01 + 0.19 + B * 0.9e-3)
    plain = ask("dense", "decode", concurrency=B, **LOAD)
    assert ask("dense", "decode", concurrency=B, **LOAD, equal_lengths=True) == plain


def test_a_first_token_on_an_idle_replica_is_its_pass(ask):
    kernels = 6 * prompt_layer() + ends(S, 1)
    assert ask("dense", "prefill", prompt=S)["time_s"] == pytest.approx(total(kernels) + STARTS + STEP + SEQUENCE)


def test_an_open_loop_holds_what_arrives_while_a_request_lasts(ask):
    """Little 1961: b = r S_o ITL; steps share the time that prompts leave, ITL = step / (1 - u) with u = r t_pre."""
    qps = 40.0
    answer = ask("dense", "decode", qps=qps, **LOAD)
    assert answer["batch"] == pytest.approx(qps * 100 * answer["time_s"], rel=1e-6)
    assert answer["load"] == "open"
    share = qps * many_prompts(200)
    step = answer["time_s"] - answer["breakdown_s"]["prefill_interference"]
    assert answer["time_s"] == pytest.approx(step / (1 - share))
    b = answer["batch"]
    near = [ask("dense", "decode", batch=size, **LOAD)["time_s"] for size in (math.floor(b), math.ceil(b))]
    assert near[0] <= step <= near[1]


def test_a_first_token_in_an_open_loop(ask):
    """Others are decoding with 1 - e^-b; then half a step is waited for and the pass shared; M/D/1 before; 50 ms in front."""
    qps = 40.0
    decode, prefill = (ask("dense", phase, qps=qps, **LOAD) for phase in ("decode", "prefill"))
    alone, cost = ask("dense", "prefill", prompt=200, output=100)["time_s"], many_prompts(200)
    share, busy = qps * cost, 1 - math.exp(-decode["batch"])
    step = decode["time_s"] * (1 - share)
    beside = max(1.5 * step + cost - alone, 0)
    seconds = alone + busy * beside + share * cost / (2 * (1 - share)) + FRONT
    assert prefill["time_s"] == pytest.approx(seconds)


def test_replicas_divide_the_rate(ask):
    one = ask("dense", "decode", qps=20, **LOAD)
    two = ask("dense", "decode", qps=40, **LOAD, n=2, dp=2, tp=1, pp=1)
    assert two["time_s"] == pytest.approx(one["time_s"]) and two["batch"] == pytest.approx(one["batch"])


def test_the_largest_batch_is_what_memory_leaves(ask):
    """50 GB less weights and 2 GB, 92 % of it, over the cache of 300 tokens; never above 2048 sequences."""
    answer = ask("dense", "decode", batch=1, **LOAD)
    cache = 6 * 300 * 2 * 2 * 32 * 2
    fits = (50e9 - answer["memory"]["weights_bytes"] - RESERVE) * FRACTION // cache
    assert fits > MOST and answer["largest_batch"] == MOST
    long = {"prompt": 100_000, "output": 100}
    answer = ask("dense", "decode", batch=1, **long)
    cache = 6 * 100_100 * 2 * 2 * 32 * 2
    assert answer["largest_batch"] == (50e9 - answer["memory"]["weights_bytes"] - RESERVE) * FRACTION // cache


def test_as_many_as_memory_holds(ask):
    long = {"prompt": 100_000, "output": 100}
    most = ask("dense", "decode", batch=1, **long)["largest_batch"]
    answer = ask("dense", "decode", concurrency="max", **long)
    assert answer["batch"] == most and answer["load"] == "closed"


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
