"""A plan written as a launch and read back is the same plan, for random plans and every tool that writes; and flags carry it, not the comment."""

from __future__ import annotations

import json
import random
import re

import pytest
from conftest import ROOT, examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import rooflinecli as rl
from rooflinecli.importers.launch import emit, read
from rooflinecli.specs.model import load_model

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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tool", SERVE)
@settings(max_examples=examples(50), deadline=None)
@given(options=serving())
def test_a_served_plan_comes_back(tool, options):
    back = read.read_text(emit.emit(tool, options).text, tool)
    found = {key: value for key, value in back.options.items() if (key, value) != ("software", "any")}  # unnamed
    assert differing(options, found) == {}
    assert back.missing == {} and back.unmodelled == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tool", TRAIN)
@settings(max_examples=examples(50), deadline=None)
@given(options=training())
def test_a_trained_plan_comes_back(tool, options):
    back = read.read_text(emit.emit(tool, options).text, tool)
    found = {key: value for key, value in back.options.items() if (key, value) != ("software", "any")}  # unnamed
    if "stages" not in options and load_model(options["model"]).n_layers % (options["pp"] * options["virtual-stages"]):
        assert (
            found.pop("stages", "embedding+loss") == "embedding+loss"
        )  # as stages that do not divide the layers are priced
    assert differing(options, found) == {}
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
    text = emit.emit(tool, options).text
    bare = re.sub(r"^# .*\n", "", text, flags=re.MULTILINE)
    if tool == "deepspeed":
        bare = json.dumps({k: v for k, v in json.loads(text).items() if k != "roofline"}) + "\n"
    back = read.read_text(bare, tool).options
    assert {k for k in OWN[tool] if k not in back or not emit.same(k, options[k], back[k])} == set()


def test_every_writer_has_its_round_trip():
    assert set(emit.tools()) == {*SERVE, *TRAIN}


@pytest.mark.sampled(1)
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


ALONE = {
    "hw",
    "phase",
    "prompt",
    "output",
    "engine",
    "batch",
    "seq",
    "n",
}  # load, machine and pricing: no part of the plan


@st.composite
def servable(draw):
    """Layouts that are legal for their model, experts spread every way that a server has."""
    model = draw(st.sampled_from(["llama-3.1-8b", "qwen3-8b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"]))
    tp, dp = draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([1, 2, 4]))
    pp = draw(st.sampled_from([1, 1, 2]))
    plan = {"model": model, "hw": "h200", "phase": ["prefill", "decode"], "tp": tp, "pp": pp, "dp": dp, "cp": 1, "n": tp * pp * dp,
            "batch": draw(st.integers(1, 64)), "prompt": 1000, "output": 100, "engine": draw(st.sampled_from(["vllm", "sglang", "trtllm"]))}  # fmt: skip
    if model not in ("llama-3.1-8b", "qwen3-8b"):
        plan["ep"] = draw(st.sampled_from([1, 2, 4, 8, 16]))
        cut = draw(st.sampled_from([None, 1, 2, 4]))
        plan |= {"expert-tp": cut} if cut else {}
    if draw(st.booleans()):
        plan["kv-dtype"] = draw(st.sampled_from(["bf16", "fp8"]))
    if draw(st.booleans()):
        plan["dtype"] = draw(
            st.sampled_from(["bf16", "fp16", "fp8"][: 2 if model == "deepseek-v3" else 3])
        )  # stored in fp8
    return plan


def answered(options):
    """The answer of a plan, None where the layout is none."""
    try:
        return rl.estimate(**{k.replace("-", "_"): v for k, v in options.items()})
    except rl.RooflineError:
        return None


def times(answer):
    return {phase: (one.time_s, one.memory) for phase, one in answer.result.phases.items()}


def flags_alone(text):
    """A launch without what only we read."""
    if text.startswith("{"):
        return json.dumps({k: v for k, v in json.loads(text).items() if not k.startswith("roofline")}) + "\n"
    return re.sub(r"^# .*\n", "", text, flags=re.MULTILINE)


def goes_round(tool, options):
    """Whether a launch comes back as the plan it was written from, in layout and time; its flags alone too where nothing is left out."""
    answer = answered(options)
    assume(answer is not None)
    launch = emit.emit(tool, options)
    back = read.read_text(launch.text, tool).options
    assert times(answered({"model": options["model"], **back})) == times(answer)
    if not launch.left_out:
        given = {k: v for k, v in options.items() if k in ALONE or k == "model"}
        alone = read.read_text(flags_alone(launch.text), tool).options
        assert times(answered({**alone, **given})) == times(answer)


@pytest.mark.slow
@pytest.mark.parametrize("tool", SERVE)
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(options=servable())
def test_a_served_plan_takes_the_same_time_again(tool, options):
    goes_round(tool, options)


@st.composite
def trainable(draw):
    tp, pp, dp = (draw(st.sampled_from([1, 2, 4])) for _ in range(3))
    cp, stages = draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from([1, 1, 2]))
    zero = draw(st.integers(0, 3)) if dp * cp > 1 else 0
    micro = draw(st.sampled_from([1, 2]))
    plan = {"model": draw(st.sampled_from(["llama-3.1-8b", "llama-3-70b", "mixtral-8x7b"])), "hw": "h200", "phase": ["train"], "tp": tp, "pp": pp, "dp": dp,
            "cp": cp, "n": tp * pp * dp * cp, "zero": zero, "micro-batch": micro, "batch": dp * micro * 8, "seq": 8192,
            "virtual-stages": stages if pp > 1 else 1, "sequence-parallel": tp > 1 and draw(st.booleans()),
            "recompute": draw(st.sampled_from(["none", "selective", "full"])), "dtype": draw(st.sampled_from(["bf16", "fp16", "fp8"]))}  # fmt: skip
    if plan["model"] == "mixtral-8x7b":
        plan["ep"] = draw(st.sampled_from([1, 2, 4]))
    if draw(st.booleans()):
        plan["shard"] = dp
    return plan


@pytest.mark.slow
@pytest.mark.parametrize("tool", TRAIN)
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(options=trainable())
def test_a_trained_plan_takes_the_same_time_again(tool, options):
    goes_round(tool, options)


def test_a_launch_that_leaves_something_out_says_so(cli):
    asked = ("estimate", "llama-3.1-8b", "--hw", "h100", "--tp", "2", "--weight-dtype", "int4", "--emit", "trtllm")
    ran = cli(*asked)
    assert ran.code == 1 and "leaves out --weight-dtype int4" in ran.err and "--partial" in ran.err
    assert "trtllm-serve" in ran.out and "not part of this launch: --weight-dtype int4" in ran.out
    ran = cli(*asked, "--partial")
    assert ran.code == 0 and "leaves out --weight-dtype int4" in ran.err


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
    assert read.read_text(emit.emit(tool, options).text, tool).options["flash"] is False


@pytest.mark.parametrize(
    "load, slots, longest",
    [
        ("--concurrency 4", 4, 2520),  # lengths vary by a fifth
        ("--concurrency 4 --fixed-lengths", 4, 2100),
        ("--batch 3", 3, 2100),
        ("--qps 2", 5, 2520),
    ],  # 1.6 requests in flight on average, and twice the square root of it
)
def test_llama_cpp_has_slots_and_context_for_the_load(cli, tmp_path, load, slots, longest):
    asked = ("llama-3.1-8b", "--hw", "h100", "--prompt", "2000", "--output", "100", *load.split())
    file = tmp_path / "launch.sh"
    assert cli("estimate", *asked, "--emit", "llama.cpp", "--out", str(file)).code == 0
    assert f"--parallel {slots}\n" in file.read_text() and f"--ctx-size {longest * slots} " in file.read_text()
    one, other = (cli("estimate", *words, "--format", "json").json for words in (asked, ("--from", str(file))))
    assert one["phases"]["decode"]["time_s"] == other["phases"]["decode"]["time_s"]


ARCHITECTURE = {  # where Megatron's defaults are LayerNorm, learned positions, biases, heads of hidden size / heads
    "llama-3-8b": ["--normalization RMSNorm", "--position-embedding-type rope", "--disable-bias-linear"],
    "qwen2.5-7b": ["--disable-bias-linear", "--add-qkv-bias"],
    "qwen3-32b": ["--qk-layernorm", "--kv-channels 128"],
    "deepseek-v3": ["--multi-latent-attention", "--qk-pos-emb-head-dim 64", "--moe-shared-expert-intermediate-size 2048",
                    "--moe-layer-freq '([0]*3+[1]*58)'", "--ffn-hidden-size 18432"],
    "gpt2": [],
}  # fmt: skip


@pytest.mark.parametrize("model", ARCHITECTURE)
def test_megatron_is_told_the_architecture_where_its_defaults_are_another(model):
    options = {
        "model": model,
        "hw": "h100",
        "phase": ["train"],
        "tp": 1,
        "pp": 1,
        "dp": 8,
        "n": 8,
        "batch": 8,
        "seq": 1024,
    }
    text = emit.emit("megatron", options).text
    assert all(f"  {flag} " in text for flag in ARCHITECTURE[model])
    if model == "gpt2":
        assert not any(
            flag in text for flag in ("--normalization", "--position-embedding", "bias-linear", "--kv-channels")
        )
    assert "normalization: " + ("layernorm" if model == "gpt2" else "rmsnorm") in emit.emit("nemo", options).text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tool", ["megatron", "torchtitan", "deepspeed"])
def test_a_launch_takes_whole_micro_batches(tool):
    """1024 sequences are no multiple of 48 replicas: Megatron refuses such a global batch. The step is the same."""
    asked = {"hw": "h100", "phase": "train", "n": 48, "dp": 48, "micro_batch_size": 2}
    taken, whole = (rl.estimate("llama-3-8b", **asked, **more) for more in ({}, {"batch": 1056}))
    with pytest.warns(match="a global batch of 1056 instead of 1024"):
        text = rl.emit(tool, taken)
    assert read.read_text(text, tool).options["batch"] in (1056, "1056")
    assert taken["phases"]["train"]["time_s"] == whole["phases"]["train"]["time_s"]
    assert any("launchers take 1056" in note for note in taken["notes"])
    assert not any("launchers take" in note for note in whole["notes"])


def test_layers_of_llama_405b_are_interleaved_with_its_ends(cli, tmp_path):
    """126 layers, the embedding and the loss are 128 chunks of 16 stages (Llama 3 paper, section 3.3.2), which Megatron Core starts
    with --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split."""
    asked = "llama-3.1-405b --hw h100 -n 8192 --phase train --batch 2048 --seq-len 8192 --tp 8 --pp 16 --dp 64 --recompute none"
    ran = cli("estimate", *asked.split(), "--framework", "megatron", "--emit", "megatron")
    assert ran.code == 0 and "--num-layers-per-virtual-pipeline-stage 1 " in ran.out
    for end in ("embedding", "loss"):
        assert f"--account-for-{end}-in-pipeline-split " in ran.out
    bare = "\n".join(line for line in ran.out.splitlines() if not line.startswith("#"))
    found = read.read_text(bare, "megatron").options
    assert (found["virtual-stages"], found["stages"], found["pp"]) == (8, "embedding+loss", 16)
    assert (
        "--account-for"
        not in emit.emit("megatron", {"model": "llama-3-8b", "phase": ["train"], "n": 8, "pp": 4, "dp": 2}).text
    )


def test_a_checkpoint_is_named_as_on_the_hub_where_it_is_that_model(tmp_path):
    """A file of one's own that says where its sizes came from is no such repository."""
    shipped = load_model("llama-3-8b")
    assert emit.hub(shipped) == "meta-llama/Meta-Llama-3-8B"
    own = tmp_path / "shorter.yaml"
    own.write_text((ROOT / "models" / "llama-3-8b.yaml").read_text().replace("layers: 32", "layers: 16"))
    assert emit.hub(load_model(str(own))) == "shorter"


@pytest.mark.parametrize(("model", "untied"), [("llama-3-8b", True), ("llama-3.2-1b", False)])
def test_megatron_is_told_whether_embedding_and_head_are_apart(model, untied):
    """As the config.json of both says (tie_word_embeddings)."""
    plan = {"model": model, "hw": "h100", "phase": ["train"], "tp": 1, "pp": 1, "dp": 8, "cp": 1, "ep": 1, "n": 8, "batch": 8, "micro-batch": 1, "seq": 2048, "dtype": "bf16", "zero": 1}  # fmt: skip
    assert ("--untie-embeddings-and-output-weights" in emit.emit("megatron", plan).text) is untied


@pytest.mark.parametrize(("engine", "said"), [("vllm", True), ("sglang", False), ("sglang-2025", False), (None, True)])
def test_a_launch_of_another_engine_than_the_estimate_is_said(cli, engine, said):
    words = ("llama-3.1-8b", "--hw", "h100", "--emit", "sglang", *(() if engine is None else ("--engine", engine)))
    assert ("--engine sglang estimates what is launched" in cli("estimate", *words).err) == said


SERVED = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 16k --port 9000 --served-model-name chat --enable-prefix-caching --tool-call-parser hermes"


@pytest.mark.parametrize(
    ("tool", "kept", "named"),
    [
        (
            "vllm",
            "--max-model-len 16000|--port 9000|--served-model-name chat|--enable-prefix-caching|--tool-call-parser hermes",
            "",
        ),
        ("sglang", "--context-length 16000|--port 9000|--served-model-name chat", "--tool-call-parser hermes"),
        ("trtllm", "--max_seq_len 16000|--port 9000", "--served-model-name chat, --tool-call-parser hermes"),
        (
            "llama.cpp",
            "--ctx-size 64000|--parallel 4|--port 9000|--alias chat",
            "--enable-prefix-caching, --tool-call-parser hermes",
        ),
    ],
)
def test_a_server_that_was_read_keeps_what_it_says(tool, kept, named, recwarn):
    """Its longest request is not cut to the load of the estimate, and flags that cost nothing stay or are named."""
    text = rl.emit(tool, rl.estimate(source=SERVED, hw="h100", prompt=2000, output=200, batch=4))
    assert set(kept.split("|")) <= {line.strip(" \\") for line in text.splitlines()}
    left = [str(one.message) for one in recwarn if "left out of the launch" in str(one.message)]
    assert [one.rpartition(": ")[2] for one in left] == ([named] if named else [])
    assert "--max-num-seqs" not in rl.emit("vllm", rl.estimate(source=SERVED, hw="h100"))  # which it does not limit
    uncached = rl.emit("sglang", rl.estimate(source=SERVED.replace("--enable", "--no-enable"), hw="h100"))
    assert "--disable-radix-cache" in uncached


def test_virtual_stages_of_torchtitan_whose_ends_count_as_no_layers():
    """32 layers in 32 stages are one each; with embedding and head as a layer each no number of layers a stage makes 32 stages of 34."""
    plan = {"model": "llama-3-8b", "phase": ["train"], "n": 64, "pp": 4, "dp": 16, "zero": 2, "virtual-stages": 8}
    written = emit.emit("torchtitan", plan).text
    assert "layers_per_stage = 1\n" in written and "first_stage_less_layers = 0\n" in written
    assert read.read_text(written, "torchtitan").options["virtual-stages"] == 8
    assert "less_layers" not in emit.emit("torchtitan", plan | {"virtual-stages": 3}).text  # 12 stages of 34


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_stages_of_other_than_one_size_are_told_to_megatron(seed):
    """25 plans each whose layers pp does not divide: the launch splits them as the price does, and as Megatron's get_num_layers_to_build and
    pipeline layouts have it. 42 layers of Gemma 2 on four stages: the head of 256,000 tokens takes the room of three or four layers."""
    chance, tried = random.Random(seed), 0
    while tried < 25:
        model, pp, tp = chance.choice(("gemma-2-9b", "llama-3-8b", "gemma-3-27b", "qwen3-32b", "gpt3-175b", "qwen3-235b-a22b")), chance.randint(2, 24), 2  # fmt: skip
        layers = load_model(model).n_layers
        if layers % pp == 0 or pp > layers:
            continue
        tried += 1
        asked = {"hw": "h100", "phase": "train", "tp": tp, "pp": pp, "dp": 2, "n": 2 * tp * pp, "batch": 64, "virtual_stages": 1, "micro_batch_size": 1, "zero": 1,
                 "seq_len": chance.choice((1024, 2048)), "recompute": "full", "framework": "megatron"}  # fmt: skip
        priced = rl.estimate(model, **asked)
        text = rl.emit("megatron", priced)
        found = read.read_text("\n".join(line for line in text.splitlines() if not line.startswith("#")), "megatron")
        stages = [int(each) for each in found.options["stages"].split(",")]
        assert sum(stages) == layers and len(stages) == pp and not found.unmodelled
        if "--decoder-first" in text:  # "layers_to_distribute % pipeline_stages_left == 0"
            first, last = (
                int(re.search(rf"--decoder-{end}-pipeline-num-layers (\d+)", text)[1]) for end in ("first", "last")
            )
            assert min(stages) > 0 and (pp == 2 or (layers - first - last) % (pp - 2) == 0)
        else:
            assert "--pipeline-model-parallel-layout 'E" in text
        again = rl.estimate(model, **asked, layers_per_stage=found.options["stages"])
        assert again["phases"]["train"]["time_s"] == pytest.approx(priced["phases"]["train"]["time_s"], rel=0.005)


@pytest.mark.parametrize(
    ("flags", "stages"),
    [
        ("8 --pipeline-model-parallel-layout 'Ett|(tt|)*6L'", "2,2,2,2,2,2,2,0"),
        ("4 --pipeline-model-parallel-layout 'E|t*6|t*6|tt,L'", "0,6,6,2"),
        ("4 --decoder-first-pipeline-num-layers 2", "2,4,4,4"),
        ("4 --decoder-last-pipeline-num-layers 5 --decoder-first-pipeline-num-layers 1", "1,4,4,5"),
        ("2 --pipeline-model-parallel-layout 'Et*3|t*4|t*4|t*3L'", None),  # two chunks on each
    ],
)
def test_layouts_of_megatron_are_read_as_it_expands_them(flags, stages):
    """docs/user-guide of Megatron Core: x*n and (x)*n repeat, commas are for reading."""
    sizes = "--num-layers 14 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --micro-batch-size 1 --bf16"
    launch = read.read_text(f"torchrun --nproc_per_node 8 pretrain_gpt.py {sizes} --pipeline-model-parallel-size {flags}", "megatron")  # fmt: skip
    assert launch.options.get("stages") == stages
    assert any("layout" in one for one in launch.unmodelled) == (stages is None)


def test_ends_that_count_as_layers_are_written_where_they_were_asked_for(cli):
    asked = "llama-3.1-405b --hw h100 -n 8192 --phase train --batch 2048 --seq-len 8192 --tp 8 --pp 16 --dp 64 --layers-per-stage embedding+loss --virtual-stages 8"
    ran = cli("estimate", *asked.split(), "--framework", "megatron", "--emit", "megatron")
    assert (ran.code, "left out" in ran.err, "--account-for-loss-in-pipeline-split" in ran.out) == (0, False, True)
    asked = "gemma-2-9b --hw h100 -n 32 --phase train --batch 512 --tp 1 --pp 4 --dp 8 --virtual-stages 1 --framework megatron"
    words = cli("estimate", *asked.split(), "--emit", "megatron").out.split()
    first, last = (int(words[words.index(f"--decoder-{end}-pipeline-num-layers") + 1]) for end in ("first", "last"))
    assert last < first and (42 - first - last) % 2 == 0  # the head of 256,000 tokens takes the room of layers
