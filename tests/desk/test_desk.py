"""Machines on a desk: what fits, engines with kernels of their own, and published rows held against the shipped constants."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from conftest import run_cli
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.answers.fit import fit
from rooflinecli.answers.parameters import parameters
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.quantised import as_file
from rooflinecli.engine.scene import Scene
from rooflinecli.errors import UsageError
from rooflinecli.price.chip import Chip
from rooflinecli.specs import ask
from rooflinecli.specs.checkpoint.shapes import file_bytes
from rooflinecli.specs.engine import engines, load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.names import files
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.request import Request
from rooflinecli.validate import desk
from rooflinecli.validate.desk_apart import apart
from rooflinecli.validate.stats import joined, summary

CHIPS = ("rtx-4060", "rtx-3090", "rtx-2080-ti", "dgx-spark", "m1", "m3-max", "m5-max", "rx-7900-xtx", "ryzen-ai-max-395", "arc-b580", "core-i9-13900k", "jetson-agx-orin-64")  # fmt: skip
DESK = tuple(name for name, engine in engines().items() if engine.backends)


def question(chip: str, file: str | None = "q4_k_m", model: str = "llama-3.1-8b", **asked) -> Scene:
    given = {"devices": 1.0, "batch": 1.0, "prompt": 512.0, "output": 128.0, "engine": "llamacpp", **asked}
    return Scene(Request(load_model(model), load_hardware(chip), weight_dtype=file, **given))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("file", ["q4_k_m", "q8_0", "iq2_xs"])
def test_no_engine_beats_the_floor_on_any_chip(chip, file):
    for engine in DESK:
        scene = question(chip, file, engine=engine)
        for phase in (prefill, decode):
            answer = phase(scene, Plan())
            assert answer.time_s >= answer.floor_s > 0, (engine, phase)
            assert answer.interval_s[0] <= answer.time_s <= answer.interval_s[1]


@settings(max_examples=20, deadline=None)
@given(context=st.integers(1, 100_000), chip=st.sampled_from(CHIPS))
def test_a_longer_context_never_speeds_a_token_up(context, chip):
    short, long = (decode(question(chip, prompt=float(n)), Plan()).time_s for n in (context, 2 * context))
    assert long >= short


def test_a_step_is_bytes_over_the_bus_and_an_overhead_per_layer():
    """RTX 4090, 7B in Q4_0, empty cache: file less embedding at 0.895 of 1.008 TB/s, and 32 layers of 94,000 cycles at 2.52 GHz."""
    answer = decode(question("rtx-4090", "q4_0", "llama-2-7b", prompt=1.0, output=1.0), Plan())
    read = 3825065984 - 32000 * 4096 // 32 * 18
    assert answer.time_s == pytest.approx(read / (0.895 * 1.008e12) + 32 * 94000 / 2.52e9, rel=2e-3)


@pytest.mark.parametrize("model", ["llama-3.2-1b", "llama-3.1-8b"])
@pytest.mark.parametrize(("chip", "seconds"), [("rtx-4090", 0.012), ("m4-max", 0.006), ("rx-7900-xtx", 0.025)])
def test_llamafile_takes_a_time_of_its_own_for_a_prompt_however_long(model, chip, seconds):
    """LocalScore: once for a prompt, not for a piece of it nor for a token."""
    for tokens in (16.0, 4096.0):
        scene = question(chip, model=model, prompt=tokens, engine="llamafile")
        assert prefill(scene, Plan()).breakdown_s["engine"] == pytest.approx(seconds)
        assert not decode(scene, Plan()).breakdown_s.get("engine", 0.0)
    assert not prefill(question(chip, model=model), Plan()).breakdown_s.get("engine", 0.0)


def test_rows_of_a_batched_run_are_written_behind_their_prompt():
    """llama-batched-bench: 32 sequences of Qwen2.5 7B behind 4,096 tokens read 28 x 2 x 4 x 128 values of 2 bytes for each."""
    asked = {"after_prompt": True, "model": "qwen2.5-7b", "batch": 32, "prompt": 4096}
    behind = next(row for row in desk.rows() if asked.items() <= row.items())
    bare = {k: v for k, v in behind.items() if k != "after_prompt"}
    assert desk.scene(behind).prompt == 4096.0 and desk.scene(bare).prompt == 1.0
    found, alone = (32 / desk.decoded(row)[1] for row in (behind, bare))  # seconds at the floor
    assert found - alone == pytest.approx(32 * 4096 * 28 * 2 * 4 * 128 * 2 / 273e9, rel=0.02)


def test_weights_in_a_file_type_weigh_the_file():
    answer = decode(question("rtx-4090", "q4_k_m", "llama-2-7b"), Plan())
    assert answer.memory.weights_bytes == pytest.approx(
        4080218931, rel=2e-3
    )  # llama.cpp pull request 3084 prints 3.80 GiB


def test_a_power_limit_slows_prefill_and_not_decode():
    """Two boards of equal units, one with half the watts: a laptop's prefill, and a decode step that the bus decides."""
    chip = load_hardware("rtx-4090")
    scenes = [Scene(question("rtx-4090").request, override={"power": watts}) for watts in (450.0, 150.0)]
    (p1, d1), (p2, d2) = ((prefill(s, Plan()).time_s, decode(s, Plan()).time_s) for s in scenes)
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


def test_what_fits_a_card_of_8_gb():
    found = fit(
        ask.request(
            {
                "model": "llama-3.1-8b",
                "hw": "rtx-4060",
                "engine": "llamacpp",
                "batch": 1,
                "phase": ["prefill", "decode"],
            }
        )
    )
    by = {f["file"]: f for f in found["files"]}
    assert not by["F16"]["fits"] and not by["Q8_0"]["fits"] and by["Q4_K_M"]["fits"]
    assert found["largest"] == "Q6_K"
    sizes = [by[f]["bytes"] for f in ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K")]
    assert sizes == sorted(sizes, reverse=True)
    # 32 layers x 8 heads x 128 x keys and values x 2 bytes: 131,072 B a token in what is left of 8 GiB
    # an embedding that the head does not share stays on the host (llama.cpp), at 4.5 bits in this file type
    left = 8 * 2**30 - by["Q4_K_M"]["bytes"] - 1.3e9 + 128256 * 4096 * 4.5 / 8
    assert by["Q4_K_M"]["max_context"] == int(left // 131072)


def test_the_command_and_its_exit_code():
    ran = run_cli("fit", "llama-3.1-8b", "--hw", "rtx-4060", "--file", "q4_k_m,q8_0", "--format", "json")
    assert ran.code == 0 and [f["file"] for f in json.loads(ran.out)["files"]] == ["Q4_K_M", "Q8_0"]
    none = run_cli("fit", "llama-3.1-70b", "--hw", "rtx-4060")
    assert none.code == 1 and "None holds 2048 + 256 tokens" in none.out
    wrong = run_cli("fit", "llama-3.1-8b", "--hw", "rtx-4060", "--file", "q4_x")
    assert wrong.code == 2 and "q4_x" in wrong.err.lower() and wrong.err.count("\n") == 1
    small = run_cli(
        "fit", "llama-3.1-8b", "--hw", "m3-max", "--memory", "7GB", "--file", "Q8_0,Q4_K_M", "--format", "csv"
    )
    assert small.code == 0 and "Q8_0,8532934656,8.5" in small.out and ",False,0,," in small.out


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("t5-base", "attends to an encoder"),
        ("bert-base", "writes no tokens"),
        ("recurrentgemma-9b", "llama.cpp runs none"),
        ("llama-3.2-11b-vision", "attends to an encoder"),
    ],
)
def test_a_model_without_such_files_is_told_why(model, says):
    ran = run_cli("fit", model, "--hw", "rtx-4090")
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1


# Sizes in GB of the maker's own files: huggingface.co/Qwen/Qwen3-Next-80B-A3B-Thinking-GGUF (tree, 2026)
@pytest.mark.parametrize(
    ("file", "published"), [("Q4_K_M", 48.4), ("Q5_0", 55.0), ("Q5_K_M", 56.7), ("Q6_K", 65.5), ("Q8_0", 84.8)]
)
def test_a_hybrid_weighs_what_its_published_files_do(file, published):
    """Delta-rule layers beside attention and 512 experts: within 0.2 % of five files, rounded to three digits."""
    found = fit(ask.request({"model": "qwen3-next-80b-a3b", "hw": "m4-max", "engine": "llamacpp", "batch": 1}), (file,))
    assert found["files"][0]["bytes"] / 1e9 == pytest.approx(published, rel=2.1e-3)


def test_a_tower_that_reads_images_is_a_file_of_its_own():
    """Qwen2.5-VL 7B: the text model in Q4_K_M beside 16 bits of everything the tower holds."""
    spec = load_model("qwen2.5-vl-7b")
    text = spec.model_copy(update={"towers": []})
    text._document = spec.document
    whole, alone = (parameters(s).total for s in (spec, text))
    found = fit(
        ask.request({"model": "qwen2.5-vl-7b", "hw": "rtx-4090", "engine": "llamacpp", "batch": 1}), ("Q4_K_M",)
    )
    assert found["files"][0]["bytes"] == pytest.approx(
        file_bytes(text, "Q4_K_M", alone)["total"] + 2 * (whole - alone), rel=1e-9
    )


def test_a_file_type_is_a_weight_format_and_brings_its_engine():
    request = ask.request({"model": "llama-3.1-8b", "hw": "rtx-4090", "weight-dtype": "q4_k_m"})
    assert request.engine == "llamacpp"
    assert ask.request({"model": "llama-3.1-8b", "hw": "rtx-4090", "weight-dtype": "int4"}).engine == "python-server"
    with pytest.raises(UsageError, match="q4_k_x"):
        ask.request({"model": "llama-3.1-8b", "hw": "rtx-4090", "weight-dtype": "q4_k_x"})


def test_a_stored_file_is_built_once():
    spec = load_model("llama-3.1-8b")
    assert as_file(spec, "Q4_K_M") is as_file(spec, "Q4_K_M") is not as_file(spec, "Q6_K")


def test_memory_can_be_set():
    asked = question("m3-max").request
    assert Scene(replace(asked, memory=27e9)).chip.capacity == 27e9


def matmuls(chip: str, file: str, model: str = "llama-2-7b", **asked) -> float:
    return float(decode(question(chip, file, model, prompt=1.0, output=1.0, **asked), Plan()).breakdown_s["matmul"])


def test_cores_decide_how_fast_an_m1_reads_k_quants_and_its_bus_how_fast_others():
    """LocalScore and published runs on M1 Pro and Max: 6.3 bytes a clock and core, where Q4_0 and an M4 Max reach 0.914 of the bus."""
    few, many = load_hardware("m1-max-24"), load_hardware("m1-max")
    assert few.memory.bandwidth.si == many.memory.bandwidth.si
    assert matmuls("m1-max-24", "q4_k_m") / matmuls("m1-max", "q4_k_m") == pytest.approx(
        32 / 24, rel=0.01
    )  # the head goes by the bus
    assert matmuls("m1-max-24", "q4_0") == matmuls("m1-max", "q4_0")
    read = file_bytes(load_model("llama-2-7b"), "Q6_K", parameters(load_model("llama-2-7b")).total)
    streamed = (read["total"] - read["embedding"]) / (6.3 * 32 * 1.296e9)
    assert matmuls("m1-max", "q6_k") == pytest.approx(streamed, rel=5e-3)
    assert matmuls("m4-max", "q4_k_m") * 0.914 * 546e9 == pytest.approx(
        matmuls("m2", "q4_k_m") * 6.3 * 10 * 1.398e9, rel=1e-3
    )


def test_a_prompt_in_k_quants_takes_a_seventh_longer_on_metal():
    """Pull request 3084, M2 Ultra: 1028 (Q4_K_M) to 978 (Q5, Q6_K) tokens a second where Q4_0 gives 1164: 0.84 to 0.88."""
    plain, k = (
        float(prefill(question("m2-ultra", f, "llama-2-7b"), Plan()).breakdown_s["matmul"]) for f in ("q4_0", "q4_k_m")
    )
    assert 0.84 <= plain / k <= 0.88


def test_further_rows_cost_what_vector_kernels_take_and_a_prompt_knows_nothing_of_them():
    """RTX 3090, 8B in Q4_0: 7 further rows at 0.043 of the int8 rate, seven twenty-thirds of it spared, beside the loads of one."""
    spec, chip = load_model("llama-3-8b"), load_hardware("rtx-3090")
    one, eight = (matmuls("rtx-3090", "q4_0", "llama-3-8b", batch=float(b)) for b in (1, 8))
    weights = parameters(spec).total - 2 * spec.vocab_size * spec.d_model  # the head has kernels of its own
    assert eight - one == pytest.approx(2 * weights * 7 / (1 + 7 / 16) / (0.043 * chip.peak["int8"].si), rel=0.03)
    rates = [
        b / float(decode(question("rtx-3090", "q4_0", "llama-3-8b", batch=float(b), prompt=512.0), Plan()).time_s)
        for b in (1, 2, 4, 8)
    ]
    assert rates == sorted(rates)  # more together is never less in all
    # the prompt of 512 is bound by work: as long as at the compute share alone, joined with the power limit in a norm of 4
    flops = 2 * 512 * weights
    units, watts = flops / (0.32 * chip.peak["int8"].si), flops / (268e9 * 350)
    found = float(prefill(question("rtx-3090", "q4_0", "llama-3-8b"), Plan()).breakdown_s["matmul"])
    assert found == pytest.approx((units**4 + watts**4) ** 0.25, rel=0.02)


def test_experts_of_a_prompt_are_loaded_and_then_worked_on():
    """gpt-oss-120b on GB10: a micro-batch of 512 is three times as slow a token as one of 2,048 (846 and 1,938 measured)."""
    asked = {"file": "mxfp4_moe", "model": "gpt-oss-120b", "prompt": 2048.0}
    small, large = (
        float(prefill(question("dgx-spark", token_budget=t, **asked), Plan()).time_s) for t in (512.0, 2048.0)
    )
    assert 1.5 < small / large < 2.5
    assert 2048 / large == pytest.approx(1937.54, rel=0.1)


def test_a_bench_visits_few_experts():
    """r = 0.6: of 128 experts, four of each of 16 tokens reach 39, where even routing reaches 51 and the floor counts fewer still."""
    one, answer = (
        decode(question("dgx-spark", "mxfp4_moe", "gpt-oss-120b", batch=b, prompt=512.0), Plan()) for b in (1.0, 16.0)
    )
    assert load_engine("llamacpp").routing_skew == 0.6 and load_engine("vllm").routing_skew == 1.5
    visited = 128 * (1 - (1 + 16 * 4 / 128 / 0.6) ** -0.6)
    assert visited == pytest.approx(39, abs=0.5)
    each = 36 * 3 * 2880 * 2880 * 4.25 / 8
    more = float(answer.breakdown_s["matmul"]) - float(one.breakdown_s["matmul"])
    assert more == pytest.approx(
        (visited - 4) * each / (0.895 * 273e9), rel=0.04
    )  # and a little for further rows of the other layers


@pytest.mark.parametrize("name", ["a30", "rtx-2060-super", "gtx-1080-ti", "p40", "titan-v", "rx-6800-xt", "rx-7800-xt", "radeon-780m", "arc-140v", "m1-pro-14", "mi210", "gtx-1660"])  # fmt: skip
def test_every_part_that_people_own_is_answered_above_its_floor(name):
    for engine in ("llamacpp", "llamafile", "llamacpp-rocm", "llamacpp-vulkan"):
        scene = question(name, "q4_k_m", "llama-3.2-1b", engine=engine)
        for phase in (prefill, decode):
            answer = phase(scene, Plan())
            assert answer.time_s >= answer.floor_s > 0, (engine, phase)
    for figure in load_hardware(name).peak.values():
        assert figure.source in load_hardware(name).sources


def test_exl2_files_run_on_the_second_exllama():
    """turboderp/exllamav2 README, Llama 2 7B at 4.0 bits: 164 tokens a second on an RTX 3090 Ti, 197 on an RTX 4090."""
    for chip, published in (("rtx-3090-ti", 164.0), ("rtx-4090", 197.0)):
        scene = Scene(
            ask.request(
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
        assert scene.engine.name == "ExLlamaV2"
        assert 1 / float(decode(scene, Plan()).time_s) == pytest.approx(published, rel=0.1)


def test_rows_that_a_lesser_chip_beats_twofold_stand_apart():
    lesser = {
        "id": "a",
        "group": "x",
        "model": "m",
        "weights": "q",
        "engine": "e",
        "hardware": "rtx-3090",
        "decode": 100.0,
    }
    slow = {**lesser, "id": "b", "group": "localscore_2026", "hardware": "a100-pcie-80", "decode": 49.0}
    assert apart((lesser, slow)) == {"b"}
    assert not apart((lesser, {**slow, "decode": 51.0}))  # not twice
    assert not apart((lesser, {**slow, "model": "other"}))  # another file
    assert not apart((lesser, {**slow, "hardware": "rtx-3060-12"}))  # the other is no lesser chip
    assert not apart((lesser, {**slow, "hardware": "mi300x"}))  # nor of the same maker
    assert not apart((lesser, {**slow, "group": "llamacpp_cuda_board"}))  # nobody's database
    assert not apart((lesser, {"prefill": 1.0, **{k: v for k, v in slow.items() if k != "decode"}}))


def test_what_is_set_apart_is_scored_with_and_without():
    lines = {line["group"]: line for line in desk.tables()[0].rows}
    whole, kept = lines["all left out"], lines["all left out, comparable"]
    assert whole["rows"] + whole["suspect"] - kept["rows"] - kept["suspect"] == len(desk.set_apart()) > 10
    assert kept["median"] < 0.08 and 0.75 <= kept["coverage"] <= 0.9 and whole["rows"] > 280


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "group", "mean"),
    [("decode", "llamacpp_metal_board", 0.06), ("decode", "llamacpp_cuda_board", 0.10), ("prefill", "llamacpp_metal_board", 0.06), ("prefill", "llamacpp_cuda_board", 0.14), ("decode", "llamacpp_dgx_spark", 0.08), ("decode", "mlx_2026", 0.08), ("decode", "llmfit_2026", 0.1), ("decode", "llamacpp_dgx_spark_batched", 0.1), ("prefill", "llamacpp_cuda_gptoss", 0.13)],
)  # fmt: skip
def test_published_rows(which, group, mean):
    """Errors of the shipped constants as measured when they were shipped; the last group was in no fit."""
    assert summary(desk.points(which, group))["mean"] < mean


def test_no_published_decode_rate_beats_the_bus():
    fitted = [
        desk.points("decode", g) for g in ("llamacpp_metal_board", "llamacpp_vulkan_board", "llamacpp_rocm_board")
    ]
    found = summary(joined("all", fitted))
    assert found["suspect"] == 0 and found["below_floor"] == 0
    assert 0.7 <= found["coverage"] <= 0.98


@pytest.mark.parametrize("engine", sorted(engines()))
def test_every_engine_explains_what_it_answers(engine, cli):
    """An explanation runs the same arithmetic on numbers that remember where they come from."""
    asked = ("llama-3-8b", "--hw", "rtx-4090", "-n", "1", "--tp", "1", "--weight-dtype", "q4_k_m", "--batch", "1", "--prompt", "512", "--output", "16", "--engine", engine)  # fmt: skip
    answer = cli("estimate", *asked, "--phase", "prefill,decode", "--format", "json").json["phases"]
    for phase in ("prefill", "decode"):
        told = cli("estimate", *asked, "--phase", phase, "--explain", f"{phase}.time_s", "--depth", "0")
        assert told.code == 0, told.err
        assert f"({answer[phase]['time_s']!r})" in told.out
