"""Open loops where the search for the sequences in flight, or the terms of short answers, once went astray."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.engine import build_request, forward_step, inference, serving_load
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.serving_load import ReplicaLoad
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.layout import Layout

PHASES = ["prefill", "decode"]


def decode(model: str, **load):
    return estimate(
        build_request.request({"model": model, "hw": "h100", "n": 1, "phase": PHASES, "prompt": 1024, **load})
    ).phases["decode"]


@pytest.mark.parametrize(
    ("engine", "qps"), [("sglang", 8.0), ("sglang", 8.85), ("trtllm", 11.3), ("vllm", 9.4), ("vllm", 10.5)]
)
def test_the_itl_of_a_rate_lies_between_those_of_its_neighbors(engine, qps):
    """Of a mixture of experts: steps of the expert kernels make the in-flight sequences neither convex nor smooth in the rate."""
    less, itl, more = (
        decode("qwen3-30b-a3b", output=32, engine=engine, qps=qps + by).time_s for by in (-0.05, 0.0, 0.05)
    )
    assert less * 0.95 < itl < more * 1.05


@pytest.mark.parametrize("qps", [15, 20, 25, 30])
@pytest.mark.parametrize("output", [2, 3, 4])
def test_an_itl_is_a_decode_step_at_least(output, qps):
    found = decode("llama-3.1-8b", output=output, engine="sglang", qps=qps)
    assert found.floor_s <= found.interval_s[0] <= found.time_s <= found.interval_s[1]
    assert found.time_s > 6e-3  # a step of one sequence takes 6.6 ms


@pytest.mark.parametrize("load", [{"qps": 2}, {"concurrency": 4}])
def test_a_load_writes_tokens(load):
    with pytest.raises(UsageError, match="write a token at least"):
        decode("llama-3.1-8b", output=0, **load)


@pytest.mark.parametrize("root", [1e-9, 0.5, 1.0, 3.0, 1000.0])
def test_a_load_is_where_what_is_asked_for_meets_what_ends(root):
    """Of lines, of hyperbolas, and of steps, which only halvings find; four times the most where it is never met."""
    assert serving_load._root(lambda batch: root - batch, 500.0) == pytest.approx(root, rel=1e-6)
    assert serving_load._root(lambda batch: root / batch - 1 + 0 * batch, 500.0) == pytest.approx(root, rel=2e-2)
    step = serving_load._root(lambda batch: 1e6 if batch < root else -1e6, 500.0)
    assert step == pytest.approx(root, rel=1e-6)
    assert serving_load._root(lambda batch: 5.0, 500.0) == 2000 and serving_load._root(lambda batch: 5.0, 0.1) == 4


@pytest.mark.parametrize(
    ("tokens", "longest", "found"),
    [(1000, None, 0.2), (1000, 1100, 0.1), (1000, 1200, 0.2), (1000, 1300, 0.2), (1000, 900, 0)],
)
def test_lengths_vary_by_a_fifth_and_no_further_than_the_context(tokens, longest, found):
    assert forward_step.variation(float(tokens), longest) == pytest.approx(found)


@pytest.mark.parametrize(("qps", "sustained"), [(0.9, True), (1.1, False)])
def test_a_rate_beyond_what_full_slots_answer_is_refused(monkeypatch, qps, sustained):
    """Two slots whose requests take 2 s each answer one a second."""
    request = build_request.request(
        {
            "model": "llama-3-8b",
            "hw": "h100",
            "engine": "vllm",
            "prompt": 100,
            "output": 10,
            "qps": qps,
            "max_num_seqs": 2,
        }
    )
    ctx, layout = EstimateContext(request), Layout()
    monkeypatch.setattr(inference, "token", lambda *_: SimpleNamespace(seconds=0.1))
    monkeypatch.setattr(inference, "_first_in_slot", lambda *_: 2.0 - 9 * 0.1)
    if sustained:
        assert inference.full_slots(ctx, layout) == pytest.approx((2.0, qps, 0.1, 1.1))
        return
    with pytest.raises(
        Infeasible, match=r"--qps 1\.1 cannot be sustained: a replica with --max-num-seqs 2 answers 1 requests/s"
    ):
        inference.full_slots(ctx, layout)


@pytest.mark.parametrize(
    ("clients", "wait", "prompts", "found"),
    [
        (
            1.0,
            3.0,
            0.001,
            4 * 11 / 4,
        ),  # four clients, each in a slot of its own: 3 s to the first token and 10 steps of 0.1 s
        (
            2.0,
            2.0,
            0.001,
            4 * 11 / 2,
        ),  # eight clients take 3 s each, but a slot that is always full ends a request every 2 s
        (2.0, 9.0, 0.001, 8 * 11 / 10),  # or clients wait longer than slots do
        (2.0, 2.0, 1.0, 11.0),  # or prompts of a second each come one after the other
    ],
)
def test_a_closed_loop_makes_what_its_clients_slots_and_prompts_allow(monkeypatch, clients, wait, prompts, found):
    monkeypatch.setattr(inference, "_closed_loop_ttft", lambda *_: wait)
    monkeypatch.setattr(inference, "_first_in_slot", lambda *_: 1.0)
    busy = ReplicaLoad("closed", 4.0, 4.0, prompts, requests_per_slot=clients)
    assert inference.throughput(SimpleNamespace(output=11.0), Layout(dp=3), busy, 0.1) == pytest.approx(3 * found)


@pytest.mark.parametrize(("kind", "sequences"), [("open", 6.0), ("closed", 5.0)])
def test_a_request_that_arrives_joins_those_in_flight(monkeypatch, kind, sequences):
    """Where a loop that was counted does not apply, an arrival finds five sequences and is the sixth; in a closed loop it is one of the five."""
    loop = SimpleNamespace(decoding=1.0, instead_of=lambda counted, mean: mean)
    monkeypatch.setattr(inference.counted_loop, "counted", lambda *_: loop)
    monkeypatch.setattr(inference, "decode_pass", lambda ctx, layout, busy: (busy.kind, busy.batch, busy.max_batch))
    assert inference._decode_step(None, Layout(), ReplicaLoad(kind, 5.0, 9.0)) == ("closed", sequences, 9.0)
