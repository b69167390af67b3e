"""A replica under load: how many sequences it holds, what prompts of others add, and how long a first token waits."""

from __future__ import annotations

import math

import pytest
from assembly.hand import total
from assembly.serving import SEQUENCE, STEP, B, S, ends, prompt_layer, token_layer

# engines/python-server.yaml
WAIT, STEPS, FRONT, ERROR = 0.115, 2.1, 50e-3, 0.95
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


def test_a_first_token_in_a_closed_loop(ask):
    """Half of 11.5 % of the others' prompts stand in front; 2.1 busy steps and 50 ms pass before."""
    alone = ask("dense", "prefill", prompt=200, output=100)["time_s"]
    itl = ask("dense", "decode", concurrency=B, **LOAD)["time_s"]
    answer = ask("dense", "prefill", concurrency=B, **LOAD)
    seconds = alone * (1 + WAIT * 7 / 2) + STEPS * itl + FRONT
    assert answer["time_s"] == pytest.approx(seconds)
    assert answer["breakdown_s"]["waiting"] == pytest.approx(seconds - alone)
    assert answer["interval_s"] == pytest.approx([seconds / (1 + ERROR), seconds * (1 + ERROR)])


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
    seconds = alone * (1 + WAIT * (B / 2 - 1) / 2) + STEPS * busy["time_s"] + FRONT
    assert ask("dense", "prefill", concurrency=B, **LOAD, **plan)["time_s"] == pytest.approx(seconds)
