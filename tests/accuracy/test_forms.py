"""The forms of price/: floor <= expected <= upper end, monotone, and the same for a float, an array and a traced number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import TracedLift
from rooflinecli.core.num import value
from rooflinecli.engine.build_request import request
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.formulas import closed_loop, serving
from rooflinecli.layers.softmax import TILE
from rooflinecli.ledger.ops import Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.kernel.question import Attention, Matmul
from rooflinecli.render.formats.terminal import draw
from rooflinecli.render.views.estimate import view
from rooflinecli.specs.engine import engines, load_engine
from rooflinecli.specs.hardware import load_hardware

CHIPS = ("h100-sxm", "a100-sxm-80", "b200-sxm", "l40s", "mi300x", "tpu-v5e", "rtx-4090")
SIZE = st.integers(1, 32768)


@settings(max_examples=examples(150), deadline=None)
@given(m=SIZE, k=SIZE, n=SIZE, chip=st.sampled_from(CHIPS), dtype=st.sampled_from(("bf16", "fp8")))
def test_a_matmul_stays_between_floor_and_interval(m: int, k: int, n: int, chip: str, dtype: str) -> None:
    if dtype not in load_hardware(chip).peak:
        return
    a = Matmul(m, k, n, dtype=dtype, hw=chip).answer()
    assert a["floor_s"] <= a["time_s"] <= a["interval_s"][1] and a["floor_s"] <= a["interval_s"][0] <= a["time_s"]
    assert Matmul(m + 1, k, n, dtype=dtype, hw=chip).answer().time_s >= a["time_s"]


@settings(max_examples=examples(150), deadline=None)
@given(
    b=st.integers(1, 256),
    s=st.integers(1, 65536),
    g=st.sampled_from((1, 2, 8)),
    kv=st.sampled_from((1, 4, 8)),
    chip=st.sampled_from(CHIPS),
    decode=st.booleans(),
    fused=st.booleans(),
)
def test_attention_stays_between_floor_and_interval(
    b: int, s: int, g: int, kv: int, chip: str, decode: bool, fused: bool
) -> None:
    a = Attention(
        1 if decode else s,
        s,
        heads=g * kv,
        kv_heads=kv,
        batch=b,
        causal=not decode,
        decode=decode,
        fused=fused or decode,
        hw=chip,
    ).answer()
    assert a["floor_s"] <= a["time_s"] <= a["interval_s"][1]


def op(kind: str, size: object, dtype: str) -> Op:
    """An operation of every class whose sizes follow one number."""
    return {
        "matmul": lambda: Op(
            name="x",
            kind=kind,
            dtype=dtype,
            flops=2 * size * 4096 * 4096,
            bytes=2.0 * size * 8192 + 4096 * 8192,
            k=4096.0,
            n=4096.0,
            quantized=size * 4096,
            ramp=1 / 4096,
        ),
        "grouped_matmul": lambda: Op(
            name="x",
            kind=kind,
            dtype=dtype,
            flops=2 * size * 4096 * 1536,
            bytes=2.0 * size * 5632 + 1e7,
            k=4096.0,
            n=1536.0,
            quantized=size * 4096,
            ramp=8 / size,
        ),
        "prefill_attention": lambda: Op(
            name="x",
            kind=kind,
            dtype=dtype,
            flops=256 * size * size * 32,
            bytes=4.0 * size * 128 * 40,
            k=size,
            n=128.0,
            quantized=size * 2048,
            ramp=2 / size,
            length=size,
            items=32 * size / TILE,
        ),
        "decode_attention": lambda: Op(
            name="x", kind=kind, dtype=dtype, flops=512 * size * 32, bytes=size * 4096.0, k=size, n=128.0, items=8.0
        ),
        "latent_attention": lambda: Op(
            name="x", kind=kind, dtype=dtype, flops=2176 * size * 128, bytes=size * 1152.0, k=size, n=544.0, items=2.0
        ),
        "elementwise": lambda: Op(name="x", kind=kind, dtype=dtype, flops=0.0, bytes=size * 8192.0),
    }[kind]()


@pytest.mark.parametrize("regime", ["kernel", "serving", "training"])
@pytest.mark.parametrize(
    "kind", ["matmul", "grouped_matmul", "prefill_attention", "decode_attention", "latent_attention", "elementwise"]
)
def test_one_text_for_every_kind_of_number(kind: str, regime: str) -> None:
    hardware = load_hardware("h100-sxm")
    sizes = np.array([1.0, 7.0, 128.0, 4096.0, 100000.0])
    chip, traced = Chip(hardware), Chip(hardware, TracedLift())
    swept = price(op(kind, sizes, "bf16"), chip, regime).expected
    for i, size in enumerate(sizes.tolist()):
        alone = price(op(kind, size, "bf16"), chip, regime).expected
        assert np.broadcast_to(swept, sizes.shape)[i] == pytest.approx(alone, rel=1e-15)  # powers: within 2 ulp
        assert value(price(op(kind, size, "bf16"), traced, regime).expected) == alone


def decode(**options: object) -> dict[str, PhaseAnswer]:
    given = {
        "model": "llama-3-8b",
        "hw": "h100",
        "phase": "prefill,decode",
        "n": 1,
        "prompt": 1024,
        "output": 256,
        **options,
    }
    return estimate(request(given)).phases


def test_load_adds_and_never_subtracts() -> None:
    static, closed = decode(batch=32), decode(concurrency=32)
    assert closed["decode"].time_s > static["decode"].time_s
    assert closed["prefill"].time_s > static["prefill"].time_s
    assert closed["decode"].breakdown_s["prefill_interference"] > 0
    assert closed["decode"].floor_s == static["decode"].floor_s
    assert decode(concurrency=1)["decode"].time_s == pytest.approx(decode(batch=1)["decode"].time_s, rel=1e-12)


def test_engines_are_data_and_never_in_a_floor() -> None:
    assert set(engines()) >= {"cuda-graph", "python-server", "vllm", "sglang", "trtllm", "trtllm-cpp"}
    fast, slow = decode(batch=8, engine="trtllm-cpp")["decode"], decode(batch=8)["decode"]
    starts = 32 * (71.5e-6 - 46.2e-6)
    assert slow.time_s - fast.time_s == pytest.approx(0.1e-3 + 8 * (12.9e-6 - 1.68e-6) - starts, rel=1e-6)
    assert slow.floor_s == fast.floor_s
    assert load_engine("none") is load_engine("cuda-graph")


def test_an_engine_may_bring_kernels_of_its_own() -> None:
    """gpt-fast's compiled loop streams bf16 weights at 0.815 of the bandwidth, the engines' libraries at 0.874."""
    ours, shared = (decode(batch=1, engine=name)["decode"].breakdown_s["matmul"] for name in ("cuda-graph", "vllm"))
    assert ours / shared == pytest.approx(0.874 / 0.815, rel=0.01)


def test_no_graph_is_replayed_for_a_prompt_under_the_cpp_runtime() -> None:
    idle, busy = (decode(batch=1, engine=name)["prefill"].breakdown_s["overhead"] for name in ("trtllm", "trtllm-cpp"))
    assert busy - idle == pytest.approx(32 * (71.5e-6 - 54.1e-6 + 80e-6))


def test_an_open_loop_obeys_little() -> None:
    phase = decode(qps=4)["decode"]
    assert phase.batch == pytest.approx(4 * 256 * phase.time_s, rel=1e-6)
    assert decode(qps=8)["decode"].time_s > phase.time_s
    rare = decode(qps=0.1)["decode"]  # less than one sequence in flight: what comes out is what went in
    assert rare.batch < 1
    assert rare.tokens_per_s == pytest.approx(0.1 * 256, rel=1e-3)


def test_a_first_token_in_an_open_loop_by_hand() -> None:
    """Alone: the pass, the wait for others' passes, the front end. Always met by others: its turn, then a message that waits for a token more."""
    assert serving.busy_probability(0.0, 9) == 0 and serving.busy_probability(40.0, 9) == pytest.approx(1)
    assert serving.busy_probability(1.0, 4) == pytest.approx(1 - math.exp(-0.75))
    assert serving.busy_probability(1.0, 1) == 0  # answers of one token: none decodes
    assert closed_loop.open_loop_ttft(0.030, 0.0, 0.049, 0.002, 0.008, 0.004, 0.0, 0.030) == pytest.approx(0.036)
    turn = closed_loop.turn_ttft(
        0.0, 1.0, 1.0, 0.008, 0.037, 0.0
    )  # half a step, the one put together meanwhile, the mixed one
    assert turn == pytest.approx(0.004 + 0.008 + 0.037)
    assert closed_loop.open_loop_ttft(0.030, 1.0, turn, 0.002, 0.008, 0.004, 0.0, 0.030) == pytest.approx(0.061)
    assert closed_loop.stream_time(0.001, 20.0, 0.5) == pytest.approx(0.001 * (1 + 20 * (0.5 + 0.011 / 0.98)))
    assert closed_loop.queue_for_prefill(0.5, 0.028) == pytest.approx(0.014)


def test_the_max_batch_fits_and_one_more_does_not() -> None:
    phase = decode(concurrency="max")["decode"]
    held = phase.memory
    cache = held.kv_cache_bytes / phase.batch
    free = (held.capacity_bytes - held.weights_bytes - 2e9) * 0.92
    assert phase.batch == phase.max_batch
    assert phase.batch * cache <= free < (phase.batch + 1) * cache


@pytest.mark.parametrize(
    ("load", "phases", "words"),
    [
        ({}, "decode", "serving 32 sequences per replica, prompt 1024"),
        ({"batch": 8}, "decode", "serving 8 sequences per replica"),
        ({"concurrency": 8}, "prefill,decode", "serving 8 requests in flight per replica, lengths varied, prompt"),
        ({"concurrency": "max"}, "decode", "requests in flight per replica (all that memory holds)"),
        ({"concurrency": "max"}, "prefill", "serving as many requests as memory holds"),
        ({"qps": 4}, "decode", "serving 4 requests/s, "),
        ({"qps": 4}, "prefill", "serving 4 requests/s, lengths varied, prompt"),
    ],
)
def test_the_foot_says_which_load(load: dict, phases: str, words: str) -> None:
    given = {"model": "llama-3-8b", "hw": "h100", "phase": phases, "n": 1, "prompt": 1024, "output": 256, **load}
    assert words in " ".join(draw(view(estimate(request(given))), 120).split())


def test_a_matmul_whose_input_comes_narrow_has_no_pass_that_narrows_it() -> None:
    """fp8 on H100: three bytes an element at 0.426 of HBM and the launch of that pass (12.2 us, 2.96 in bf16) are the whole
    difference; static scales and none cost the same."""
    m, k, n = 4096.0, 8192.0, 8192.0
    given = {
        way: Matmul(m, k, n, dtype="fp8", hw="h100", activation_quantization=way).answer().time_s
        for way in ("dynamic", "static", "none")
    }
    assert given["static"] == given["none"]
    launch = (12.2 - 2.96) * 1e-6
    assert given["dynamic"] - given["static"] == pytest.approx(3 * m * k / (0.426 * 3.35e12) + launch, rel=1e-6)
    with pytest.raises(UsageError, match="--activation-quantization later: expected dynamic or static or none"):
        Matmul(m, k, n, dtype="fp8", hw="h100", activation_quantization="later")


def test_fp8_matmuls_of_few_rows_are_near_those_of_deepgemm() -> None:
    """Products alone, their inputs quantized before, on H800 (deepseek-ai/DeepGEMM@a6d97a1, README: TFLOP/s of 64 rows)."""
    published = {(7168.0, 2112.0): 206, (1536.0, 24576.0): 289, (512.0, 32768.0): 219, (16384.0, 7168.0): 336, (7168.0, 4096.0): 287, (2048.0, 7168.0): 295}  # fmt: skip
    off = []
    for (k, n), rate in published.items():
        time = Matmul(64.0, k, n, dtype="fp8", hw="h800", activation_quantization="none").answer().time_s
        off.append(abs(time / (2 * 64 * k * n / (rate * 1e12)) - 1))
    assert sum(off) / len(off) < 0.15


def test_a_kernel_may_be_asked_for_as_an_engine_runs_it() -> None:
    """Libraries have constants of their own, engines that bring kernels those; unshared heads read the cache once each."""
    times = {
        name: Matmul(64.0, 8192.0, 8192.0, hw="h100", engine=name).answer().time_s
        for name in ("vllm", "sglang", "gpt-fast")
    }
    assert len(set(times.values())) == 3
    assert times["gpt-fast"] == pytest.approx(
        2 * 8192 * 8192 / (0.815 * 3.35e12), rel=0.1
    )  # streams its weights, no start
    shape = {"q": 1.0, "kv": 8192.0, "heads": 64.0, "kv_heads": 8.0, "batch": 8.0, "decode": True, "hw": "h100"}
    before, after = (Attention(**shape, engine=f"trtllm-cpp{era}").answer() for era in ("-2023", ""))
    assert before["time_s"] / after["time_s"] == pytest.approx(8, rel=0.2)
    assert before["floor_s"] == after["floor_s"]
    with pytest.raises(UsageError, match="unknown engine 'nobody'"):
        Matmul(64.0, 8192.0, 8192.0, hw="h100", engine="nobody").answer()
