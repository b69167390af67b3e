"""A plan written as a launch and read back is the same plan, for random plans and every tool that writes; and flags carry it, not the comment."""

from __future__ import annotations

import json
import re

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.importers.launch import emit, read

SERVE = ("vllm", "sglang", "trtllm", "llama.cpp")
TRAIN = ("megatron", "nemo", "torchtitan", "maxtext", "deepspeed")
MODELS = (
    "llama-3-70b",
    "llama-3.1-8b",
    "mixtral-8x7b",
    "qwen3-8b",
    "deepseek-v3",
    "gpt3-175b",
    "gpt-oss-120b",
    "llama-2-7b",
    "kimi-k2",
)
SIZE = st.sampled_from([1, 2, 3, 4, 8, 16])


@st.composite
def serving(draw):
    tp, pp, dp, cp = (draw(SIZE) for _ in range(4))
    ep = draw(st.sampled_from([1, dp, 2, tp * dp]))
    options = {
        "model": draw(st.sampled_from(MODELS)), "hw": draw(st.sampled_from(["h100", "b200", "tpu-v6e"])), "phase": ["prefill", "decode"],
        "tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "n": tp * pp * dp * cp, "batch": draw(st.integers(1, 4096)),
        "prompt": draw(st.integers(1, 100_000)), "output": draw(st.integers(0, 10_000)), "dtype": draw(st.sampled_from(["bf16", "fp16", "fp8", "int8"])),
        "engine": draw(st.sampled_from(["vllm", "sglang", "trtllm", "python-server"])),
    }  # fmt: skip
    seldom = {
        "kv-dtype": ["fp8", "int8", "bf16", "q8_0"],
        "weight-dtype": ["int4", "int8", "mxfp4", "q8_0"],
        "token-budget": [8192],
        "gpu-memory-utilization": [0.85],
        "price": ["2.5 USD/h"],
        "flash": [False],
        "qps": [0.5],
    }
    return options | {k: draw(st.sampled_from(v)) for k, v in seldom.items() if draw(st.booleans())}


@st.composite
def training(draw):
    tp, pp, dp, cp = (draw(SIZE) for _ in range(4))
    zero = draw(st.integers(0, 3))
    options = {
        "model": draw(st.sampled_from(MODELS)), "hw": "h100", "phase": ["train"], "tp": tp, "pp": pp, "dp": dp, "cp": cp,
        "ep": draw(st.sampled_from([1, 1, 2, dp])), "n": tp * pp * dp * cp, "zero": zero, "micro-batch": draw(SIZE),
        "virtual-stages": draw(st.sampled_from([1, 2, 4])), "sequence-parallel": draw(st.booleans()), "batch": draw(st.integers(1, 8192)),
        "recompute": draw(st.sampled_from(["none", "selective", "full", "op"])), "seq": draw(st.integers(1, 131072)),
        "dtype": draw(st.sampled_from(["bf16", "fp16", "fp8"])),
    }  # fmt: skip
    seldom = {"expert-tp": [1, 2], "ring": ["ulysses"], "shard": [dp], "offload": ["optimizer"], "recipe": ["lora"], "schedule": ["gpipe", "1f1b"], "tokens": ["1T"],
              "stages": ["11,12,12,11"], "dropout": [True], "recompute-layers": [8], "software": ["megatron-2022"]}  # fmt: skip
    return options | {
        k: draw(st.sampled_from(v)) for k, v in seldom.items() if draw(st.booleans()) and draw(st.booleans())
    }


def differing(options: dict, back: dict) -> dict:
    extra = {k: v for k, v in back.items() if k not in options}
    return extra | {k: (v, back.get(k)) for k, v in options.items() if k not in back or not emit.same(k, v, back[k])}


@pytest.mark.parametrize("tool", SERVE)
@settings(max_examples=examples(50), deadline=None)
@given(options=serving())
def test_a_served_plan_comes_back(tool, options):
    back = read.read_text(emit.emit(tool, options), tool)
    assert differing(options, back.options) == {}
    assert back.missing == {} and back.unmodelled == []


@pytest.mark.parametrize("tool", TRAIN)
@settings(max_examples=examples(50), deadline=None)
@given(options=training())
def test_a_trained_plan_comes_back(tool, options):
    back = read.read_text(emit.emit(tool, options), tool)
    assert differing(options, back.options) == {}
    assert back.missing == {} and back.unmodelled == []


# what each tool says by its own flags: the rest may stand in the comment, these may not
OWN = {
    "vllm": {"model", "tp", "pp", "dp", "n", "batch", "dtype"}, "sglang": {"model", "tp", "pp", "dp", "n", "batch", "dtype"},
    "trtllm": {"model", "tp", "pp", "n", "batch"}, "llama.cpp": {"tp", "batch"},
    "megatron": {"tp", "pp", "cp", "ep", "dp", "n", "zero", "micro-batch", "batch", "seq", "dtype", "recompute", "sequence-parallel", "virtual-stages"},
    "nemo": {"tp", "pp", "cp", "ep", "dp", "n", "micro-batch", "batch", "seq", "dtype", "recompute", "sequence-parallel", "virtual-stages"},
    "torchtitan": {"tp", "pp", "cp", "ep", "dp", "n", "micro-batch", "batch", "seq", "zero"},
    "maxtext": {"tp", "pp", "cp", "ep", "dp", "n", "batch", "seq", "zero", "recompute"},
    "deepspeed": {"dp", "zero", "micro-batch", "batch", "dtype"},
}  # fmt: skip


@pytest.mark.parametrize("tool", (*SERVE, *TRAIN))
def test_what_a_tool_has_flags_for_is_not_left_to_the_comment(tool):
    options = {
        "model": "llama-3.1-8b",
        "hw": "h100",
        "tp": 2,
        "pp": 2,
        "dp": 4,
        "cp": 1,
        "ep": 1,
        "n": 16,
        "batch": 64,
        "dtype": "bf16",
    }
    if tool in SERVE:
        options |= {"phase": ["prefill", "decode"], "prompt": 1000, "output": 200, "engine": "vllm"}
        options |= {"dp": 1, "n": 4} if tool == "trtllm" else {"dp": 1, "pp": 1, "n": 2} if tool == "llama.cpp" else {}
    else:
        options |= {
            "phase": ["train"],
            "zero": 1,
            "micro-batch": 1,
            "virtual-stages": 2,
            "sequence-parallel": True,
            "recompute": "full",
            "seq": 8192,
        }
        options |= {"zero": 3, "virtual-stages": 1} if tool in ("torchtitan", "maxtext") else {}
        options |= {"tp": 1, "pp": 1, "n": 4} if tool == "deepspeed" else {}
    text = emit.emit(tool, options)
    bare = re.sub(r"^# .*\n", "", text, flags=re.MULTILINE)
    if tool == "deepspeed":
        bare = json.dumps({k: v for k, v in json.loads(text).items() if k != "roofline"}) + "\n"
    back = read.read_text(bare, tool).options
    assert {k for k in OWN[tool] if k not in back or not emit.same(k, options[k], back[k])} == set()


def test_every_writer_has_its_round_trip():
    assert set(emit.tools()) == {*SERVE, *TRAIN}


@pytest.mark.parametrize("tool, phase", [("vllm", "decode"), ("megatron", "train")])
def test_the_launch_of_an_estimate_gives_the_same_digits(cli, tmp_path, tool, phase):
    asked = ("llama-3.1-8b", "--hw", "h100", "-n", "8", "--phase", phase, "--dtype", "fp8")
    file = tmp_path / "launch.sh"
    assert cli("estimate", *asked, "--emit", tool, "--out", str(file)).code == 0
    one, other = (
        cli("estimate", *words, "--format", "json").json for words in (asked, ("--from", str(file), "--phase", phase))
    )
    assert one["phases"][phase]["time_s"] == other["phases"][phase]["time_s"]
    assert one["phases"][phase]["memory"] == other["phases"][phase]["memory"]


def test_a_tool_that_trains_does_not_serve(cli):
    ran = cli("estimate", "llama-3-8b", "--hw", "h100", "--phase", "decode", "--emit", "megatron")
    assert ran.code == 2 and "--phase train" in ran.err
    ran = cli("estimate", "llama-3-8b", "--hw", "h100", "--emit", "vlm")
    assert ran.code == 2 and "did you mean vllm" in ran.err


@pytest.mark.parametrize("tool", SERVE)
def test_a_switch_that_is_off_comes_back_under_its_flag(tool):
    """The comment writes --no-flash-attention; the option is `flash`."""
    options = {
        "model": "llama-3-70b",
        "hw": "h100",
        "phase": ["prefill", "decode"],
        "tp": 1,
        "batch": 1,
        "flash": False,
    }
    assert read.read_text(emit.emit(tool, options), tool).options["flash"] is False
