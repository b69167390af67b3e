"""What serving takes from a system other than NVLink servers: PCIe, NeuronLink, padded heads, experts of four bits, unpacked weights."""

from __future__ import annotations

import math

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine.build_request import request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.interfaces.python import api
from rooflinecli.ledger.ops import Collective, Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.price.network import price_collective
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.engine import load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model


def all_reduce(chip: str, size: float, n: float, regime: str) -> float:
    whole = Collective("x", "all-reduce", size, "tp", n, 1.0)
    return price_collective(whole, Chip(load_hardware(chip)), regime, n).expected


def test_an_all_reduce_over_pcie_costs_a_server_what_it_costs_alone() -> None:
    """16 MiB on 8 L40S: 2 (7/8) 16 MiB / (0.52 of 31.5 GB/s) and 14 hops of 2.7 us, 1.83 ms, in `roofline collective` as in an estimate."""
    assert all_reduce("l40s", 2**24, 8, "serving") == all_reduce("l40s", 2**24, 8, "kernel")
    assert all_reduce("l40s", 2**24, 8, "serving") == pytest.approx(1.83e-3, rel=0.02)
    assert all_reduce("h100", 2**24, 8, "serving") != all_reduce("h100", 2**24, 8, "kernel")


@pytest.mark.parametrize("chip", ["a10", "l4", "rtx-4090", "a100-pcie-80"])
@pytest.mark.parametrize("regime", ["serving", "kernel", "training"])
def test_pcie_gives_less_than_half_of_its_link_to_an_all_reduce(chip: str, regime: str) -> None:
    """64 MiB on eight cards of a host: 2 (7/8) 64 MiB at 0.45 of the link and no faster, and nothing goes over the fabric between hosts."""
    level = next(level for level in load_hardware(chip).network if level.kind == "pcie")
    wire = 2 * 7 / 8 * 2**26 / (0.45 * level.bandwidth.si)
    assert wire <= all_reduce(chip, 2**26, 8, regime) <= 1.03 * wire + 1e-4


def test_chips_of_an_aws_instance_exchange_over_neuronlink() -> None:
    """16 MiB on 16 Trainium1: over EFA's 6.25 GB/s a device sends 31.5 MB for 5 ms; four links of 51.5 GB/s take a thirtieth."""
    wire = 2 * 15 / 16 * 2**24
    assert all_reduce("trainium1", 2**24, 16, "serving") < wire / 6.25e9 / 10
    assert all_reduce("trainium1", 2**24, 16, "serving") > wire / (4 * 51.5e9)
    assert all_reduce("inferentia2", 2**24, 12, "serving") > 2 * 11 / 12 * 2**24 / (2 * 51.5e9)


def test_neuron_pads_heads_that_tp_does_not_divide() -> None:
    """64 heads over 12 chips: six on each, 72 in all; what another engine refuses."""
    asked = {"phase": "decode", "batch": 1, "prompt": 1024, "output": 128, "tp": 12, "pp": 1, "dp": 1, "n": 12}
    padded = api.estimate("llama-2-70b", "inferentia2", engine="neuron", **asked)["phases"]["decode"]
    even = api.estimate("llama-2-70b", "inferentia2", engine="neuron", **{**asked, "tp": 8, "n": 8})["phases"]["decode"]
    model = load_model("llama-2-70b")
    whole = 80 * 2 * model.d_model * 128  # one head's columns of Wq and rows of Wo, all layers, in elements
    kv = 80 * 2 * model.d_model * 128  # a head of K and one of V
    rest = even["memory"]["weights_bytes"] * 8 / 2 - 64 * whole - 8 * kv
    split = (rest - 80 * 2 * model.d_model - model.d_model) / 12 + 80 * 2 * model.d_model + model.d_model
    assert padded["memory"]["weights_bytes"] == pytest.approx(2 * (split + 6 * whole + kv), rel=0.01)
    with pytest.raises(UsageError, match="does not divide the 64 attention heads"):
        api.estimate("llama-2-70b", "inferentia2", engine="vllm", **asked)
    with pytest.raises(UsageError, match="exceeds the 64 attention heads"):
        api.estimate("llama-2-70b", "trainium1", engine="neuron", **{**asked, "tp": 80, "n": 80})


@pytest.mark.parametrize(("chip", "experts"), [("h100", "bf16"), ("b200", "fp8")])
def test_four_bits_of_gpt_oss_are_its_experts_alone(chip: str, experts: str) -> None:
    """mxfp4 weights under 16-bit activations on Hopper, fp8 ones on Blackwell; attention and head stay in bf16."""
    asked = {"model": "gpt-oss-120b", "hw": chip, "phase": "decode", "dtype": "mxfp4"}
    f = EstimateContext(request(asked)).formats
    assert (f.compute, f.activation, f.weight) == ("bf16", 2.0, 2.0)
    matrices, biases = 3 * 2880 * 2880, 3 * 2880  # gate, up and down of an expert; its biases stay in bf16
    assert f.expert_weight == pytest.approx((matrices * 4.25 / 8 + biases * 2) / (matrices + biases), rel=1e-4)
    assert (f.expert_compute or f.compute) == experts
    narrow = EstimateContext(
        request({**asked, "dtype": "fp8", "phase": "train"})
    ).formats  # training in fp8 means all of it
    assert (narrow.compute, narrow.weight) == ("fp8", 1.0)
    kept, asked = (api.estimate("gpt-oss-120b", chip, phase="decode", n=2, **more) for more in ({}, {"dtype": "mxfp4"}))
    weights = [answer["phases"]["decode"]["memory"]["weights_bytes"] for answer in (kept, asked)]
    assert weights[0] == weights[1]


def test_packed_weights_stream_no_faster_than_a_chip_unpacks_them() -> None:
    """gpt-fast's int4: 0.95 TB/s of packed weights on a chip of 2.04 TB/s, three quarters of the bandwidth on one of 0.864."""
    engine = load_engine("cuda-graph")

    def seconds(chip: str) -> float:
        hardware = load_hardware(chip)
        f = formats("bf16", None, "int4", hardware.peak, chip)
        op = Op(
            name="x",
            kind="matmul",
            dtype="bf16",
            flops=2.0,
            bytes=1e9,
            k=4096.0,
            n=4096.0,
            ramp=1 / 4096,
            variant=f.variant,
        )
        return price(op, Chip(hardware, engine=engine), "serving").expected

    assert seconds("a100-sxm-80") == pytest.approx(1e9 / 0.95e12, rel=1e-3)
    assert seconds("l40s") == pytest.approx(1e9 / (0.75 * 864e9), rel=1e-3)


def test_an_fp8_run_on_gaudi_keeps_its_cache_in_fp8() -> None:
    asked = {"phase": "decode", "batch": 64, "prompt": 1024, "output": 128, "n": 1}
    wide, narrow = (
        api.estimate("llama-3.1-8b", "gaudi3", engine="gaudi", dtype=d, **asked)["phases"]["decode"]["memory"][
            "kv_cache_bytes"
        ]
        for d in ("bf16", "fp8")
    )
    assert wide == 2 * narrow


def test_before_xqa_every_query_head_reads_the_cached_head_for_itself() -> None:
    """64 query heads over 8 cached ones read a cache eight times, 32 over 32 once; the least that is read stays as it is."""
    asked = {"phase": "decode", "batch": 64, "prompt": 2048, "output": 2048, "dtype": "fp8", "tp": 2, "n": 2}

    def itl_and_floor(model: str, engine: str) -> tuple[float, float]:
        answer = api.estimate(model, "h100", engine=engine, **asked)["phases"]["decode"]
        return answer["breakdown_s"]["attention"], answer["floor_s"]

    (now, floor), (then, before) = (itl_and_floor("llama-2-70b", name) for name in ("trtllm-cpp", "trtllm-cpp-2023"))
    assert then / now == pytest.approx(8, rel=0.01)
    assert before == floor
    assert itl_and_floor("llama-2-7b", "trtllm-cpp-2023") == itl_and_floor("llama-2-7b", "trtllm-cpp")


def test_graphs_of_fixed_shapes_read_the_cache_to_their_end() -> None:
    """4/3 of padded heads' keys and values, 40 over 32 cores: 64 heads, 4 a chip, at 0.6 of 820 GB/s: 8 x 6,144 keys, all 40 layers."""
    asked = {"phase": "decode", "batch": 8, "prompt": 4096, "output": 4096, "tp": 16, "pp": 1, "dp": 1, "n": 16}
    decode = api.estimate("llama-2-13b", "trainium1", engine="neuron", **asked)["phases"]["decode"]
    cache = 40 * 2 * 4 * 128 * 2 * 8 * (4096 + 4096 / 2)
    assert decode["breakdown_s"]["attention"] == pytest.approx(4 / 3 * cache / (0.6 * 820e9), rel=0.01)
    assert decode["breakdown_s"]["attention"] > cache / 820e9


@pytest.mark.parametrize(("chip", "dtype", "share"), [("rtx-pro-6000", "fp4", 0.645), ("l40s", "fp8", 0.6)])
def test_cards_multiply_at_the_rate_of_their_kernels_or_of_prompts_that_were_timed_on_them(
    chip: str, dtype: str, share: float
) -> None:
    """The middle median over the wheel's tables, and for the L40S what its prompt-heavy throughputs ask for; NVLink servers are other silicon."""
    hardware = load_hardware(chip)
    op = Op("x", "matmul", dtype, 1e15, 1.0, k=8192.0)
    expected = price(op, Chip(hardware), "serving").expected
    assert expected == pytest.approx(1e15 / (share * hardware.peak[dtype].si), rel=1e-6)


EXPERTS = {
    "n": 8,
    "tp": 1,
    "dp": 8,
    "ep": 8,
    "pp": 1,
    "dtype": "fp8",
    "kv_dtype": "fp8",
    "prompt": 1000,
    "output": 1000,
}


def test_a_router_that_was_trained_to_balance_loads_its_busiest_rank_less_than_the_tables_do() -> None:
    """One standard deviation of 16 of 128 experts where serving runs were fitted, two in the kernels' tables."""
    said = 1 + math.sqrt(2 * math.log(8) * 8 / 128)

    def experts(**more: object) -> float:
        answer = api.estimate("qwen3-235b-a22b", "h200", engine="trtllm", phase="decode", batch=64, **EXPERTS, **more)
        return answer["phases"]["decode"]["breakdown_s"]["matmul"]

    assert experts() == pytest.approx(experts(imbalance=said), rel=1e-9)
    assert experts(imbalance=2 * said - 1) > 1.05 * experts()


def test_gathered_tokens_of_a_group_leave_less_room_for_its_caches() -> None:
    """2 GB, and 12 where experts stand on several replicas; 94 layers of 4 heads of 128 in fp8, 2,000 tokens a sequence."""
    served = api.estimate("qwen3-235b-a22b", "h200", engine="trtllm", phase="decode", concurrency="max", **EXPERTS)
    decode = served["phases"]["decode"]
    free = load_hardware("h200").memory.capacity.si - decode["memory"]["weights_bytes"] - 14e9
    assert decode["max_batch"] == pytest.approx(0.9 * free / (94 * 2 * 4 * 128 * 2000), abs=1.5)


def test_experts_over_a_few_cards_on_pcie_gather_their_tokens() -> None:
    """64 tokens of 2,048 values in 0.5625 and 2 bytes from the other card, all 48 layers, at 0.386 of 63 GB/s; 4.2 us twice."""
    asked = {"engine": "trtllm", "phase": "decode", "batch": 64, "dtype": "nvfp4", "tp": 1, "pp": 1}
    decode = api.estimate("qwen3-30b-a3b", "rtx-pro-6000", n=2, dp=2, ep=2, **asked)["phases"]["decode"]
    sent = 64 * 2048 * (0.5625 + 2)
    assert decode["breakdown_s"]["communication"] == pytest.approx(48 * (sent / (0.386 * 63e9) + 2 * 4.2e-6), rel=0.01)
    assert decode["breakdown_s"]["communication"] > 48 * sent / 63e9
