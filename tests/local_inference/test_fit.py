"""`roofline fit`: which files of a model a machine on a desk holds, what they weigh, and the reason where it holds none."""

from __future__ import annotations

import json
import shlex

import pytest
from conftest import run_cli

from rooflinecli.engine import build_request
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.gguf import file_bytes
from rooflinecli.questions.fit.answer import fit
from rooflinecli.specs.model import load_model


def test_what_fits_a_card_of_8_gb():
    found = fit(
        build_request.request(
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


@pytest.mark.slow
def test_the_command_and_its_exit_code():
    ran = run_cli("fit", "llama-3.1-8b", "--hw", "rtx-4060", "--file", "q4_k_m,q8_0", "--format", "json")
    assert ran.code == 0 and [f["file"] for f in json.loads(ran.out)["files"]] == ["Q8_0", "Q4_K_M"]  # largest first
    none = run_cli("fit", "llama-3.1-70b", "--hw", "rtx-4060")
    assert none.code == 1 and "None holds 2048 + 256 tokens" in " ".join(none.out.split())
    wrong = run_cli("fit", "llama-3.1-8b", "--hw", "rtx-4060", "--file", "q4_x")
    assert wrong.code == 2 and "q4_x" in wrong.err.lower() and wrong.err.count("\n") == 1
    small = run_cli(
        "fit", "llama-3.1-8b", "--hw", "m3-max", "--memory", "7GB", "--file", "Q8_0,Q4_K_M", "--format", "csv"
    )
    assert small.code == 0 and "Q8_0,8532934656,8.5" in small.out and ",False,0," in small.out


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
    """Delta-rule layers with attention and 512 experts: within 0.2 % of five files, rounded to three digits."""
    found = fit(
        build_request.request({"model": "qwen3-next-80b-a3b", "hw": "m4-max", "engine": "llamacpp", "batch": 1}),
        (file,),
    )
    assert found["files"][0]["bytes"] / 1e9 == pytest.approx(published, rel=2.1e-3)


def test_a_tower_that_reads_images_is_a_file_of_its_own():
    """Qwen2.5-VL 7B: the text model in Q4_K_M and 16 bits of everything the tower holds."""
    spec = load_model("qwen2.5-vl-7b")
    text = spec.with_changes(towers=[])
    text._document = spec.document
    whole, alone = (parameters(s).total for s in (spec, text))
    found = fit(
        build_request.request({"model": "qwen2.5-vl-7b", "hw": "rtx-4090", "engine": "llamacpp", "batch": 1}),
        ("Q4_K_M",),
    )
    assert found["files"][0]["bytes"] == pytest.approx(
        file_bytes(text, "Q4_K_M", alone)["total"] + 2 * (whole - alone), rel=1e-9
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("llama-3-405b --hw rtx-4090", "a device that holds more"),  # its smallest file exceeds the memory
        ("llama-3-8b --hw rtx-4090 --prompt 120k", "lower --prompt"),  # the model's own context is shorter
        ("llama-3-8b --hw rtx-4090 --prompt 8k", "has a context of 8,192 tokens"),
        ("llama-3.1-8b --hw rtx-3060-12 --file Q8_0 --prompt 40k", "--kv-dtype q8_0"),
    ],
)
def test_the_remedy_helps(asked, said):
    (line,) = [
        line for line in " ".join(run_cli("fit", *asked.split()).out.split()).split(". ") if "None holds" in line
    ]
    assert said in line
    assert said == "--kv-dtype q8_0" or "--kv-dtype" not in line


@pytest.mark.parametrize("words", ["gpt-oss-20b --hw rtx4090", "llama-3.2-1b --hw rtx-3060-12"])  # MXFP4 experts stay
def test_the_command_prices_the_file(words):
    found = run_cli("fit", *words.split(), "--format", "json").json
    assert found["largest"] == "F16" and found["command"].startswith("roofline estimate ")
    estimated = run_cli(*shlex.split(found["command"])[1:], "--format", "json").json
    (row,) = (f for f in found["files"] if f["file"] == "F16")
    decode = estimated["phases"]["decode"]
    assert estimated["feasible"] and decode["tokens_per_s"] == pytest.approx(row["decode_tokens_per_s"], rel=1e-12)
    assert estimated["model"]["weights_bytes"] == pytest.approx(row["bytes"], rel=1e-6)
    ran = run_cli("estimate", "llama-3.2-1b", "--hw", "h100", "--weight-dtype", "f16")
    assert ran.code == 2 and "fp16" in ran.err  # the name of a file, not of a number format


@pytest.mark.parametrize(
    "words", ["qwen3-32b --hw rtx-4090 --prompt 32k --kv-dtype q8_0", "qwen3-8b --hw rtx-4060 --prompt 24k"]
)
def test_what_fits_is_feasible_for_an_estimate(words):
    """A long prompt is computed in micro-batches, so it holds the activations of one."""
    command = run_cli("fit", *words.split(), "--format", "json").json["command"]
    assert run_cli(*shlex.split(command)[1:], "--format", "json").json["feasible"]


def test_several_cards_are_sent_to_the_verb_that_lays_a_file_over_them():
    ran = run_cli("fit", "llama-3.3-70b", "--hw", "2x3090")
    assert ran.code == 2 and "`roofline estimate llama-3.3-70b --hw 2x3090" in ran.err


@pytest.mark.parametrize(
    ("words", "said", "unsaid"),
    [
        ("qwen3-32b --hw rtx-3090 --quantization Q4_K_M,awq,gptq --prompt 16k --kv-dtype q4_0", "try --quantization gptq|llama.cpp (Q4_K_M, gptq), AutoAWQ (awq)", "(+0%)"),
        ("llama-3.3-70b --hw rtx-3090 --prompt 4k --output 512", "IQ1_M: 38.4 tok/s (+20%); check accuracy", None),
        ("gpt-oss-120b --hw rtx-5090", "MXFP4_MOE|F16", "Q8_0"),  # experts stay MXFP4 under every name
    ],
)  # fmt: skip
def test_fit_names_what_is_worth_another_file(cli, words, said, unsaid):
    shown = " ".join(cli("fit", *words.split()).out.split())
    assert all(part in shown for part in said.split("|")) and (unsaid is None or unsaid not in shown)
