"""What the host keeps (layers, experts), several boards that share out the layers, and `roofline fit` where a model does not fit."""

from __future__ import annotations

import json

import pytest
from conftest import run_cli

from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.residency import resident_memory
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import WHOLE, Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request
from rooflinecli.validate import local_machines

PLAN = Layout()


def ctx(model="llama-3-70b", hw="rtx-4090", weights="q4_k_m", **more):
    base = {"engine": "llamacpp", "batch": 1.0, "prompt": 1024.0, "output": 128.0, "devices": 1.0}
    return EstimateContext(Request(load_model(model), load_hardware(hw), weight_dtype=weights, **{**base, **more}))


def test_a_layer_less_on_the_device_costs_its_bytes_at_the_rate_of_the_host():
    """Between two counts, head aside, lie a layer's bytes at 0.6 of 89.6 GB/s less what the board took for it."""
    one, two = (decode(ctx(gpu_layers=float(n)), PLAN) for n in (40, 39))
    held = [resident_memory(ctx(gpu_layers=float(n)), PLAN, "decode") for n in (40, 39)]
    layer = float(held[1].host_bytes - held[0].host_bytes)
    there = layer / (0.6 * 89.6e9)
    here = layer / (0.895 * 1.008e12)
    assert float(two.time_s - one.time_s) == pytest.approx(there - here, rel=0.05)


@pytest.mark.parametrize("layers", [0, 1, 40, 79, 80, 99])
def test_device_and_host_hold_the_whole(layers):
    plain, parted = (resident_memory(s, PLAN, "decode") for s in (ctx(), ctx(gpu_layers=float(layers))))
    total = plain.weights_bytes + plain.kv_cache_bytes
    held = parted.weights_bytes + parted.kv_cache_bytes + parted.host_bytes
    assert float(held) == pytest.approx(float(total), rel=1e-12)
    assert plain.host_bytes is None and (parted.host_bytes == 0) == (layers >= 80)


def test_all_layers_on_the_device_is_the_plain_estimate():
    for phase in (decode, prefill):
        whole, asked = phase(ctx(hw="rtx-pro-6000"), PLAN), phase(ctx(hw="rtx-pro-6000", gpu_layers=99.0), PLAN)
        assert float(asked.time_s) == pytest.approx(float(whole.time_s), rel=1e-12)


@pytest.mark.parametrize("more", [{"gpu_layers": 0.0}, {"gpu_layers": 30.0}, {"gpu_layers": 79.0}])
def test_floor_expected_and_interval(more):
    for phase in (decode, prefill):
        found = phase(ctx(**more), PLAN)
        low, high = found.interval_s
        assert float(found.floor_s) <= float(low) <= float(found.time_s) <= float(high)


def test_fewer_layers_on_the_device_are_slower():
    times = [float(decode(ctx(gpu_layers=float(n)), PLAN).time_s) for n in (80, 60, 40, 20, 0)]
    assert times == sorted(times)


def test_experts_on_the_host_cost_only_the_experts_that_a_token_visits():
    plain, away = (ctx("gpt-oss-120b", "rtx-3090", "mxfp4_moe", **m) for m in ({}, {"experts_on": "host"}))
    held = float(plain.parameters(PLAN).experts * plain.formats.expert_weight)
    extra = float(decode(away, PLAN).time_s - decode(plain, PLAN).time_s)
    visited = held * 4 / 128
    assert extra == pytest.approx(visited / (0.6 * 89.6e9) - visited / (0.895 * 936e9), rel=0.15)
    some = ctx("gpt-oss-120b", "rtx-3090", "mxfp4_moe", experts_on="host:9")
    assert float(resident_memory(some, PLAN, "decode").host_bytes) == pytest.approx(held / 4, rel=1e-9)


def test_a_long_prompt_brings_the_host_weights_over_once_per_piece():
    small, large = (ctx(gpu_layers=40.0, token_budget=float(n)) for n in (256, 1024))
    once = 0.5 * float(small.parameters(PLAN).inner * small.formats.weight) / 31.5e9
    took = [prefill(s, PLAN).breakdown_s["host_copy"] for s in (small, large)]
    assert [float(t) for t in took] == pytest.approx([4 * once, once], rel=1e-9)


def test_two_boards_hold_more_and_are_no_faster():
    one, two = decode(ctx(hw="rtx-pro-6000"), PLAN), decode(ctx(hw="rtx-pro-6000"), WHOLE.with_changes(pp=2.0))
    assert float(two.time_s) == pytest.approx(float(one.time_s) + 1e-3, rel=1e-9)
    answer = run_cli(
        "estimate", "llama-3-70b", "--hw", "rtx-4090", "--engine", "llamacpp", "--weight-dtype", "q4_k_m", "--batch", "1",
        "--phase", "decode", "--format", "json",
    ).json  # fmt: skip
    assert (answer["layout"]["devices"], answer["layout"]["pp"], answer["layout"]["tp"]) == (2, 2, 1)


def test_a_prompt_passes_from_board_to_board_in_pieces():
    """Four pieces over four boards: 16 / 7 at best, 0.8 of it here, and no less than nothing."""
    one = float(prefill(ctx(prompt=2048.0, hw="rtx-pro-6000"), PLAN).time_s)
    four = float(prefill(ctx(prompt=2048.0, hw="rtx-pro-6000"), WHOLE.with_changes(pp=4.0)).time_s)
    assert one / four == pytest.approx(0.8 * 16 / 7, rel=0.02)
    alone = float(prefill(ctx(prompt=512.0, hw="rtx-pro-6000"), WHOLE.with_changes(pp=4.0)).time_s)
    assert alone == pytest.approx(float(prefill(ctx(prompt=512.0, hw="rtx-pro-6000"), PLAN).time_s), rel=0.02)


@pytest.mark.parametrize(
    ("group", "mean"), [("llamacpp_experts_on_host", 0.05), ("llamacpp_layers_split", 0.08), ("layers_on_host", 0.25)]
)
def test_published_runs(group, mean):
    p = local_machines.points("decode", group)
    error = abs(p.expected / p.measured - 1)
    assert error.mean() <= mean
    assert (p.floor >= p.expected).all()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("llama-3-8b", "--hw", "m4-pro", "--gpu-layers", "20"), "Apple M4 Pro has no host whose memory is apart"),
        (
            ("llama-3-8b", "--hw", "rtx-4090", "--expert-offload", "host"),
            "Llama 3 8B has no experts; --gpu-layers keeps",
        ),
        (("qwen3-30b-a3b", "--hw", "rtx-4090", "--expert-offload", "moon"), "expected device, host or host:LAYERS"),
        (("qwen3-30b-a3b", "--hw", "rtx-4090", "--expert-offload", "host", "--host", "nosuch"), "nosuch"),
        (("llama-3-8b", "--hw", "rtx-4090", "--gpu-layers", "-3"), "must not be negative"),
    ],
)
def test_what_is_refused(args, says):
    found = run_cli("estimate", *args, "--engine", "llamacpp", "--batch", "1")
    assert found.code == 2 and says in found.err and "Traceback" not in found.err


def test_fit_says_what_goes_to_the_host():
    answer = json.loads(
        run_cli("fit", "llama-3-70b", "--hw", "rtx-4090", "--file", "Q4_K_M,F16", "--format", "json").out
    )
    wide, four = answer["files"]  # largest first
    assert four["layers_on_host"] == 34 and not four["fits"] and 2 < four["decode_tokens_per_s"] < 4
    assert wide["layers_on_host"] is None and wide["decode_tokens_per_s"] is None  # more than the host has
    experts = json.loads(
        run_cli("fit", "qwen3-30b-a3b", "--hw", "rtx-4070", "--file", "Q4_K_M", "--format", "json").out
    )
    assert experts["files"][0]["experts_on_host"] > 0 and experts["files"][0]["layers_on_host"] is None
    text = run_cli("fit", "llama-3-70b", "--hw", "rtx-4090", "--file", "Q4_K_M").out
    assert "34 layers on host" in text


@pytest.mark.parametrize(
    ("asked", "layouts"),
    [
        ({"gpu_layers": 46.0}, ({"tp": 2.0}, {"tp": 4.0}, {"pp": 4.0}, {"dp": 2.0})),
        (
            {"model": "gpt-oss-120b", "weights": "mxfp4_moe", "experts_on": "host"},
            ({"tp": 8.0}, {"dp": 8.0, "ep": 8.0}),
        ),
    ],
)
def test_devices_of_one_host_share_its_memory(asked, layouts):
    """No floor is below the bytes that a step reads from the one DRAM of 89.6 GB/s, whatever the number of devices."""
    question = ctx(**asked)
    alone = decode(question, PLAN)
    read = 0.99 * float(alone.breakdown_s["host"]) * 0.6  # constants of the CPU: 0.6 of the bandwidth
    for sizes in layouts:
        found = decode(ctx(**asked, devices=max(sizes.values())), Layout(**sizes))
        assert float(found.floor_s) >= 0.9 * read * sizes.get("dp", 1.0)
        assert float(found.breakdown_s["host"]) >= 0.95 * float(alone.breakdown_s["host"])


def test_devices_of_another_host_bring_its_memory():
    asked = {"model": "gpt-oss-120b", "hw": "h100", "weights": "mxfp4_moe", "experts_on": "host"}
    one, two = (float(decode(ctx(**asked, devices=n), Layout(tp=n)).breakdown_s["host"]) for n in (8.0, 16.0))
    assert two == pytest.approx(one / 2, rel=0.05)


def test_copies_from_one_host_are_no_faster_than_its_memory():
    """Every board has a link of its own; together they read no faster than the host's memory."""
    moved = 34 / 80 * float(ctx().parameters(PLAN).inner * ctx().formats.weight)
    for sizes in ({"tp": 1.0}, {"tp": 2.0}, {"tp": 8.0}, {"pp": 8.0}):
        n = max(sizes.values())
        found = prefill(ctx(gpu_layers=46.0, token_budget=512.0, devices=n), Layout(**sizes))
        assert float(found.floor_s) >= 0.99 * 2 * moved / min(n * 31.5e9, 89.6e9)
