"""What each axis adds: how many collectives, of what size, and what of them shows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

import rooflinecli as rl
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.formulas import collectives as f
from rooflinecli.formulas import collectives as t
from rooflinecli.ledger.mixer import ContextParallelTraffic
from rooflinecli.parallel import context, data, expert, pipeline, tensor
from rooflinecli.phases import backward, recompute
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.network import price_collective
from rooflinecli.questions.goodput.question import TrainingGoodput
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request


@pytest.mark.parametrize("size", [1, 4, 8, 72])
def test_members_within_a_domain_by_placing_them(size):
    """Devices are numbered through; a domain is `size` consecutive ones, in whole strides: others hold unequal parts of a group."""
    for stride, n in itertools.product([s for s in (1, 2, 8, 16) if size <= s or size % s == 0], (1, 2, 8, 16, 64)):
        assert f.members_within(float(size), float(stride), float(n)) == sum(i * stride < size for i in range(n))


@pytest.mark.parametrize(("length", "step"), [(16, 2), (16, 4), (8, 2), (12, 3)])
def test_strided_groups_share_the_links_between_their_members(length, step):
    """All interleaved groups gather round the ring at once: a hop of one group crosses `step` links, each used by all groups."""
    m = length // step
    load = [0.0] * length  # one way, bytes over the link from i to i + 1
    for start in range(step):
        for _ in range(m - 1):
            for member in range(m):
                for link in range(step):
                    load[(start + member * step + link) % length] += 1.0 / m / 2  # half of each chunk goes each way
    volume = f.gather_volume(1.0, m)
    assert max(load) == pytest.approx(volume / t.links(float(m), float(step), 2.0))


SENT = ContextParallelTraffic(queries=1024.0, keys=256.0)


@pytest.mark.parametrize("ring", ["zigzag", "naive"])
def test_a_ring_passes_keys_and_values_forward_twice_and_their_gradients_once(ring):
    plan = Layout(cp=4.0, ring=ring)
    forward = context.collectives(plan, 512.0, SENT, 2.0, 1.0, False)
    both = context.collectives(plan, 512.0, SENT, 2.0, 1.0, True)
    assert [(c.op, c.size, c.count) for c in forward] == [("all-gather", 4 * 512 * 256 * 2, 1)]
    assert [(c.op, c.count) for c in both] == [("all-gather", 2), ("reduce-scatter", 1)]


def test_ulysses_exchanges_q_k_v_and_o():
    plan = Layout(cp=4.0, ring="ulysses")
    (forward,), (both,) = (context.collectives(plan, 512.0, SENT, 2.0, 3.0, b) for b in (False, True))
    assert (forward.op, forward.size, forward.count, both.count) == ("all-to-all", 512 * (2 * 1024 + 256) * 2, 3, 6)


def test_experts_dispatch_and_combine_each_way():
    plan = Layout(dp=8.0, ep=8.0, imbalance=1.5)
    (c,) = expert.collectives(plan, 1000.0, 8.0, 64.0, 2.0, 5.0, True)
    assert (c.op, c.count, c.size, c.outer_share) == ("all-to-all", 20, 1000 * 8 * 64 * 2 * 1.5, 0.5)
    assert expert.collectives(plan, 1000.0, 8.0, 64.0, 2.0, 5.0, False)[0].count == 10


def test_a_stage_sends_once_per_chunk_and_direction():
    plan = Layout(pp=4.0, tp=2.0, virtual_stages=3.0)
    (c,) = pipeline.collectives(plan, 1000.0, 64.0, 2.0, True)
    assert (c.op, c.count, c.size, c.stride) == ("permute", 6, 1000 * 64 * 2 / 2, 2)


def test_tensor_parallel_layers_and_recomputation():
    plan, split = Layout(tp=4.0), Layout(tp=4.0, sequence_parallel=True)
    assert [(c.op, c.count) for c in tensor.collectives(plan, 8.0, 8.0, 2.0, 1.0, 2.0, True)] == [("all-reduce", 4)]
    assert [(c.op, c.count) for c in tensor.collectives(plan, 8.0, 8.0, 2.0, 1.0, 2.0, True, True)] == [
        ("all-reduce", 2)
    ]
    assert [(c.op, c.count) for c in tensor.collectives(split, 8.0, 8.0, 2.0, 1.0, 2.0, True)] == [
        ("all-gather", 6),
        ("reduce-scatter", 4),
    ]
    falcon, llama = load_model("falcon-7b").layers[0], load_model("llama-3-8b").layers[0]
    assert (tensor.tp_reductions_per_layer(falcon), tensor.tp_reductions_per_layer(llama)) == (1, 2)


@pytest.mark.parametrize(("zero", "sent"), [(0, 2 * 4), (1, 4 + 2), (2, 4 + 2), (3, 2 * 2 + 4)])
def test_data_parallel_bytes_per_parameter(zero, sent):
    """Large groups: an all-reduce sends twice, a gather or a scatter once; weights in 2 bytes, gradients in 4."""
    each = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1}
    moves = data.collectives(Layout(dp=64.0, zero=zero), 1e6, 2.0, 4.0, 10.0)
    assert sum(each[c.op] * c.size * c.count for c in moves) == pytest.approx(sent * 1e6)


@pytest.mark.parametrize(("given", "sent"), [({}, 2), ({"gradient_bytes": 2}, 2), ({"gradient_bytes": 4}, 4)])
def test_zero_3_scatters_gradients_as_asked(given, sent):
    """Two gathers of 16-bit weights and a scatter; FSDP's reduce_dtype is float32 in torchtitan's own configs."""
    asked = {
        "model": "llama-3-8b",
        "hw": "h100",
        "n": 8,
        "dp": 8,
        "zero": 3,
        "phase": "train",
        "batch": 8,
        "micro_batch": 1,
    }
    found = rl.estimate(**asked, recompute="full", **given)
    assert found.train.communication_bytes["dp"] == pytest.approx((2 + 2 + sent) * 7 / 8 * 8.03e9, rel=1e-3)


def test_hsdp_gathers_inside_its_group_and_reduces_between_groups():
    plan = Layout(dp=64.0, zero=3, shard=8.0)
    assert {c.n for c in data.collectives(plan, 1e6, 2.0, 4.0, 1.0)} == {8}
    (c,) = data.shard_group_all_reduce(plan, 1e6, 4.0, 1.0)
    assert (c.op, c.n, c.stride, c.size) == ("all-reduce", 8, 8, 4e6 / 8)
    assert data.shards(plan, "weights") == 8


@pytest.mark.parametrize(
    ("shard", "tp", "expert_tp", "part", "groups"),
    [(16.0, 1.0, None, 2, 4), (8.0, 1.0, None, 1, 8), (16.0, 2.0, 1.0, 4, 4)],
)
def test_a_shard_group_holds_every_expert(
    shard: float, tp: float, expert_tp: float | None, part: int, groups: int
) -> None:
    """64 replicas, ep 8: torchtitan shards experts over dp_shard x tp / ep devices and repeats that for every dp_replicate."""
    plan = Layout(tp=tp, dp=64.0, ep=8.0, expert_tp=expert_tp, zero=3, shard=shard)
    found = data.group(plan, experts=True)
    assert (found.all, found.part) == (64 * tp / 8, part) and found.all / found.part == groups == 64 / shard
    assert found.stride == 8 and data.shards(plan, "weights", True) == part
    between = data.shard_group_all_reduce(plan, 1e9, 4.0, 1.0, experts=True)
    assert [(c.n, c.stride) for c in between] == [(groups, 8 * part)] and between[0].size == pytest.approx(4e9 / part)
    assert data.group(replace(plan, shard=None), experts=True).part == 64 * tp / 8


@pytest.mark.parametrize(("flash", "factor"), [(True, 2.5), (False, 2.0)])
def test_backward_flops(flash, factor):
    """Twice the forward matmuls; attention 2.5 times when fused (five matmuls for two), twice when scores were kept."""
    ctx = EstimateContext(Request(load_model("llama-3-8b"), load_hardware("h100-sxm")))
    group = ctx.ledger.layers[0]
    sizes = layer_sizes(
        group, pass_axis_sizes(1.0, 1024.0, 1024.0, 1.0, Layout()), Layout(), ctx.spec.document, ctx.lift
    )
    forward = ForwardPass(ctx.formats, flash=flash).ops(group.rows, sizes)
    flops = {kind: sum(op.flops for op in forward if (op.group == "attention") == kind) for kind in (True, False)}
    after = [*backward.input_gradients(forward), *backward.weight_gradients(forward)]
    assert sum(op.flops for op in after if op.group == "attention") == pytest.approx(factor * flops[True])
    assert sum(op.flops for op in after if op.group != "attention") == pytest.approx(2 * flops[False])
    plan = {kind: Layout(recompute=kind, flash=flash) for kind in ("none", "selective", "full")}
    assert [op.name for op in recompute.recomputed_ops(plan["selective"], forward)] == (
        [] if flash else ["attention.core", "attention.softmax"]
    )
    assert (
        recompute.recomputed_ops(plan["full"], forward) == forward
        and recompute.recomputed_ops(plan["none"], forward) == []
    )


def test_gradients_and_the_work_beside_them_meet_in_a_norm():
    """One microbatch, a slow network: what shows is what the all-reduce adds to the work that it overlaps."""
    override = {"network.1.bandwidth": 1e9}
    ctx = EstimateContext(
        Request(load_model("llama-3-8b"), load_hardware("h100-sxm"), batch=16.0, seq=4096.0), override=override
    )
    plan = Layout(dp=16.0, zero=0, software="megatron-bridge")
    answer = train(ctx, plan)
    compute = sum(v for k, v in answer.breakdown_s.items() if k in ("matmul", "attention", "elementwise"))
    params = 8030261248.0
    moves = data.collectives(plan, params, 2.0, 4.0, 32.0)
    total = sum(price_collective(c, ctx.chip, "training", 16.0).expected * c.count for c in moves)
    shows = (compute**3.66 + total**3.66) ** (1 / 3.66) - compute
    assert answer.communication_s["dp"] == pytest.approx(shows, rel=1e-3)
    assert answer.communication_s["dp"] + answer.hidden_s["dp"] == pytest.approx(total, rel=1e-3)


def test_checkpoint_of_70b():
    answer = TrainingGoodput(n=1024.0, params=70e9, bandwidth=100e9).answer()
    assert answer["checkpoint_bytes"] == pytest.approx(70e9 * 14)
    assert answer["checkpoint_s"] == pytest.approx(9.8)
