"""How to Scale Your Model (jax-ml/scaling-book@0819a7d): problems on TPUs, sharding, training and applied training, and on GPUs.

The book rounds to about 5 % and takes (n-1)/n of a ring as 1; where that matters its rule is a formula of its own.
"""

from __future__ import annotations

import pytest

from rooflinecli import memory
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import collectives as f
from rooflinecli.formulas import counts, roofline, textbook
from rooflinecli.formulas import memory as m
from rooflinecli.formulas import sharding as s
from rooflinecli.layers.build import ledger
from rooflinecli.ledger.ledger import row_parameters
from rooflinecli.questions.collective.answer import collective
from rooflinecli.questions.shard import answer as notation
from rooflinecli.questions.shard.answer import shard
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

TOL = 0.05
V5E = {"peak": 1.97e14, "hbm": 8.1e11, "one_way": 4.5e10, "both": 9e10}


def test_tpus_q3_weights_over_pcie():
    assert textbook.streaming_critical_batch(9.2e14, 1.5e10, 2.0) == pytest.approx(61000, rel=TOL)


def test_tpus_q4_batch_for_int8_matmul():
    """int8 [16384, 4096] on v5e with int8 inputs and outputs: 271 from HBM, 11 from VMEM."""

    def least(bandwidth: float) -> int:
        return next(
            b
            for b in range(1, 1000)
            if roofline.compute_time(counts.matmul_flops(b, 4096, 16384), 3.94e14)
            >= roofline.memory_time(counts.matmul_bytes(b, 4096, 16384, 1, 1, 1), bandwidth)
        )

    assert least(8.1e11) == pytest.approx(271, rel=TOL)
    assert least(1.78e13) == pytest.approx(11, rel=0.1)


def test_tpus_q5_corner_to_corner():
    hops = textbook.corner_hops(4, 4)
    assert hops * 1e-6 == pytest.approx(6e-6)
    assert textbook.route_time(16777216, V5E["one_way"], 2, hops, 1e-6) == pytest.approx(194e-6, rel=TOL)


def test_sharding_quiz_2a():
    size = 2048 * 8192 * 2
    assert textbook.gather_rule(size, V5E["both"]) == pytest.approx(377e-6, rel=TOL)
    # On real hardware a 4-long v5e axis does not close: three hops' worth one way, 560 us, which the network prices as its floor.
    axes = notation.mesh("x=4,y=4")
    answer = shard(
        notation.arrays("A[I, J_x] W[J, K]", axes),
        axes,
        {"I": 2048.0, "J": 8192.0, "K": 128.0},
        load_hardware("tpu-v5e"),
    )
    assert answer["collectives"][0]["floor_s"] == pytest.approx(560e-6, rel=TOL)
    assert answer["collectives"][0]["expected_s"] == pytest.approx(680e-6, rel=TOL)


def test_sharding_q1_replication():
    axes = notation.mesh("x=4,y=8,z=2")
    answer = shard(
        notation.arrays("A[I_x, J] W[J, K]", axes), axes, {"I": 64.0, "J": 64.0, "K": 64.0}, load_hardware("tpu-v5p")
    )
    assert answer["replication"]["A"] == s.replication(64, 4) == 16


def test_sharding_q2b_gather_over_two_axes():
    """bf16[1024, 4096] split over X and Y of a 4x4x4 TPU v4."""
    size = 1024 * 4096 * 2
    assert textbook.gather_rule(size, 2 * V5E["both"]) == pytest.approx(46e-6, rel=TOL)
    axes = notation.mesh("x=4,y=4,z=4")
    answer = shard(
        notation.arrays("A[I, J_xy] W[J, K]", axes),
        axes,
        {"I": 1024.0, "J": 4096.0, "K": 64.0},
        load_hardware("tpu-v4"),
    )
    sent = answer["collectives"][0]
    assert sent["bytes"] == size
    assert sent["floor_s"] == pytest.approx(textbook.gather_rule(size, 2 * V5E["both"]) * 15 / 16)


def test_sharding_q9_gather_first_or_scatter_after():
    """C[N, K] from A[N, M_x] B[M, K]: bytes in the ratio M/K."""
    assert textbook.gather_over_reduce(4096, 1024) == 4
    gather, scatter = f.gather_volume(512 * 4096 * 2, 4), f.gather_volume(512 * 1024 * 2, 4)
    assert gather / scatter == textbook.gather_over_reduce(4096, 1024)


def test_sharding_q10b_one_way_all_to_all():
    n, d = 64, 8
    load = sum(
        hop * n * n / d / d for hop in range(1, d)
    )  # every device's piece for the one `hop` away crosses each link once
    assert textbook.one_way_all_to_all(n * n, d) == pytest.approx(load) == n * n / 2 * (1 - 1 / d)


def test_all_to_all_is_a_quarter_of_a_gather_on_a_closed_ring():
    hw = load_hardware("tpu-v5e")
    whole = 16 * 1e6
    gather = collective("all-gather", whole, hw, 16.0, devices=256.0)
    exchange = collective("all-to-all", whole / 16, hw, 16.0, devices=256.0)
    assert exchange["floor_s"] == pytest.approx(whole / (4 * V5E["both"]))
    assert exchange["floor_s"] / gather["floor_s"] == pytest.approx(0.25 * 16 / 15)


def rows_of(model: str, prefix: str) -> float:
    """Parameters of the rows of a model whose names start so."""
    book = ledger(load_model(model))
    return sum(
        row_parameters(tuple(r for r in g.rows if r.name.startswith(prefix)), g.sizes(dict(g.axes))) * g.repeat
        for g in book.layers
    )


def test_training_q1_parameters():
    assert rows_of("llama-2-13b", "feedforward.") == pytest.approx(8.5e9, rel=TOL)
    assert rows_of("llama-2-13b", "attention.") == pytest.approx(4.2e9, rel=TOL)


def test_training_q2b_checkpoints():
    """Three arrays a layer (BF, BF, BD) in bf16 over 40 layers."""
    axes = ledger(load_model("llama-2-13b")).layers[0].axes
    assert 40 * counts.bytes_of(16e6 * (2 * axes["F"] + axes["D"]), 2) == pytest.approx(42e12, rel=TOL)


def test_training_q3_v5p():
    assert 4096 * load_hardware("tpu-v5p").memory.capacity.si == pytest.approx(393e12, rel=0.08)
    assert textbook.mixed_critical_tokens(2550, 13824, 2) == pytest.approx(940, rel=TOL)
    assert textbook.fsdp_critical_tokens(4.59e14, 1.8e11) == pytest.approx(2550, rel=TOL)


def test_applied_training():
    """Llama 3 70B on a v5p pod of 8960."""
    ctx = EstimateContext(Request(load_model("llama-3-70b"), load_hardware("tpu-v5p")))
    held = memory.device_parameters(ctx.ledger, Layout(), ctx.lift)
    assert rows_of("llama-3-70b", "feedforward.") == pytest.approx(56.3e9, rel=TOL)
    assert held.outer == pytest.approx(2.1e9, rel=TOL)
    assert textbook.training_flops_rule(held.total, 1) == pytest.approx(4.2e11, rel=TOL)
    assert textbook.training_time(
        textbook.training_flops_rule(70e9, 15e12), 8960, 4.59e14, 0.4
    ) / 86400 == pytest.approx(44, rel=TOL)
    assert memory.weights(held, ctx.formats, 1.0) == pytest.approx(140e9, rel=TOL)
    assert m.partitioned_bytes(21.6e12, 1, 8960) == pytest.approx(2.4e9, rel=TOL)
    assert textbook.optimal_fsdp(4.19e6, 8960, 28672, 2, 1) == pytest.approx(1618, rel=TOL)


def test_gpus():
    """Node and scale-up limits of an H100 cluster: 450 GB/s NVLink, 400 GB/s of NICs per node of eight."""
    assert textbook.fsdp_critical_tokens(990e12, 400e9) == pytest.approx(2475, rel=TOL)
    assert textbook.tensor_parallel_limit(28000, 990e12, 450e9) == pytest.approx(12.7, rel=TOL)
    hw = load_hardware("h100-sxm")
    gathered = 1024 * 16384 * 2
    assert textbook.gather_rule(gathered, 450e9) == pytest.approx(75e-6, rel=TOL)
    assert collective("all-gather", gathered, hw, 8)["floor_s"] == pytest.approx(65e-6, rel=TOL)
    # A node's egress is eight NICs, so gathering over 32 nodes runs at 400 GB/s per node.
    spread = collective("all-gather", 1e9, hw, 256)
    assert spread["levels"][1]["floor_s"] == pytest.approx(1e9 * 31 / (32 * 400e9), rel=TOL)
    assert spread["levels"][1]["name"] == "InfiniBand NDR"


def test_gpus_sharp_sends_every_byte_once():
    assert f.reduced_in_network_volume(1e9, 8) == 1e9
