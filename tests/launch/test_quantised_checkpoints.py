"""A checkpoint that is published quantized keeps its weights through a launch, written or read."""

from __future__ import annotations

import pytest

from rooflinecli.importers.launch import read


def _weights(answer) -> float:
    return answer.json["model"]["weights_bytes"]


def _tool(launch: str) -> str:
    return {"vllm": "vllm", "python": "sglang", "trtllm-serve": "trtllm"}[launch.split()[0]]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("model", ["deepseek-v3", "kimi-k2", "gpt-oss-120b", "deepseek-v4-flash", "llama-3.1-8b"])
@pytest.mark.parametrize("tool", ["vllm", "sglang", "trtllm"])
def test_its_launch_gives_the_same_answer_again(cli, tmp_path, tool, model):
    asked = (model, "--hw", "h200", "-n", "16", "--tp", "8", "--phase", "decode")
    file = tmp_path / "launch.sh"
    assert cli("estimate", *asked, "--emit", tool, "--partial", "--out", str(file)).code == 0
    one = cli("estimate", *asked, "--format", "json")
    other = cli("estimate", "--from", str(file), "--phase", "decode", "--format", "json")
    assert _weights(one) == _weights(other)
    assert one.json["phases"]["decode"]["time_s"] == other.json["phases"]["decode"]["time_s"]


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
@pytest.mark.parametrize("model", ["deepseek-v4-flash", "gpt-oss-120b"])
def test_a_format_that_was_asked_for_survives_its_launch(cli, tmp_path, model, dtype):
    asked = (model, "--hw", "h200", "-n", "16", "--tp", "8", "--phase", "decode", "--dtype", dtype)
    file = tmp_path / "launch.sh"
    assert cli("estimate", *asked, "--emit", "vllm", "--partial", "--out", str(file)).code == 0
    one = cli("estimate", *asked, "--format", "json")
    assert _weights(one) == _weights(cli("estimate", "--from", str(file), "--phase", "decode", "--format", "json"))


@pytest.mark.parametrize(
    "launch",
    [
        "vllm serve openai/gpt-oss-120b --dtype bfloat16",
        "vllm serve openai/gpt-oss-120b --quantization mxfp4",
        "vllm serve deepseek-ai/DeepSeek-V4-Flash --quantization fp8 --dtype bfloat16",
        "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --quantization fp8",
        "trtllm-serve deepseek-ai/DeepSeek-V3 --dtype bfloat16",
    ],
)
def test_flags_that_name_what_it_holds_store_it_no_other_way(launch):
    assert not {"dtype", "weight-dtype"} & set(read.read_text(launch + "\n", _tool(launch)).options)


@pytest.mark.parametrize(
    "launch, said",
    [
        ("vllm serve unsloth/gpt-oss-120b-BF16 --dtype bfloat16", {"dtype": "bf16"}),
        ("vllm serve nvidia/DeepSeek-V3-FP4 --dtype bfloat16", {"dtype": "nvfp4"}),
        ("vllm serve cognitivecomputations/DeepSeek-V3-AWQ --dtype float16", {"dtype": "fp16", "weight-dtype": "int4"}),
        ("vllm serve meta-llama/Llama-3.1-8B --quantization fp8", {"dtype": "fp8"}),
        ("vllm serve meta-llama/Llama-3.1-8B --dtype float16", {"dtype": "fp16"}),
    ],
)
def test_a_checkpoint_made_from_it_is_what_its_name_says(launch, said):
    assert read.read_text(launch + "\n", _tool(launch)).options.items() >= said.items()


def test_fp8_on_a_chip_without_its_matmuls_is_how_weights_are_stored(cli):
    command = "vllm serve meta-llama/Llama-3.1-8B --quantization fp8"
    own, hopper = (cli("estimate", "--from", command, "--hw", hw, "--format", "json") for hw in ("a100", "h100"))
    assert own.json["workload"]["weight_dtype"] == "fp8" and own.json["workload"]["dtype"] == "bf16"
    assert "a100 has no fp8 matmuls" in own.err and "no fp8" not in hopper.err
    assert _weights(own) == _weights(hopper)
