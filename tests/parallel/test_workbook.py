"""Scaling Book workbook, chapters 2, 4 and 8.5: exact arithmetic on its inputs; errata are in docs/errata.md."""

from __future__ import annotations

import pytest

from rooflinecli import memory
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.formulas import collectives as f
from rooflinecli.formulas import counts, roofline, schedule, textbook
from rooflinecli.formulas import memory as m
from rooflinecli.parallel import data, tensor
from rooflinecli.questions.collective.answer import collective
from rooflinecli.questions.shard import answer as notation
from rooflinecli.questions.shard.answer import shard
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

GB_LINK, PEAK = 450e9, 990e12


def split(text: str, mesh: str, sizes: str, hw: str = "h100-sxm") -> dict:
    axes = notation.mesh(mesh)
    return shard(notation.arrays(text, axes), axes, notation.assignments(sizes, "--sizes"), load_hardware(hw))


def test_w2_1_cheapest_sharding_is_by_columns():
    best = split("X[I, J] W[J, K]", "x=8", "I=2048,J=8192,K=32768")["ranking"][0]
    assert (best["sharding"], best["communication_bytes"]) == ("column", 0)


def test_w2_2_ring_all_reduce_bytes():
    """On a ring; an A100 node's switch does not sum, as H100's does."""
    assert collective("all-reduce", 134217728.0, load_hardware("a100-sxm-80"), 8)["volume_bytes"] == pytest.approx(
        234881024, rel=1e-9
    )


def test_w2_3_all_reduce_against_compute():
    comm = f.collective_floor(f.all_reduce_volume(8192 * 8192 * 2, 8), GB_LINK)
    compute = roofline.compute_time(counts.matmul_flops(8192, 8192 / 8, 8192), PEAK)
    assert comm == pytest.approx(5.2196e-4, rel=2e-3)
    assert compute == pytest.approx(1.3883e-4, rel=2e-3)
    assert comm / compute == pytest.approx(3.760, rel=2e-3)
    answer = split("X[I, J_x] W[J_x, K]", "x=8", "I=8192,J=8192,K=8192")
    assert answer["case"] == 3 and answer["collectives"][0]["op"] == "all-reduce"
    for hw in ("h100-sxm", "a100-sxm-80"):  # whose switch sums, and whose does not
        answer = split("X[I, J_x] W[J_x, K]", "x=8", "I=8192,J=8192,K=8192", hw)
        alone = collective("all-reduce", 8192 * 8192 * 2.0, load_hardware(hw), 8)
        assert (answer["communication_bytes"], answer["floor_s"]) == (alone["volume_bytes"], alone["floor_s"])
    assert answer["communication_bytes"] / GB_LINK == pytest.approx(comm)


def test_w2_4_fsdp_against_tensor_parallel_bytes_of_a_layer():
    """llama3-70b on 8 devices, batch 4 of 4096: gathering a layer's weights against all-reducing its activations."""
    spec = load_model("llama-3-70b")
    ctx = EstimateContext(Request(spec, load_hardware("h100-sxm")))
    layer = memory.device_parameters(ctx.ledger, Layout(), ctx.lift).inner / spec.n_layers
    gather = data.collectives(Layout(dp=8.0, zero=3), layer, 2.0, 2.0, 1.0)[1]
    assert f.gather_volume(gather.size, 8) == pytest.approx(1.4974e9, rel=2e-3)
    reduce = tensor.collectives(Layout(tp=8.0), 4 * 4096.0, 8192.0, 2.0, 1.0, 2.0, False)[0]
    assert reduce.count == 2
    assert f.all_reduce_volume(reduce.size, 8) * reduce.count == pytest.approx(9.3952e8, rel=2e-3)


def test_w2_q_one_all_reduce_per_mlp_block_forward():
    assert tensor.collectives(Layout(tp=8.0), 1.0, 1.0, 2.0, 1.0, 1.0, False)[0].count == 1


def test_w4_1_fsdp_state():
    assert m.partitioned_bytes(70e9, 16, 64) == pytest.approx(17.5e9, rel=1e-6)
    held = memory.DeviceParameters(70e9, 0.0)
    ctx = EstimateContext(Request(load_model("llama-3-70b"), load_hardware("h100-sxm")))
    state = memory.training_state_bytes(held, held, Layout(dp=64.0, zero=3), ctx.formats, 2.0, 12.0)
    assert sum(state.values()) == pytest.approx(17.5e9, rel=1e-6)


def test_w4_2_tensor_parallel_all_reduce():
    size = tensor.collectives(Layout(tp=8.0), 32768.0, 8192.0, 2.0, 1.0, 1.0, False)[0].size
    assert f.all_reduce_volume(size, 8) == 939524096


def test_w4_3_microbatches_for_a_bubble_below_5_percent():
    assert textbook.microbatches_for_bubble(4.0, 0.05, 1.0) == 58
    assert schedule.bubble_fraction(4, 57, 1) == pytest.approx(0.05)
    assert schedule.bubble_fraction(4, 58, 1) < 0.05


def test_w4_4_layout_of_70b_on_2048_h100():
    """TP inside the node with modest PP beats pure FSDP and TP over two."""
    ctx = EstimateContext(Request(load_model("llama-3-70b"), load_hardware("h100-sxm"), batch=2048.0, seq=4096.0))
    base = {"micro_batch": 1.0, "recompute": "none"}

    def seconds(**sizes) -> float:
        plan = Layout(**base, **sizes)
        answer = train(ctx, plan)
        return float(answer.time_s) if answer.memory.total_bytes <= answer.memory.capacity_bytes else float("inf")

    ledger = seconds(tp=8.0, pp=4.0, dp=64.0, zero=1, virtual_stages=4.0, sequence_parallel=True)
    fsdp = seconds(dp=2048.0, zero=3)
    narrow = seconds(tp=2.0, pp=4.0, dp=256.0, zero=1, virtual_stages=4.0, sequence_parallel=True)
    assert ledger < fsdp and ledger < narrow


def test_w4_5_activation_memory_of_a_layer():
    assert 4 * 4096 * 8192 * 2 == 268435456
    assert m.score_activations(4, 64, 4096 * 4096, 2, 0) == 8589934592


def test_w4_q_fsdp_sends_half_as_much_again():
    """Two gathers and a scatter against one all-reduce, in the same precision."""
    volume = {"all-reduce": f.all_reduce_volume, "all-gather": f.gather_volume, "reduce-scatter": f.gather_volume}

    def sent(zero: int) -> float:
        return sum(
            volume[c.op](c.size, c.n) * c.count for c in data.collectives(Layout(dp=8.0, zero=zero), 1e9, 2.0, 2.0, 1.0)
        )

    assert sent(3) / sent(0) == pytest.approx(1.5)


def test_w8_5_hidden_communication():
    assert textbook.hidden_fraction(0.35e-3, 0.42e-3) == 1.0
    assert f.exposed_behind(0.35e-3, 0.42e-3) == 0
