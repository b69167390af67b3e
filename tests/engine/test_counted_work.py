"""What is counted is what is priced: further towers, parallel blocks, attention on the busiest rank."""

from __future__ import annotations

import pytest

from rooflinecli import memory
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.microbatch import slowest_stage
from rooflinecli.engine.training import train
from rooflinecli.layers.build import ledger
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


def _scene(model: str, **asked) -> EstimateContext:
    return EstimateContext(Request(load_model(model), load_hardware("h100"), **asked))


@pytest.mark.parametrize("model", ["clip-vit-b-32", "clip-vit-l-14", "llama-3-8b"])
def test_the_flops_of_mfu_are_those_of_the_kernels(model):
    """On one device, without recomputation: forward exactly, backward twice the matmuls and 2.5 times attention."""
    ctx = _scene(model)
    length = ctx.prompt
    step = forward_step(ctx, Layout(), 1.0, length, length, decode=False)
    counted = ctx.model_flops(1.0, length, length, 1.0, decode=False)
    assert step.costs.flops == pytest.approx(counted, rel=1e-12)
    ctx = _scene(model, batch=1.0, seq=32.0)
    params = memory.device_parameters(ctx.ledger, Layout(), ctx.lift)
    trained = 3 * ctx.model_flops(1.0, 32.0, 32.0, 32.0, decode=False)
    assert slowest_stage(ctx, Layout(), params, params).costs.flops == pytest.approx(trained, rel=0.01)


def test_a_tower_takes_its_time_and_memory_in_training():
    """CLIP against its vision tower alone: the text tower adds what it would take by itself, at 77 tokens."""
    both, vision = _scene("clip-vit-l-14", batch=64.0), load_model("clip-vit-l-14").with_changes(towers=[])
    vision._document = both.spec.document
    text = both.spec.towers[0]
    plan = Layout(micro_batch=64.0)
    alone, other = (
        train(EstimateContext(Request(spec, load_hardware("h100"), batch=64.0, seq=seq)), plan)
        for spec, seq in ((vision, 257.0), (text, 77.0))
    )
    whole = train(both, plan)
    for part in ("compute", "memory"):
        parts = (getattr(answer.resources_s, part) for answer in (alone, other))
        assert getattr(whole.resources_s, part) == pytest.approx(sum(parts), rel=1e-9)
    assert whole.flops == pytest.approx(alone.flops + other.flops)
    parts = alone.memory.activations_bytes + other.memory.activations_bytes
    assert whole.memory.activations_bytes == pytest.approx(parts, rel=1e-9)
    assert whole.mfu < 1 and whole.breakdown_s["matmul"] > alone.breakdown_s["matmul"]


def test_recomputing_towers_counts_in_hfu():
    ctx = _scene("clip-vit-b-32", batch=64.0)
    answer = train(ctx, Layout(micro_batch=64.0, recompute="full"))
    layers = sum(l.repeat for l in ctx.ledger.layers)
    assert layers == 12 and [tower.length for tower in ctx.ledger.reading] == [77.0]
    # everything but stem and head runs again: between 90 and 100 % of a forward pass
    again = answer.hardware_flops - answer.flops
    assert 0.9 < again / (answer.flops / 3) < 1.0


@pytest.mark.parametrize(
    ("model", "sums"), [("falcon-40b", 1), ("phi-2", 1), ("palm-8b", 1), ("gpt-j-6b", 1), ("llama-3-8b", 2)]
)
def test_serving_and_training_sum_a_layer_over_the_group_equally_often(model, sums):
    """Bytes that an all-reduce of a whole activation sends, once or twice a layer (PaLM, section 2: parallel layers)."""
    ctx = _scene(model, batch=1.0)
    plan = Layout(tp=2.0)
    step = forward_step(ctx, plan, 1.0, 128.0, 128.0, decode=False)
    one = 2 * (plan.tp - 1) / plan.tp * 128 * ctx.spec.d_model * 2
    assert step.costs.volumes["tp"] == pytest.approx(sums * ctx.spec.n_layers * one)


def test_the_busiest_rank_of_a_naive_ring_does_almost_twice_its_share():
    even, naive = (
        slowest_stage(
            s := _scene("llama-3-8b", batch=8.0, seq=8192.0),
            p := Layout(cp=8.0, ring=r),
            *[memory.device_parameters(s.ledger, p, s.lift)] * 2,
        )
        for r in ("zigzag", "naive")
    )
    assert 1.8 < naive.costs.groups["attention"] / even.costs.groups["attention"] < 2.0


def test_the_busiest_experts_work_longer():
    times = [
        slowest_stage(
            s := _scene("mixtral-8x7b", batch=8.0),
            p := Layout(imbalance=x),
            *[memory.device_parameters(s.ledger, p, s.lift)] * 2,
        ).costs.flops
        for x in (1.0, 1.5)
    ]
    experts = sum(r.repeat for r in ledger(load_model("mixtral-8x7b")).layers)
    assert experts == 32 and 1.3 < times[1] / times[0] < 1.5
