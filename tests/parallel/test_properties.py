"""What holds for every plan and network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rooflinecli import memory
from rooflinecli.core.lift import PLAIN
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.ledger.ops import Collective
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import OPS, price_collective
from rooflinecli.questions.collective.answer import collective
from rooflinecli.specs.hardware import Efficiency, load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

CHIPS = ("h100-sxm", "a100-sxm-80", "gb200-nvl72", "mi300x", "tpu-v5e", "tpu-v4", "tpu-v5p", "trainium2", "l40s")
MODELS = ("llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gpt3-13b")
quick = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
powers = st.sampled_from([1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0])
plans = st.builds(
    Layout,
    tp=st.sampled_from([1.0, 2.0, 4.0]),
    pp=st.sampled_from([1.0, 2.0, 4.0]),
    dp=st.sampled_from([1.0, 2.0, 8.0]),
    cp=st.sampled_from([1.0, 2.0]),
    ep=st.sampled_from([1.0, 2.0]),
    zero=st.sampled_from([0, 1, 2, 3]),
    virtual_stages=st.sampled_from([1.0, 2.0]),
    sequence_parallel=st.booleans(),
    recompute=st.sampled_from(["none", "selective", "full"]),
    flash=st.booleans(),
    dropout=st.booleans(),
    schedule=st.sampled_from(["1f1b", "gpipe", "zero-bubble"]),
    ring=st.sampled_from(["zigzag", "striped", "naive", "ulysses"]),
    shard=st.sampled_from([None, 1.0, 2.0]),
    recipe=st.sampled_from(["full", "lora", "qlora", "dpo"]),
    software=st.sampled_from(["any", "megatron-2022", "llm-foundry", "deepspeed"]),
)


def legal(plan: Layout, model: str) -> bool:
    moe = model in ("mixtral-8x7b", "deepseek-v3")
    return (plan.ep == 1 or (moe and plan.dp % plan.ep == 0)) and (plan.shard is None or plan.dp % plan.shard == 0)


def ctx(model: str, chip: str = "h100-sxm", **override: float) -> EstimateContext:
    return EstimateContext(
        Request(load_model(model), load_hardware(chip), batch=32.0, seq=2048.0), override=override or None
    )


@quick
@given(st.sampled_from(CHIPS), st.sampled_from(OPS), powers, st.floats(1e3, 1e10))
def test_collective_floor_expected_and_bandwidth(chip, op, n, size):
    hw = load_hardware(chip)
    assume(hw.network[-1].size is None or n <= hw.network[-1].size)
    a = collective(op, size, hw, n)
    low, high = a["interval_s"]
    assert a["floor_s"] <= low <= a["expected_s"] <= high
    assert (a["expected_s"] == 0) == (n == 1)
    for i in range(len(hw.network)):
        c = Collective(op, op, size, "x", n, 1.0)
        base, faster = (
            price_collective(
                c, Chip(hw, override={f"network.{i}.bandwidth": hw.network[i].bandwidth.si * x}), "kernel", n
            )
            for x in (1, 2)
        )
        assert faster.expected <= base.expected * (1 + 1e-12) and faster.floor <= base.floor * (1 + 1e-12)


@quick
@given(st.sampled_from(CHIPS), st.sampled_from(OPS), st.floats(1e3, 1e9), st.sampled_from([1.0, 4.0, 8.0]))
def test_a_group_array_equals_its_scalars_bit_for_bit(chip, op, size, stride):
    hw = load_hardware(chip)
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    assume(hw.network[-1].size is None or 8 * stride <= hw.network[-1].size)
    many = price_collective(Collective(op, op, size, "x", sizes, stride), Chip(hw), "kernel", sizes * stride)
    for i, n in enumerate(sizes):
        one = price_collective(Collective(op, op, size, "x", float(n), stride), Chip(hw), "kernel", float(n) * stride)
        for field in ("floor", "expected", "volume"):
            assert np.broadcast_to(getattr(many, field), sizes.shape)[i] == getattr(one, field), (field, n)


@quick
@given(st.sampled_from(MODELS), plans)
def test_floor_and_expected_of_a_plan(model, plan):
    assume(legal(plan, model))
    a = train(ctx(model), plan)
    low, high = a.interval_s
    assert 0 < a.floor_s <= low <= a.time_s <= high
    assert sum(a.communication_s.values()) >= 0
    assert a.memory.total_bytes > 0


@quick
@given(st.sampled_from(MODELS), plans)
def test_more_bandwidth_never_slows_a_plan(model, plan):
    assume(legal(plan, model))
    hw = load_hardware("h100-sxm")
    base = train(ctx(model), plan).time_s
    for name, value in (
        ("network.0.bandwidth", hw.network[0].bandwidth.si),
        ("network.1.bandwidth", hw.network[1].bandwidth.si),
        ("memory.bandwidth", hw.memory.bandwidth.si),
    ):
        assert train(ctx(model, **{name: 2 * value}), plan).time_s <= base * (1 + 1e-12), name


@quick
@given(st.sampled_from(MODELS), plans, st.sampled_from(["tp", "cp", "pp", "dp", "ep"]))
def test_an_axis_of_size_one_is_free(model, plan, axis):
    """It sends nothing and exposes nothing."""
    plan = replace(
        plan,
        **{axis: 1.0},
        **({"cp": 1.0} if axis == "dp" else {}),
        **({"ep": 1.0, "shard": None} if axis == "dp" else {}),
    )
    assume(legal(plan, model))
    a = train(ctx(model), plan)
    assert a.communication_s.get(axis, 0.0) == 0
    assert a.communication_bytes.get(axis, 0.0) == 0


@quick
@given(st.sampled_from(MODELS), plans)
def test_a_plan_array_equals_its_scalars_bit_for_bit(model, plan):
    """But for the powers that join hidden communication with the work: numpy rounds those within 2 ulp of the C library."""
    assume(legal(plan, model) and plan.shard is None)
    dp = np.array([1.0, 2.0, 4.0, 8.0]) * plan.ep
    many = train(ctx(model), replace(plan, dp=dp))
    for i, n in enumerate(dp):
        one = train(ctx(model), replace(plan, dp=float(n)))
        assert np.broadcast_to(many.floor_s, dp.shape)[i] == one.floor_s
        for key in ("time_s", "tokens_per_s", "mfu"):
            assert getattr(many, key)[i] == pytest.approx(getattr(one, key), rel=1e-14), key
        assert np.broadcast_to(many.memory.total_bytes, dp.shape)[i] == one.memory.total_bytes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("ep", [1.0, 4.0])
def test_shards_sum_to_the_whole(model, zero, ep):
    """States over all devices, divided by how often each is kept, are the unsharded whole (pipeline stages of equal size)."""
    moe = model in ("mixtral-8x7b", "deepseek-v3")
    if ep > 1 and not moe:
        pytest.skip("no experts")
    s, dp, tp = ctx(model), 8.0, 1.0
    whole = memory.device_parameters(s.ledger, Layout(), PLAIN)
    plan = Layout(tp=tp, dp=dp, ep=ep, zero=zero)
    part = memory.device_parameters(s.ledger, plan, PLAIN)
    assert part.experts * ep == pytest.approx(whole.experts)
    assert part.inner + part.outer == pytest.approx(whole.inner + whole.outer)
    for state, stage in (("weights", 3), ("gradients", 2), ("optimizer", 1)):
        held = memory.partitioned(part, plan, state) * dp
        dense, experts = (1.0, 1.0) if zero >= stage else (dp, dp / ep)
        assert held == pytest.approx((whole.inner + whole.outer) * dense + whole.experts * experts)


@pytest.mark.parametrize("tp", [2.0, 4.0, 8.0])
def test_tensor_parallel_shards_sum_to_the_whole(tp):
    """Matmul weights split exactly; norms are on every device; KV cache and activations under sequence parallelism split too."""
    s = ctx("llama-3-70b")
    whole, part = (
        memory.device_parameters(s.ledger, Layout(), PLAIN),
        memory.device_parameters(s.ledger, Layout(tp=tp), PLAIN),
    )
    norms = 2 * 80 * 8192
    assert (part.inner - norms) * tp == pytest.approx(whole.inner - norms)
    kv = [memory.kv_cache(s.ledger, p, s.formats, 4.0, 1024.0, PLAIN) for p in (Layout(), Layout(tp=tp))]
    assert kv[1] * tp == pytest.approx(kv[0])
    layers = [
        memory.training_activations(s.ledger, p, s.formats, 2048.0, 1.0, PLAIN)
        for p in (Layout(pp=4.0), Layout(pp=4.0, tp=tp, sequence_parallel=True))
    ]
    assert layers[1] * tp == pytest.approx(layers[0], rel=0.01)


def test_pipeline_stages_sum_to_the_whole():
    s = ctx("llama-3-70b")
    whole = memory.device_parameters(s.ledger, Layout(), PLAIN)
    assert memory.device_parameters(s.ledger, Layout(pp=8.0), PLAIN).inner * 8 == pytest.approx(whole.inner)
    uneven = memory.device_parameters(s.ledger, Layout(pp=4.0, stages=(19.0, 21.0, 21.0, 19.0)), PLAIN).inner
    assert uneven == pytest.approx(whole.inner * 21 / 80)


def test_context_parallelism_splits_activations():
    s = ctx("llama-3-8b")
    one, four = (memory.training_activations(s.ledger, Layout(cp=c), s.formats, 8192.0, 1.0, PLAIN) for c in (1.0, 4.0))
    assert four * 4 == pytest.approx(one)


def test_in_network_reduction_is_taken_where_it_is_faster():
    """A level that says how well its switch sums: large tensors gain, and never below the floor of one send."""
    plain = load_hardware("h100-sxm")
    entry = Efficiency(memory=0.61, overhead=2e-5, source="NVLS at 482 GB/s of bus bandwidth")
    level = plain.network[0].with_changes(efficiency={**plain.network[0].efficiency, "all-reduce-in-network": entry})
    summing = plain.with_changes(network=[level, *plain.network[1:]])
    large, small = ([collective("all-reduce", size, hw, 8) for hw in (plain, summing)] for size in (1e9, 1e4))
    assert large[1]["expected_s"] < large[0]["expected_s"] and large[1]["algorithm"] == "in-network reduction"
    assert large[1]["floor_s"] <= large[1]["expected_s"]
    assert small[1]["algorithm"] == "ring" and small[1]["expected_s"] == small[0]["expected_s"]


def test_a_tree_takes_over_between_many_hosts():
    hw = load_hardware("h100-sxm")
    assert "tree" in collective("all-reduce", 1e5, hw, 4096)["algorithm"]
    assert "tree" not in collective("all-reduce", 1e10, hw, 16)["algorithm"]


@pytest.mark.parametrize(
    ("chip", "n", "devices", "links"),
    [
        ("tpu-v5e", 4.0, 16.0, 1),
        ("tpu-v5e", 16.0, 256.0, 2),
        ("tpu-v5e", 256.0, 256.0, 4),
        ("tpu-v5e", 4.0, 4.0, 2),
        ("tpu-v4", 4.0, 64.0, 2),
        ("tpu-v4", 2.0, 32.0, 1),
        ("tpu-v4", 4.0, 32.0, 2),
        ("tpu-v4", 16.0, 64.0, 4),
        ("tpu-v4", 64.0, 64.0, 6),
        ("tpu-v5p", 4096.0, 4096.0, 6),
    ],
)
def test_a_torus_group_uses_the_links_of_its_axes(chip, n, devices, links):
    """v5e closes only axes of 16, v4 and v5p those of slices of whole cubes; several axes carry at once."""
    hw = load_hardware(chip)
    (level,) = collective("all-gather", 1e9, hw, n, devices=devices)["levels"]
    assert level["bandwidth_bytes_per_s"] == pytest.approx(links * hw.network[0].bandwidth.si)


def test_xgmi_reaches_its_aggregate_only_with_all_eight():
    hw = load_hardware("mi300x")
    rates = [collective("all-gather", 1e9, hw, n)["levels"][0]["bandwidth_bytes_per_s"] for n in (2.0, 4.0, 8.0)]
    assert rates == pytest.approx([64e9, 192e9, 448e9])
    assert collective("permute", 1e9, hw, 8.0)["levels"][0]["bandwidth_bytes_per_s"] == pytest.approx(64e9)
