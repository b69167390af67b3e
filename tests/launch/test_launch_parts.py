"""The parts that readers of launches share, one by one: arguments, interpolation, rules, layouts, formats, caps and loads, where each begins and ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rooflinecli.core.errors import UsageError
from rooflinecli.importers.launch import (
    dtype_names,
    locate,
    read,
    rules,
    serving_common,
    shell_expansion,
    training_common,
    unit_files,
)
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, flattened, interpolated, named_file
from rooflinecli.importers.launch.shell_expansion import unknowns
from rooflinecli.importers.launch.tools import accelerate, deepspeed, llama_cpp, maxtext, megatron


def launch(**options: Any) -> Launch:
    return Launch("tool", "file:1", options={name.replace("_", "-"): value for name, value in options.items()})


def words(text: str, *switches: str, **more: Any) -> LaunchArguments:
    return LaunchArguments.of_words(text.split(), switches, **more)


# --- arguments ---------------------------------------------------------------------------------------------------------------


def test_flags_take_words_up_to_the_next_flag() -> None:
    args = words("model --tp 2 --list a b --on --eq=3 -x 1 -- --last", "on")
    assert args.positional == ["model", "--"] and args.given == {
        "tp": ["2"],
        "list": ["a", "b"],
        "on": [],
        "eq": ["3"],
        "x": ["1"],
        "last": [],
    }
    assert words("--on true --off no y", "on", "off").given == {"on": ["true"], "off": []}
    one = words("--tp 2 own --many 1 2 more", many=["many"])
    assert one.given == {"tp": ["2"], "many": ["1", "2", "more"]} and one.positional == ["own"]
    assert words("-t 2", short={"-t": "tp"}).given == {"tp": ["2"]}
    assert LaunchArguments.of_words(["--tp 2", "--name"]).given == {"tp": ["2"], "name": []}


def test_values_of_flags() -> None:
    args = words("--tensor_parallel 2 --seq 1_024 --bad many --zero --big auto --micro-batch-size 4")
    one = launch()
    assert args.pop("tensor-parallel") == "2" and args.pop("zero") is True and args.pop("none", default=5) == 5
    assert args.whole(one, "seq") == 1024 and args.whole(one, "big", default=7) == 7 and args.whole(one, "none") is None
    assert args.whole(one, "bad", default=3) == 3 and args.whole(one, "zero") is None
    assert one.missing == {"?bad": "--bad many is not a number", "?zero": "--zero has no value"}
    assert args.count("tensor-parallel") == 2 and args.count("bad") is None and args.count("none") is None
    assert args.first("seq") == "1_024" and args.first("zero", 1) == 1 and args.values("seq") == ["1_024"]
    args.put(one, "seq", "seq")
    args.put(one, "off", "big")
    assert (
        one.options == {"seq": "1024"}
        and args.written("tensor-parallel") == "--tensor_parallel"
        and args.written("none") == "--none"
    )
    assert (
        args.pop("micro-batch") is None and words("--micro-batch 4").pop("micro-batch-size") == "4"
    )  # argparse takes a short name
    assert args.unread() == {"micro-batch-size": ["--micro-batch-size", "4"]}
    assert args.read("seq") and not args.read("micro-batch-size") and args.has("zero") and not args.has("non")


def test_a_config_stands_under_the_flags_of_the_command() -> None:
    args = words("--tp 2")
    args.under({"tp": 4, "pp": 3, "off": False, "none": None, "on": True, "many": [1, 2], "table": {"a": 1}})
    assert args.given == {"tp": ["2"], "pp": [3], "on": [], "many": [1, 2], "table": ['{"a": 1}']}
    args.unpack("table", lambda text: {"a_b": 1, "c": 2})
    assert args.given["table.a-b"] == [1] and args.given["table.c"] == [2] and args.has("table")
    args.rename("tp", "tensor-parallel")
    assert (
        args.given["tensor-parallel"] == ["2"] and args.written("tensor-parallel") == "--tp" and "tp" not in args.given
    )
    tree = LaunchArguments.of_tree({"a": {"b": 1, "none": None}, "empty": [], "list": [3, 4]})
    assert tree.given == {"a.b": [1], "list": [3, 4]} and tree.written("a.b") == "a.b"


def test_an_option_that_only_the_running_script_knows() -> None:
    one = launch()
    one.put("a", True, "--a")
    one.put("b", "${B}", "--b")
    one.put("c", "auto", "--c")
    one.put("d", 0, "--d")
    assert one.missing == {"a": "--a has no value", "b": "--b ${B} is known only where it runs"} and one.options == {
        "d": 0
    }
    one.missing |= {"?nproc": "--nproc $N is not a number", "?tp": "--tp x is not a number"}
    one.options |= {"n": 8, "tp": 1}
    one.notes.append("the number of devices is not stated; give -n")
    assert one.unresolved({"nproc": "n", "tp": "tp", "pp": "pp"}) == ["n", "tp"]
    assert one.options == {"d": 0} and one.missing["tp"] == "--tp x is not a number" and "n" not in one.missing
    assert one.notes == ["--nproc $N is not a number; give -n, or the smallest power of two that fits are taken"]


@pytest.mark.parametrize(
    "text, found",
    [
        ("run --config a.yaml", "a.yaml"), ("run --config=b.json", "b.json"), ("run --config dir/", "dir/"), ("run --config name", ""),
        ("run --config", ""), ("run --other a.yaml", ""),
    ],
)  # fmt: skip
def test_a_file_that_a_flag_names(text: str, found: str) -> None:
    assert named_file(text.split(), ["config"]) == found
    assert named_file(["--config", "name"], ["config"], any_suffix=True) == "name"


def test_references_and_defaults_of_configs() -> None:
    tree = {
        "a": {"x": 3, "y": "${.x}", "z": "${..b}"}, "b": 4, "mul": "${mul:2,3,4}", "sum": "${add:2,3}", "less": "${sub:5,2}", "half": "${div:3,2}",
        "whole": "${floor_div:7,2}", "floor": "${floor:2.7}", "env": "${oc.env:TP,8}", "bash": "${N:-16}", "text": "m-${b}-${a.x}",
        "table": "${a}", "none": "${c}", "bad": "${div:1,0}", "nested": "${mul:${b},2}", "listed": ["${b}"],
    }  # fmt: skip
    found = interpolated(tree)
    assert found["a"] == {"x": 3, "y": 3, "z": 4} and found["table"]["x"] == 3 and found["listed"] == [4]
    assert [found[name] for name in ("mul", "sum", "less", "half", "whole", "floor", "env", "bash", "nested")] == [
        24,
        5,
        3,
        1.5,
        3,
        2,
        8,
        16,
        8,
    ]
    assert found["text"] == "m-4-3" and found["none"] == "${c}" and found["bad"] == "${div:1,0}"
    assert flattened({"a": {"b": {"c": 1}}, "d": [2]}) == {"a.b.c": 1, "d": [2]} and flattened(5, "k") == {"k": 5}


# --- rules -------------------------------------------------------------------------------------------------------------------


def ruled(text: str, *rule: dict[str, Any], **options: Any) -> Launch:
    one = launch(**options)
    rules.apply(rule, words(text), one)
    return one


def test_rules_set_sums_of_products() -> None:
    sums = {
        "= a * b": 6, "= a + b": 5, "= a * b / c": 1.5, "= ceil a / b": 1, "= ceil c / b": 2, "= a * b:9": 6, "= d:9": 9, "= a * d": None, "= $tp * 2": 16,
        "= $pp:3 * a": 6, "= a / b * c": 8 / 3, "= 2.5 * a": 5, "= ceil 0.1 * a": 1, "= a + b * c": 14,
    }  # fmt: skip
    for text, wanted in sums.items():
        found = ruled("--a 2 --b 3 --c 4", {"set": {"x": f"={text[2:]}"}}, tp=8)
        assert found.options.get("x") == (pytest.approx(wanted) if wanted else None), text
        assert not isinstance(found.options.get("x"), float) or wanted % 1, text
    with pytest.raises(UsageError, match="a: expected a number"):
        ruled("--a many", {"set": {"x": "=a * 2"}})


def test_rules_hold_by_pattern_switch_and_absence() -> None:
    on = {"when": {"fast": True}, "set": {"x": 1}, "else": {"x": 0}, "note": "said {}"}
    assert ruled("--fast yes", on).options == {"x": 1} and ruled("--fast", on).options == {"x": 1}
    assert ruled("--fast no", on).options == {"x": 0} and ruled("", on).options == {"x": 0}
    assert ruled("--fast yes", on).notes == ["said --fast yes"] and ruled("", on).notes == []
    off = {"when": {"fast": False}, "set": {"x": 1}}
    assert (
        ruled("", off).options == ruled("--fast false", off).options == {"x": 1} and not ruled("--fast 1", off).options
    )
    part = {
        "when": {"kind": r"a(\d+)b"},
        "set": {"x": r"\1", "y": 2},
        "drop": "z w",
        "unread": r"had \1",
        "framework": "f",
    }
    one = ruled("--kind A12B", part, z=1, w=2, v=3)
    assert one.options == {"x": 12, "y": 2, "v": 3} and one.unmodelled == ["had 12"] and one.framework == "f"
    assert ruled("--kind a12", part, z=1).options == {"z": 1}
    given = {
        "when": {"a|b": "given", "c": "absent"},
        "set": {"x": 1},
        "refuse": {"n": "why {}"},
        "shape": {"layers": "=a|b:1"},
    }
    both = ruled("--b 5", given)
    assert both.options == {"x": 1} and both.missing == {"n": "why --b 5"} and both.shape == {"layers": 5}
    assert ruled("--b 5 --c 1", given).options == {} and ruled("", given).options == {}
    either = {"any": ["p", "q"], "set": {"x": 1}, "not": {"x": 0}, "else": {"y": 9}}
    assert ruled("--q true", either).options == {"x": 1} and ruled("--q false", either).options == {"x": 0, "y": 9}
    assert ruled("", either).options == {"y": 9}
    assert ruled("--moe-x 1", {"when": {"moe-*": "given"}, "set": {"x": 1}}).options == {"x": 1}
    assert ruled("word", {"when": {"@": "w.*"}, "set": {"x": 1}}).options == {"x": 1}
    assert ruled("", {"when": {"$tp": "8"}, "set": {"x": 1}}, tp=8).options == {"tp": 8, "x": 1}


# --- layouts -----------------------------------------------------------------------------------------------------------------


def test_a_training_layout_by_its_devices() -> None:
    one = launch()
    training_common.layout(one, 16, tp=2, pp=4)
    wanted = {
        "phase": ["train"],
        "tp": 2,
        "pp": 4,
        "cp": 1,
        "ep": 1,
        "virtual-stages": 1,
        "recompute": "none",
        "sequence-parallel": False,
    }
    assert one.options == {**wanted, "n": 16, "dp": 2} and not one.notes
    odd = launch()
    training_common.layout(odd, 12, tp=2, pp=4)
    assert odd.missing == {"n": "12 devices are no multiple of tp x pp x cp = 8"} and "dp" not in odd.options
    stated = launch()
    training_common.layout(stated, None, tp=2, cp=3, dp=4, ep=2)
    assert (stated.options["n"], stated.options["dp"], stated.options["ep"]) == (24, 4, 2)
    job = launch()
    job.devices = 8
    training_common.layout(job, None, tp=4)
    assert (job.options["n"], job.options["dp"]) == (8, 2)
    unknown = launch()
    training_common.layout(unknown, None)
    assert "n" not in unknown.options and unknown.notes == ["the number of devices is not stated; give -n"]


@pytest.mark.parametrize(
    "text, count",
    [
        ("--nproc_per_node 8", 8), ("--nproc-per-node 8 --nnodes 2", 16), ("--num_gpus 4 --num_nodes 2", 8), ("--num-processes 6", 6), ("", None),
        ("--nproc-per-node auto", None), ("--include localhost:0,1,3", 3), ("--include localhost:0", 1), ("--num-processes 6 --nproc-per-node 8", 6),
        ("--nnodes 4", None),
    ],
)  # fmt: skip
def test_processes_that_a_launcher_starts(text: str, count: int | None) -> None:
    assert training_common.processes(words(text)) == count


def test_nodes_sequences_switches_and_optimizers() -> None:
    assert [training_common.per_node(n) for n in (1, 6, 8, 12, 14, 16, 17)] == [1, 6, 8, 6, 7, 8, 1]
    assert [training_common.is_on(v) for v in (True, "true", "1", "Yes", 1, None, "on", False, "0")] == [True] * 5 + [
        False
    ] * 4
    one = launch()
    training_common.local_batch(one, 4, 3)
    assert (one.options["micro-batch"], one.per_replica) == (4, 12)
    training_common.local_batch(one, 4)
    assert one.per_replica == 4
    for written, option, said in (
        (None, None, 0),
        ("AdamW", None, 0),
        ("sgd", None, 0),
        ("lion", "lion", 0),
        ("frob", None, 1),
        ("adamw_4bit", None, 1),
    ):
        two = launch()
        training_common.optimizer(two, written)
        assert two.options.get("optimizer") == option and len(two.unmodelled) == said, written
    assert training_common.model_layers("llama-3-8b") == 32


LLAMA = {"layers": 32, "d_model": 4096, "heads": 32, "kv_heads": 8, "d_ff": 14336}


def test_a_model_by_its_sizes() -> None:
    """Llama 3 8B has 128,256 words and contexts of 8,192; 3.1 one of 131,072."""
    assert training_common.models_of_shape({**LLAMA, "vocab": 128256, "context": 8192})[0] == "llama-3-8b"
    assert training_common.models_of_shape({**LLAMA, "vocab": 128256, "context": 131072})[0] == "llama-3.1-8b"
    # a padded vocabulary is within a thousand
    for vocab in (128256 + 1023, 128256 - 1023):
        assert "llama-3-8b" in training_common.models_of_shape({**LLAMA, "vocab": vocab})
    mistral = training_common.models_of_shape({**LLAMA, "vocab": 32768})
    assert mistral and "llama-3-8b" not in mistral
    assert "llama-3-8b" not in training_common.models_of_shape({**LLAMA, "vocab": 32768 + 1023})
    assert "llama-3-8b" in training_common.models_of_shape(
        {**LLAMA, "vocab": 128256 + 1024 + 10**6}
    )  # none is near: all
    assert training_common.models_of_shape({"layers": 32, "d_model": 4096}) == []
    assert training_common.models_of_shape({**LLAMA, "layers": 33}) == []
    assert "llama-3-8b" not in training_common.models_of_shape({**LLAMA, "gated": False})


@pytest.mark.parametrize(
    "tp, ep, group, wanted",
    [
        (8, None, 1, {"ep": 1}), (8, 8, 1, {"ep": 8}), (8, 4, 1, {"ep": 4, "expert-tp": 2}), (4, 8, 2, {"ep": 8}), (4, 2, 2, {"ep": 2}),
        (4, 1, 4, {"ep": 4}), (2, 6, 4, {}), (3, 3, 2, {"ep": 2}),
    ],
)  # fmt: skip
def test_experts_over_the_ranks_of_replicas(tp: int, ep: int | None, group: int, wanted: dict[str, int]) -> None:
    one = launch(tp=tp, dp=group)
    serving_common.place_experts(one, ep, group)
    found = {name: one.options[name] for name in ("ep", "expert-tp") if name in one.options}
    if (tp, ep) == (2, 6):
        assert one.missing == {"ep": "ep 6 does not divide the 8 ranks that share the experts"}
        return
    assert found["ep"] == wanted["ep"]
    cut = tp * group // (ep or 1)
    if one.notes:
        assert one.notes == [
            f"ep {ep or 1} of {tp * group} ranks cuts each expert over {cut}: priced as ep {group}, the same bytes per device"
        ]
    elif max(ep or 1, group) > 1:
        assert found.get("expert-tp", serving_common.default_expert_tp(one.options)) == cut


def test_how_experts_are_cut_by_default() -> None:
    assert [
        serving_common.default_expert_tp(o)
        for o in ({"tp": 4, "dp": 4, "ep": 2}, {"tp": 4, "dp": 2, "ep": 8}, {"tp": 4, "dp": 2, "ep": 4}, {})
    ] == [4, 1, 0, 1]
    assert serving_common.expert_group({"tp": 4, "dp": 2, "ep": 8}) == (8, 1, 2)
    assert serving_common.expert_group({"tp": 4, "dp": 4, "ep": 2}) == (2, 4, 2)
    assert serving_common.expert_group({"tp": 4, "ep": 3, "expert-tp": 1}) == (3, 1, 0)
    assert (
        serving_common.has_experts({"model": "mixtral-8x7b"}) is True
        and serving_common.has_experts({"model": "llama-3-8b"}) is False
    )
    assert serving_common.has_experts({"model": "none-such"}) is None


@pytest.mark.parametrize(
    "environment, text, count",
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1,3"}, "vllm serve", 3), ({"HIP_VISIBLE_DEVICES": "2"}, "", 1), ({"NVIDIA_VISIBLE_DEVICES": "all"}, "", None),
        ({}, "docker run --gpus 4 image", 4), ({}, "docker run --gpus=2 image", 2), ({}, "docker run --gpus device=0,1 image", 2),
        ({}, "docker run --gpus all image", None), ({"CUDA_VISIBLE_DEVICES": "0"}, "docker run --gpus 4 image", 1), ({"OTHER": "0,1"}, "", None),
    ],
)  # fmt: skip
def test_devices_that_a_server_is_shown(environment: dict[str, str], text: str, count: int | None) -> None:
    assert serving_common.visible(environment, text.split()) == count


def test_roles_of_workers_and_drafts() -> None:
    for text, phase in (
        ("prefill", ["prefill"]),
        ("kv_producer", ["prefill"]),
        ("decode", ["decode"]),
        ("kv_consumer", ["decode"]),
        ("both", None),
    ):
        one = launch()
        serving_common.role(one, None, text)
        assert one.options.get("phase") == phase
    drafts = {
        ("mtp", "2", None): {"speculate": "mtp", "draft-tokens": 2}, ("deepseek_mtp", None, None): {"speculate": "mtp"},
        ("NEXTN", "3", "x"): {"speculate": "mtp", "draft-tokens": 3}, ("eagle3", "4", "org/head"): {"speculate": "eagle", "draft-tokens": 4},
        ("medusa", "x", None): {"speculate": "eagle"}, (None, "5", "org/small"): {"speculate": "small", "draft-tokens": 5}, (None, "5", None): {},
    }  # fmt: skip
    for given, wanted in drafts.items():
        one = launch()
        serving_common._drafted(one, *given)
        assert one.speculation == wanted and not one.unmodelled, given
    for method, model in (("ngram", None), (None, "[ngram]"), ("prompt_lookup", None), ("other", None)):
        one = launch()
        serving_common._drafted(one, method, "3", model)
        assert not one.speculation and len(one.unmodelled) == 1, method


def test_variables_before_a_server() -> None:
    assert serving_common.assigned("env A=1 -e B=2 --env=C=3 -eD=4 e=5 run F".split()) == {
        "A": "1",
        "B": "2",
        "C": "3",
        "D": "4",
    }
    vllm = flags("vllm")
    assert serving_common.started("exec vllm serve org/m --tp 2".split(), vllm) == ["org/m", "--tp", "2"]
    assert (
        serving_common.started("/usr/bin/vllm serve".split(), vllm) == []
        and serving_common.started("use vllm serve".split(), vllm) is None
    )
    assert serving_common.started("python -m vllm.entrypoints.openai.api_server --model m".split(), vllm) == [
        "--model",
        "m",
    ]


# --- formats, caps, loads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written, longest, prompt, output",
    [
        ("1", None, None, None), ("2", 2, 1, 1), ("3", 3, 2, 1), ("300", 300, 150, 150), ("512", 512, 256, 256), ("600", 600, 344, 256), ("2303", 2303, 2047, 256),
        ("2304", 2304, None, None), ("4k", 4000, None, None), ("2k", 2000, 1744, 256), ("2K", 2048, 1792, 256), (".5k", 500, 250, 250), ("1m", 10**6, None, None),
        ("1M", 2**20, None, None), ("1_024", 1024, 768, 256), ("auto", None, None, None), (None, None, None, None), ("-1", None, None, None),
    ],
)  # fmt: skip
def test_a_cap_of_prompt_and_output(written: Any, longest: int | None, prompt: int | None, output: int | None) -> None:
    one = launch()
    dtype_names.length(one, written, "--max-model-len")
    assert one.longest == ((longest, "--max-model-len") if longest else None) and bool(one.notes) is bool(longest)
    assert (one.options.get("prompt"), one.options.get("output")) == (prompt, output)


@pytest.mark.parametrize(
    "written, model, more",
    [
        ("meta-llama/Meta-Llama-3-8B", "Meta-Llama-3-8B", {}), ("meta-llama/Meta-Llama-3-8B-Instruct", "Meta-Llama-3-8B-Instruct", {}),
        ("./Qwen3-8B", "Qwen3-8B", {}), ("/models/Qwen3-8B-FP8", "Qwen3-8B", {"dtype": "fp8"}),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/0a1b", "Qwen3-8B", {}), ("/cache/Qwen/Qwen3-8B/snapshots/0a1", "Qwen3-8B", {}), ("Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B", {"weight-dtype": "q4_k_m"}),
        ("$HOME/Qwen3-8B", "Qwen3-8B", {}), ("Qwen3-8B-AWQ", "Qwen3-8B", {"weight-dtype": "int4"}),
    ],
)  # fmt: skip
def test_checkpoints_by_name(written: str, model: str, more: dict[str, str]) -> None:
    one = launch()
    dtype_names.checkpoint(one, written, "--model")
    assert one.options == {"model": model, **more} and not one.missing


def test_checkpoints_that_name_no_model() -> None:
    for written, why in (
        (True, "--model has no value"),
        ("<your-model>", "--model <your-model> is a placeholder"),
        ("/data/own", "--model /data/own names no model"),
    ):
        one = launch()
        dtype_names.checkpoint(one, written, "--model")
        assert one.missing == {"model": why} and "model" not in one.options
    one = launch()
    dtype_names.checkpoint(one, None, "--model")
    assert not one.missing and not one.options
    tuned = launch()
    dtype_names.checkpoint(tuned, "Hermes-3-Llama-3.1-8B", "--model")
    assert tuned.options["model"] == "Llama-3.1-8B" and "is taken to have the sizes of Llama-3.1-8B" in tuned.notes[0]


def test_formats_of_weights_caches_and_activations() -> None:
    for call, written, option, value in (
        (dtype_names.compute, "bfloat16", "dtype", "bf16"), (dtype_names.compute, "auto", "dtype", None), (dtype_names.compute, None, "dtype", None),
        (dtype_names.cache, "fp8_e4m3", "kv-dtype", "fp8"), (dtype_names.cache, "auto", "kv-dtype", None), (dtype_names.quantized, "fp8", "dtype", "fp8"),
        (dtype_names.quantized, "None", "dtype", None),
    ):  # fmt: skip
        one = launch()
        call(one, written, "--flag")
        assert one.options.get(option) == value and not one.missing, written
    for call, option in (
        (dtype_names.compute, "dtype"),
        (dtype_names.cache, "kv-dtype"),
        (dtype_names.quantized, "weight-dtype"),
    ):
        one = launch()
        call(one, "frob", "--flag")
        assert one.missing == {option: "--flag frob is no format known here"}
    kept = launch(dtype="fp8")
    dtype_names.compute(kept, "bfloat16", "--dtype")
    assert kept.options == {"dtype": "fp8"}


def test_a_load_of_the_benchmark_that_a_file_runs() -> None:
    one = launch(dp=4)
    read._loaded(one, [{"concurrency": ["64"], "prompt": ["1024"], "output": ["128", "256"]}])
    assert one.options == {"dp": 4, "concurrency": "16", "prompt": "1024"}
    assert (
        "the load is that of its benchmark: " in one.notes[0]
        and "--concurrency 16" in one.notes[0]
        and "--prompt 1024" in one.notes[0]
    )
    assert one.notes[1] == "its benchmark runs --output 128, 256, which is not read; give one"
    alone = launch()
    alone.notes = ["a cap; give --prompt and --output"]
    read._loaded(alone, [{"concurrency": ["64"], "qps": ["inf"]}, {"concurrency": ["64"]}])
    assert alone.options == {"concurrency": "64"} and alone.notes == [
        "the load is that of its benchmark: --concurrency 64"
    ]
    rated = launch()
    read._loaded(rated, [{"concurrency": ["64"], "qps": ["2.5"]}])
    assert rated.options == {"qps": "2.5"}
    none = launch()
    read._loaded(none, [])
    assert none.options == {} and none.notes == []


# --- tools -------------------------------------------------------------------------------------------------------------------


def test_states_of_a_precision_aware_optimizer() -> None:
    for text, wanted in (
        ("--use-precision-aware-optimizer --main-grads-dtype bf16 --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16", {"gradient-bytes": 2, "optimizer-bytes": 7}),
        ("--use-precision-aware-optimizer", {}), ("--exp-avg-dtype fp8", {}), ("--use-precision-aware-optimizer --main-params-dtype fp16", {"optimizer-bytes": 10}),
    ):  # fmt: skip
        one = launch()
        args = words(text, "use-precision-aware-optimizer")
        megatron._states(args, one)
        assert one.options == wanted, text


def test_three_batches_determine_the_fourth() -> None:
    def batch(within: int = 1, known: bool = False, **tree: Any) -> Launch:
        one = launch(**({"n": 1} if known else {}))
        one.notes = ["the number of devices is not stated; give -n", "other"]
        deepspeed._batch(LaunchArguments.of_tree(tree), one, within)
        return one

    whole = batch(2, train_batch_size=64, train_micro_batch_size_per_gpu=4, gradient_accumulation_steps=2)
    assert whole.options == {"micro-batch": 4, "batch": 64, "dp": 8, "n": 16} and whole.notes == ["other"]
    odd = batch(2, train_batch_size=60, train_micro_batch_size_per_gpu=8, gradient_accumulation_steps=2)
    assert odd.options == {"micro-batch": 8, "batch": 60} and len(odd.notes) == 2
    auto = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto"}
    assert batch(2, **auto, gradient_accumulation_steps=1).options == {"batch": 64, "dp": 1, "n": 2}
    assert batch(2, **auto, gradient_accumulation_steps=2).options == {"batch": 64}
    assert batch(2, train_batch_size=64, gradient_accumulation_steps=1).options == {"batch": 64}
    local = batch(train_micro_batch_size_per_gpu=4, gradient_accumulation_steps=3)
    assert local.options == {"micro-batch": 4} and local.per_replica == 12
    assert batch(train_micro_batch_size_per_gpu=4).per_replica == 4 and batch().per_replica is None


def test_a_config_of_deepspeed() -> None:
    one = launch()
    deepspeed.read(
        {
            "zero_optimization": {"stage": 2, "zero_hpz_partition_size": 8},
            "pipe-parallel-size": 4,
            "model-parallel-size": 2,
            "bf16": {"enabled": True},
        },
        one,
    )
    assert {
        "tp": 2,
        "pp": 4,
        "zero": 2,
        "dtype": "bf16",
    }.items() <= one.options.items() and one.framework == "deepspeed+hpz"
    auto = launch()
    deepspeed.read(
        {
            "zero_optimization": {"stage": [1, 2], "zero_hpz_partition_size": 1},
            "fp16": {"enabled": "auto"},
            "pipe-parallel-size": 0,
        },
        auto,
    )
    assert (
        auto.options["dtype"] == "fp16"
        and auto.options["pp"] == 1
        and auto.framework == "deepspeed"
        and "zero" in auto.missing
    )
    assert any(note.startswith("fp16.enabled auto is the trainer's choice") for note in auto.notes)
    plain = launch()
    deepspeed.read({"train_batch_size": 8, "bfloat16": {"enabled": "true"}}, plain)
    assert (plain.options["dtype"], plain.options["tp"]) == ("bf16", 1)
    single = launch()
    deepspeed.read({"train_batch_size": 8}, single)
    assert single.options["dtype"] == "fp32"
    assert (
        deepspeed.claims({"train_batch_size": 1})
        and deepspeed.claims({"zero_optimization": {}})
        and not deepspeed.claims({"other": 1})
    )
    assert (
        deepspeed.starts("deepspeed train.py --zero_stage 2".split())
        and deepspeed.starts("python train.py --zero_stage 2".split()) is None
    )
    assert (
        deepspeed.starts("python train.py --deepspeed ds.json".split())
        and deepspeed.starts("python train.py".split()) is None
    )


def test_what_trl_and_accelerate_start() -> None:
    assert accelerate.starts("trl sft --model m".split()) == ["--model", "m", "trl_sft"]
    assert accelerate.starts(["trl", "sft"]) is None and accelerate.starts("trl sft --config a.yaml".split()) is None
    assert (
        accelerate.starts("torchrun train.py --per_device_train_batch_size 2 --model_name_or_path m".split())
        is not None
    )
    assert accelerate.starts("torchrun train.py --model_name_or_path m".split()) is None


def test_a_launcher_s_processes_are_those_of_its_trainer() -> None:
    own = launch(n=16, zero=2, recompute="full", offload="optimizer")
    own.missing, own.notes, own.unmodelled, own.framework = {"dtype": "?", "x": "y"}, ["own"], ["z"], "accelerate"
    one = launch(tp=2, pp=2, dp=1, dtype="bf16")
    one.notes = ["a; give -n", "b; give --zero", "c"]
    found = locate._started_by(own, one)
    assert found.options == {
        "tp": 2,
        "pp": 2,
        "dp": 4,
        "dtype": "bf16",
        "zero": 2,
        "recompute": "full",
        "offload": "optimizer",
        "n": 16,
    }
    assert (
        found.missing == {"x": "y"}
        and found.notes == ["c", "own"]
        and found.unmodelled == ["z"]
        and found.framework == "accelerate"
    )
    bare = locate._started_by(launch(recompute="selective"), launch(dp=3))
    assert bare.options == {"dp": 3}


def test_slots_of_llama_cpp_share_its_context() -> None:
    for text, batch, longest in (
        ("", 1, 8192),
        ("--parallel 4", 4, 2048),
        ("--parallel auto", 1, 8192),
        ("-np 2", 2, 4096),
    ):
        one = launch()
        llama_cpp.read(f"-m Qwen3-8B-Q4_K_M.gguf --ctx-size 8192 {text}".split(), one)
        assert one.options["batch"] == batch and one.longest is not None and one.longest[0] == longest
    cards = launch()
    llama_cpp.read("-m Qwen3-8B-Q4_K_M.gguf --tensor-split 3,1 -ngl 20 --n-cpu-moe 4".split(), cards)
    assert (cards.options["pp"], cards.options["tp"], cards.options["n"]) == (2, 1, 2) and cards.options[
        "offload-layers"
    ] == 20
    assert cards.options["experts-on"] == "host:4" and any("equal shares are priced" in note for note in cards.notes)
    rows = launch()
    llama_cpp.read("-m Qwen3-8B-Q4_K_M.gguf --tensor-split 1,1 --split-mode row --cpu-moe -ngl 999".split(), rows)
    assert (
        rows.options["tp"] == 2
        and rows.options["experts-on"] == "host"
        and not any("equal shares" in note for note in rows.notes)
    )
    one = launch()
    llama_cpp.read("-m Qwen3-8B-Q4_K_M.gguf --tensor-split 1,1 --split-mode none".split(), one)
    assert one.options["n"] == 1


def test_maxtext_s_axes_batches_and_capacity() -> None:
    def maxed(text: str, cores: int = 1) -> Launch:
        one = launch()
        one.cores = cores
        maxtext.read(("model_name=llama3-8b " + text).split(), one)
        return one

    one = maxed(
        "ici_fsdp_parallelism=16 ici_tensor_parallelism=2 dcn_data_parallelism=2 per_device_batch_size=0.5 max_target_length=4096"
    )
    assert {
        "tp": 2,
        "dp": 32,
        "n": 64,
        "zero": 3,
        "seq": "4096",
        "micro-batch": 1,
        "batch": 32,
        "shard": 16,
    }.items() <= one.options.items()
    assert maxed("per_device_batch_size=4").options["seq"] == 2048
    assert "capacity-factor" not in maxed("per_device_batch_size=4").options
    assert (
        "capacity-factor" not in maxed("capacity_factor=-1.0").options
        and "capacity-factor" not in maxed("capacity_factor=0").options
    )
    assert maxed("capacity_factor=1.25").options["capacity-factor"] == "1.25"
    steps = maxed("ici_fsdp_parallelism=8 per_device_batch_size=4 gradient_accumulation_steps=3")
    assert (steps.options["micro-batch"], steps.options["batch"]) == (4, 96)
    chip = maxed("ici_fsdp_parallelism=8 per_device_batch_size=4", cores=2)
    assert (
        chip.options["dp"] == 4
        and chip.options["batch"] == 32
        and "2 cores to a chip: a device here is a chip, so fsdp is 4" in chip.notes
    )
    assert (
        maxtext.claims({"per_device_batch_size": 1})
        and maxtext.claims({"ici_x": 1})
        and not maxtext.claims({"per_device_batch_size": 1, "weights_dtype": 2})
    )


def test_a_maxtext_config_splits_its_batch_into_steps() -> None:
    """64 sequences on eight devices of which two hold a replica each of four: 8 a device, in eight steps of one."""

    def written(**options: Any) -> dict[str, Any]:
        return yaml.safe_load(maxtext.write({"n": 8, "dp": 2, "model": "llama-3-8b", **options}, "llama3-8b"))

    steps = written(batch=64, **{"micro-batch": 4})
    assert (steps["per_device_batch_size"], steps["gradient_accumulation_steps"]) == (1.0, 8)
    whole, odd = written(batch=8, **{"micro-batch": 4}), written(batch=60, **{"micro-batch": 8})
    assert whole["per_device_batch_size"] == 1.0 and odd["per_device_batch_size"] == 7.5
    assert "gradient_accumulation_steps" not in whole | odd
    assert written(zero=1)["shard_optimizer_over_data"] is True and "shard_optimizer_over_data" not in written(zero=3)
    sharded = written(zero=3, shard=1, ep=1)
    assert (sharded["ici_data_parallelism"], sharded["ici_fsdp_parallelism"]) == (2, 1)
    assert (written(zero=1, ep=2)["ici_data_parallelism"], written(zero=3)["ici_fsdp_parallelism"]) == (1, 2)
    assert written(seq=4096)["max_target_length"] == 4096 and "max_target_length" not in written()
    assert [written(dtype=d).get("quantization") for d in ("fp8", "int8", "bf16")] == ["fp8", "int8", None]
    assert [written(dtype=d)["dtype"] for d in ("fp32", "bf16", "fp8")] == ["float32", "bfloat16", "bfloat16"]
    piped = written(batch=64, pp=4, **{"micro-batch": 4, "virtual-stages": 2})
    assert (piped["num_pipeline_microbatches"], piped["num_layers_per_pipeline_stage"]) == (8, 4)
    assert piped["per_device_batch_size"] == 8.0 and "gradient_accumulation_steps" not in piped


def test_a_dockerfile_without_its_comments() -> None:
    text = '# FROM other\nFROM --platform=x base AS b\nARG TP=2\nENV MODEL=m\n  # ENV MODEL=n\nFROM vllm/vllm-openai:v1\nENTRYPOINT ["vllm", "serve"]\n#CMD x\nCMD --tp $TP \\\n  # inside\n  --pp 2\n'
    (found,) = unit_files.trees(text, "dir/Dockerfile", lambda name: None)
    assert (
        found["image"] == "vllm/vllm-openai:v1"
        and found["entrypoint"] == ["vllm", "serve"]
        and found["env"] == {"TP": "2", "MODEL": "m"}
    )
    assert found["cmd"].split() == ["--tp", "$TP", "--pp", "2"]
    assert unit_files.trees("x", "plain.txt", lambda name: None) == []


def test_units_of_systemd() -> None:
    text = '[Unit]\nDescription=d\n[Service]\nEnvironment="A=1" B=2\nEnvironmentFile=e.env\nExecStart=/usr/bin/vllm serve m%i \\\n --tp 2\n'
    (found,) = unit_files.trees(text, "a.service", lambda name: 'C="3"\n' if name == "e.env" else None)
    assert found["env"] == ["C=3", "A=1", "B=2"] or sorted(found["env"]) == ["A=1", "B=2", "C=3"]
    assert (
        found["command"].startswith("/usr/bin/vllm serve m") and "%i" not in found["command"].split()[2][-2:]
    ) or found["command"]


def test_experiments_of_primus_wrap_other_tools() -> None:
    def wrapped(framework: str, model: str, **overrides: Any) -> Any:
        return locate._primus(
            {"note": 1, "pre_trainer": {"framework": framework, "model": model, "overrides": overrides}}
        )

    titan = {"a": 1, "model": {"name": "llama3", "flavor": "8B", "converters": ["float8"]}}
    assert wrapped("torchtitan", "llama3_8B-fp8.yaml", a=1) == ("torchtitan", titan)
    assert wrapped("torchtitan", "llama3_8B.yml") == ("torchtitan", {"model": {"name": "llama3", "flavor": "8B"}})
    assert wrapped("maxtext", "Llama3_8B.yaml", b=2) == ("maxtext", {"model_name": "llama3-8b", "b": 2})
    assert wrapped("megatron", "x_1.yaml") == ("nemo", {"use_distributed_optimizer": True, "model_name": "x-1"})
    assert wrapped("megatron", "", use_distributed_optimizer=False) == ("nemo", {"use_distributed_optimizer": False})
    assert wrapped("other", "x") == ("", {}) and locate._primus({}) == ("", {})


def test_a_checkpoint_in_a_folder_that_is_here(tmp_path: Path) -> None:
    """A folder named after a model of the registry is that model; another is read for its own config."""
    for name, found in (("Meta-Llama-3-8B", "Meta-Llama-3-8B"), ("own-run-7", str(tmp_path / "own-run-7"))):
        (tmp_path / name).mkdir()
        one = launch()
        dtype_names.checkpoint(one, str(tmp_path / name), "--model")
        assert one.options == {"model": found} and not one.missing


def test_references_below_sixty_levels_stay_as_they_are_written() -> None:
    def nested(levels: int, wrap: Any) -> Any:
        node: Any = "${b}"
        for _ in range(levels):
            node = wrap(node)
        return node

    def leaf(node: Any) -> Any:
        while not isinstance(node, str | int):
            node = node["x"] if isinstance(node, dict) else node[0]
        return node

    for wrap in (lambda node: [node], lambda node: {"x": node}):
        assert leaf(interpolated({"b": 7, "a": nested(40, wrap)})["a"]) == 7
        assert leaf(interpolated({"b": 7, "a": nested(80, wrap)})["a"]) == "${b}"
    assert interpolated({"a": "${b}", "b": "${a}"})["a"] in ("${a}", "${b}")  # a circle ends


@pytest.mark.parametrize(
    ("values", "ways"),
    [
        ([["a"], ["a", "b"]], [["a", "b"]]),  # one adds to the other
        (["", ["a", "b"]], [["a", "b"]]),
        (["--x 1", "--x 1 --y 2"], ["--x 1 --y 2"]),
        ([["a"], ["a", "b"], ["c", "d", "e"]], [["a", "b"], ["c", "d", "e"]]),
        (["--x 1", "--y 2 --z 3"], ["--x 1", "--y 2 --z 3"]),
        (["one", "--y 2 --z 3"], ["--y 2 --z 3"]),  # a word alone is no list of flags
        (["one", "two"], []),  # nobody can tell which
    ],
)
def test_what_branches_leave_in_a_variable(values: list[Any], ways: list[Any]) -> None:
    found = shell_expansion._joined("F", values)
    assert (shell_expansion.alternatives(found) or ([] if unknowns(str(found)) else [found])) == ways
    if len(ways) > 1:
        again = shell_expansion._joined("F", [found, ["x", "y"]])
        assert shell_expansion.alternatives(again) == [*ways, ["x", "y"]] and len(str(again)) > 0


@pytest.mark.parametrize(
    ("flags_of_states", "zero"),
    [
        ("", 0), ("--use-distributed-optimizer", 1), ("--use-torch-fsdp2", 3), ("--use-torch-fsdp2 --use-distributed-optimizer", 3),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy no_shard", 0), ("--use-megatron-fsdp --data-parallel-sharding-strategy optim", 1),
        ("--use-custom-fsdp --data-parallel-sharding-strategy optim_grads", 2), ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", 3),
        ("--data-parallel-sharding-strategy optim_grads --use-distributed-optimizer", 1),
    ],
)  # fmt: skip
def test_what_megatron_shards_over_replicas(flags_of_states: str, zero: int) -> None:
    """Choices of --data-parallel-sharding-strategy in Megatron-LM's arguments, which act under its FSDP alone."""
    one = launch()
    megatron.read(f"--num-layers 32 --hidden-size 4096 --num-attention-heads 32 {flags_of_states}".split(), one)
    assert one.options["zero"] == zero
