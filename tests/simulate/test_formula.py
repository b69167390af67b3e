"""The closed form of a first token compared with the simulation, under the same scheduler: where lengths vary and the cache is not full."""

from __future__ import annotations

import pytest

from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.simulate.cluster import Cluster, run_closed_loop
from rooflinecli.simulate.replica import Replica, ReplicaLimits
from rooflinecli.simulate.request import SimRequest
from rooflinecli.simulate.request_load import Lengths
from rooflinecli.simulate.step_times import StepTimeTable
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.registry import load

CELLS = [(1024, 1024, c) for c in (4, 16, 64)] + [(8192, 1024, c) for c in (4, 16)] + [(1024, 4096, 32)]
BARE = "front=0 s,per_stream=0 s,per_token=0 s"  # added to the mean by the formula, rounded up to whole steps by a simulation
WAITS = f"poll_steps=1,{BARE}"
SETTINGS = [
    ("vllm", f"{WAITS},prompt_factor=1,graph_tokens=0"),
    ("vllm", WAITS),
    ("vllm", f"token_budget=2048,{WAITS}"),
    ("sglang", WAITS),
    ("sglang", f"poll_steps=10,stream_steps=10,token_budget=32768,{BARE}"),
    ("trtllm", f"hold_steps=20,hold_share=0.9,token_budget=16384,{BARE}"),
]


def both(engine, settings, prompt, output, concurrency):
    """(first token, time per further token) of the formula and of ten prompts a slot, lengths uniform in [0.8, 1]."""
    asked = build_request.request(
        {"model": "llama70b", "hw": "h100", "tp": 4, "n": 4, "dtype": "fp8", "kv-dtype": "fp8", "engine": engine,
         "prompt": round(0.9 * prompt), "output": round(0.9 * output), "concurrency": concurrency, "scheduler": settings}
    )  # fmt: skip
    ctx, plan = EstimateContext(asked), Layout(tp=4.0, zero=0)
    formula = inference.prefill(ctx, plan).time_s, inference.decode(ctx, plan).time_s
    sizes = (
        Lengths("fixed", (float(n),), (0.8, 1.0)).draw(10 * concurrency, 0, i) for i, n in enumerate((prompt, output))
    )
    jobs = [SimRequest(i, 0.0, *each) for i, each in enumerate(zip(*sizes, strict=True))]
    replica = Replica(StepTimeTable(ctx, plan), ReplicaLimits(10**9, 2048), ctx.engine.scheduler)
    ended = run_closed_loop(Cluster([replica], load("simulate/routers", "round-robin")), jobs, concurrency)
    first = sum(j.first - j.arrival for j in ended) / len(ended)
    further = sum((j.finish - j.first) / (j.output - 1) for j in ended) / len(ended)
    return formula, (first, further)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("engine", "settings"), SETTINGS)
def test_the_closed_form_is_within_eight_per_cent(engine, settings):
    errors = []
    for cell in CELLS:
        (formula, _), (first, _) = both(engine, settings, *cell)
        errors.append(formula / first - 1)
    assert max(map(abs, errors)) < 0.16, errors
    assert sum(map(abs, errors)) / len(errors) < 0.08, errors


def test_further_tokens_are_within_eight_per_cent():
    for cell in CELLS:
        (_, formula), (_, itl) = both(*SETTINGS[0], *cell)
        assert formula == pytest.approx(itl, rel=0.08), cell


ALONE = {"model": "llama8b", "hw": "h100", "prompt": 2048, "output": 64}


@pytest.mark.parametrize(
    ("engine", "equal"),
    # prompts of varied lengths around a power of two are padded to two of them, half to each
    [(e, q) for e in ("vllm", "sglang", "trtllm", "python-server", "cuda-graph") for q in (False, True)] + [("jetstream", True)],
)  # fmt: skip
def test_a_lone_request_has_one_answer(engine, equal):
    """At a rate near nought, as the only client, and simulated: the pass on an idle replica behind the front end, within a stream's share."""

    def first(**load):
        asked = build_request.request({**ALONE, "engine": engine, "equal_lengths": equal, **load})
        return inference.prefill(EstimateContext(asked), Layout(zero=0)).time_s

    ctx = EstimateContext(build_request.request({**ALONE, "engine": engine}))
    rules = ctx.engine.scheduler
    job = SimRequest(0, 0.0, ALONE["prompt"], ALONE["output"])
    replica = Replica(StepTimeTable(ctx, Layout(zero=0)), ReplicaLimits(10**9, 2048), rules)
    replica.enqueue(job)
    while replica.step(1e9):
        pass
    by_hand = first() + rules.front + rules.per_token * ALONE["prompt"]
    for found in (job.first, first(qps=1e-6), first(concurrency=1)):
        assert found == pytest.approx(by_hand, abs=1.01 * rules.per_stream + 1e-3 * by_hand)
