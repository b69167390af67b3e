"""Machines on a desk: floors, engines with kernels of their own, file types, parts that people own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from local_inference.question import question

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.stored_weights import with_weight_format
from rooflinecli.price.chip import Chip
from rooflinecli.specs.engine import engines, load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.name_lookup import files
from rooflinecli.validate import local_machines

CHIPS = ("rtx-4060", "rtx-3090", "rtx-2080-ti", "dgx-spark", "m1", "m3-max", "m5-max", "rx-7900-xtx", "ryzen-ai-max-395", "arc-b580", "core-i9-13900k", "jetson-agx-orin-64")  # fmt: skip
DESK = tuple(name for name, engine in engines().items() if engine.backends)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("file", ["q4_k_m", "q8_0", "iq2_xs"])
def test_no_engine_beats_the_floor_on_any_chip(chip, file):
    for engine in DESK:
        ctx = question(chip, file, engine=engine)
        for phase in (prefill, decode):
            answer = phase(ctx, Layout())
            assert answer.time_s >= answer.floor_s > 0, (engine, phase)
            assert answer.interval_s[0] <= answer.time_s <= answer.interval_s[1]


@settings(max_examples=examples(20), deadline=None)
@given(context=st.integers(1, 100_000), chip=st.sampled_from(CHIPS))
def test_a_longer_context_never_speeds_a_token_up(context, chip):
    short, long = (decode(question(chip, prompt=float(n)), Layout()).time_s for n in (context, 2 * context))
    assert long >= short


def test_a_step_is_bytes_over_the_bus_and_an_overhead_per_layer():
    """RTX 4090, 7B in Q4_0, empty cache: file less embedding at 0.895 of 1.008 TB/s, and 32 layers of 94,000 cycles at 2.52 GHz."""
    answer = decode(question("rtx-4090", "q4_0", "llama-2-7b", prompt=1.0, output=1.0), Layout())
    read = 3825065984 - 32000 * 4096 // 32 * 18
    assert answer.time_s == pytest.approx(read / (0.895 * 1.008e12) + 32 * 94000 / 2.52e9, rel=2e-3)


@pytest.mark.parametrize("model", ["llama-3.2-1b", "llama-3.1-8b"])
@pytest.mark.parametrize(("chip", "seconds"), [("rtx-4090", 0.012), ("m4-max", 0.006), ("rx-7900-xtx", 0.025)])
def test_llamafile_takes_a_time_of_its_own_for_a_prompt_however_long(model, chip, seconds):
    """LocalScore: once for a prompt, not for a piece of it nor for a token."""
    for tokens in (16.0, 4096.0):
        ctx = question(chip, model=model, prompt=tokens, engine="llamafile")
        assert prefill(ctx, Layout()).breakdown_s["engine"] == pytest.approx(seconds)
        assert not decode(ctx, Layout()).breakdown_s.get("engine", 0.0)
    assert not prefill(question(chip, model=model), Layout()).breakdown_s.get("engine", 0.0)


def test_rows_of_a_batched_run_are_written_behind_their_prompt():
    """llama-batched-bench: 32 sequences of Qwen2.5 7B behind 4,096 tokens read 28 x 2 x 4 x 128 values of 2 bytes for each."""
    asked = {"after_prompt": True, "model": "qwen2.5-7b", "batch": 32, "prompt": 4096}
    behind = next(row for row in local_machines.rows() if asked.items() <= row.items())
    bare = {k: v for k, v in behind.items() if k != "after_prompt"}
    assert local_machines.ctx(behind).prompt == 4096.0 and local_machines.ctx(bare).prompt == 1.0
    found, alone = (32 / local_machines.decoded(row)[1] for row in (behind, bare))  # seconds at the floor
    assert found - alone == pytest.approx(32 * 4096 * 28 * 2 * 4 * 128 * 2 / 273e9, rel=0.02)


def test_weights_in_a_file_type_weigh_the_file():
    answer = decode(question("rtx-4090", "q4_k_m", "llama-2-7b"), Layout())
    looked_up = 32000 * 4096 * 4.5 / 8  # of the embedding, which stays in host memory
    assert answer.memory.weights_bytes + looked_up == pytest.approx(
        4080218931, rel=2e-3
    )  # llama.cpp pull request 3084 prints 3.80 GiB


def test_a_power_limit_slows_prefill_and_not_decode():
    """Two boards of equal units, one with half the watts: a laptop's prefill, and a decode step that the bus decides."""
    chip = load_hardware("rtx-4090")
    scenes = [EstimateContext(question("rtx-4090").request, override={"power": watts}) for watts in (450.0, 150.0)]
    (p1, d1), (p2, d2) = ((prefill(s, Layout()).time_s, decode(s, Layout()).time_s) for s in scenes)
    assert chip.power is not None and p2 > 1.5 * p1
    assert d2 == pytest.approx(d1, rel=0.02)


def test_the_nearest_backend_wins():
    turing, ada, hbm = (
        Chip(load_hardware(c), engine=load_engine("llamacpp")) for c in ("rtx-2080-ti", "rtx-4090", "h100")
    )
    assert turing.constants("serving", "matmul", "int8", "packed").flops_per_joule == 150e9
    assert ada.constants("serving", "matmul", "int8", "packed").flops_per_joule == 458e9
    assert hbm.constants("serving", "step").per_layer == pytest.approx(55e-6)
    assert turing.constants("serving", "step").layer_cycles == 94000  # not said for Turing: the vendor's
    assert turing.constants("kernel", "matmul").flops_per_joule == 0  # kernels alone know no engine


def test_an_engine_without_kernels_leaves_the_chip_alone():
    assert Chip(load_hardware("h100"), engine=load_engine("vllm")).constants("serving", "matmul").memory == Chip(load_hardware("h100")).constants("serving", "matmul").memory  # fmt: skip


@pytest.mark.parametrize("name", ["rtx-4060", "m4-max", "dgx-spark", "arc-a770-16", "raspberry-pi-5", "rx-9070-xt"])
def test_desk_parts_are_found_and_every_figure_has_a_source(name):
    spec = load_hardware(name)
    for figure in (spec.memory.capacity, spec.memory.bandwidth, *spec.peak.values()):
        assert figure.source in spec.sources
    assert len(files("hardware")) > 140


def test_a_file_type_is_a_weight_format_and_brings_its_engine():
    request = build_request.request({"model": "llama-3.1-8b", "hw": "rtx-4090", "weight-dtype": "q4_k_m"})
    assert request.engine == "llamacpp"
    assert (
        build_request.request({"model": "llama-3.1-8b", "hw": "rtx-4090", "weight-dtype": "int4"}).engine
        == "python-server"
    )
    with pytest.raises(UsageError, match="q4_k_x"):
        build_request.request({"model": "llama-3.1-8b", "hw": "rtx-4090", "weight-dtype": "q4_k_x"})


def test_a_stored_file_is_built_once():
    spec = load_model("llama-3.1-8b")
    assert (
        with_weight_format(spec, "Q4_K_M") is with_weight_format(spec, "Q4_K_M") is not with_weight_format(spec, "Q6_K")
    )


def test_memory_can_be_set():
    asked = question("m3-max").request
    assert EstimateContext(replace(asked, memory=27e9)).chip.capacity == 27e9


@pytest.mark.parametrize("name", ["a30", "rtx-2060-super", "gtx-1080-ti", "p40", "titan-v", "rx-6800-xt", "rx-7800-xt", "radeon-780m", "arc-140v", "m1-pro-14", "mi210", "gtx-1660"])  # fmt: skip
def test_every_part_that_people_own_is_answered_above_its_floor(name):
    for engine in ("llamacpp", "llamafile", "llamacpp-rocm", "llamacpp-vulkan"):
        ctx = question(name, "q4_k_m", "llama-3.2-1b", engine=engine)
        for phase in (prefill, decode):
            answer = phase(ctx, Layout())
            assert answer.time_s >= answer.floor_s > 0, (engine, phase)
    for figure in load_hardware(name).peak.values():
        assert figure.source in load_hardware(name).sources


def test_exl2_files_run_on_the_second_exllama():
    """turboderp/exllamav2 README, Llama 2 7B at 4.0 bits: 164 tokens a second on an RTX 3090 Ti, 197 on an RTX 4090."""
    for chip, published in (("rtx-3090-ti", 164.0), ("rtx-4090", 197.0)):
        ctx = EstimateContext(
            build_request.request(
                {
                    "model": "llama-2-7b",
                    "hw": chip,
                    "devices": 1,
                    "weight-dtype": "exl2-4.0",
                    "batch": 1,
                    "prompt": 1,
                    "output": 256,
                }
            )
        )
        assert ctx.engine.name == "ExLlamaV2"
        assert 1 / float(decode(ctx, Layout()).time_s) == pytest.approx(published, rel=0.1)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("engine", sorted(engines()))
def test_every_engine_explains_what_it_answers(engine, cli):
    """An explanation runs the same arithmetic on numbers that remember where they come from."""
    asked = ("llama-3-8b", "--hw", "rtx-4090", "-n", "1", "--tp", "1", "--weight-dtype", "q4_k_m", "--batch", "1", "--prompt", "512", "--output", "16", "--engine", engine)  # fmt: skip
    answer = cli("estimate", *asked, "--phase", "prefill,decode", "--format", "json").json["phases"]
    for phase in ("prefill", "decode"):
        explained = cli("estimate", *asked, "--phase", phase, "--explain", f"{phase}.time_s", "--depth", "0")
        assert explained.code == 0, explained.err
        assert f"({answer[phase]['time_s']!r})" in explained.out
