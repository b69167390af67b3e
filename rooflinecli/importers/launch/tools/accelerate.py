"""Hugging Face accelerate: its YAML. Keys as in accelerate 1.10 (docs: package_reference/cli, usage_guides/fsdp and deepspeed)."""

from __future__ import annotations

from itertools import pairwise

from rooflinecli.importers.launch import rules, serving_common, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags
from rooflinecli.importers.launch.tools import deepspeed, trainers
from rooflinecli.importers.source import Options, Tree

VERSION = "accelerate 1.10"
TRAINS = True
FLAGS = flags("accelerate")
FILES = ("config-file",)
_KINDS = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "multi_gpu": "MULTI_GPU"}
_DEEPSPEED = {"deepspeed": "deepspeed_config_file"} | {
    name: name for name in ("zero_stage", "deepspeed_config_file", "offload_optimizer_device", "offload_param_device")
}


def claims(tree: Tree) -> bool:
    return "distributed_type" in tree or "compute_environment" in tree


def starts(words: list[str]) -> list[str] | None:
    """`accelerate launch`, or `trl sft` and the like, which start it."""
    program, flags = words[0].rpartition("/")[2], {word.partition("=")[0].replace("_", "-") for word in words}
    positional = (
        word for before, word in pairwise(words) if before in ("--", "--config") or not before.startswith("--")
    )
    if any(word.endswith((".yaml", ".yml")) for word in positional):
        return None  # the config of a trainer has the rest
    if program == "trl" and words[2:]:
        return [*words[2:], f"trl_{words[1]}"]
    if (found := serving_common.started(words, FLAGS)) is not None or "--per-device-train-batch-size" not in flags:
        return found
    first = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == "torchrun"), 0)
    named = flags & {"--model-name-or-path", "--model-id", "--model-name"}
    return words[first:] if named and deepspeed.starts(words) is None else None


def flagged(words: LaunchArguments, config: Tree) -> Options:
    """The config under the flags of `accelerate launch`, which have the names of its keys."""
    tree: Options = {**config}
    tables = {name: {**(tree.get(name) or {})} for name in ("fsdp_config", "deepspeed_config")}
    for flag in list(words.given):
        name = flag.replace("-", "_")
        if name.startswith("fsdp_"):
            tables["fsdp_config"][name] = words.pop(flag)
        elif name == "fsdp":
            kind = "FULL_SHARD" if "full_shard" in str(words.pop(flag)) else "SHARD_GRAD_OP"
            tree["distributed_type"], tables["fsdp_config"]["fsdp_sharding_strategy"] = "FSDP", kind
        elif name in _DEEPSPEED:
            tables["deepspeed_config"][_DEEPSPEED[name]] = words.pop(flag)
        elif name in ("tensor_parallel_size", "pipeline_parallel_size"):  # of optimum-neuron
            tree["tp" if name[0] == "t" else "pp"] = words.pop(flag)
        elif name in ("num_processes", "num_machines", "mixed_precision", "use_cpu"):
            tree[name] = words.pop(flag)
        elif name in _KINDS:
            tree["distributed_type"] = _KINDS[name]
    return tree | {name: table for name, table in tables.items() if table}


def read(tree: Tree | list[str], launch: Launch, config: Tree | None = None) -> None:
    """A launch without model or load: how many processes, what is sharded, in which format; and the script's own where it has a command."""
    if isinstance(tree, list):
        words = trainers.scripted(tree, launch)
        read(flagged(words, config or {}), launch)
        trainers.fill(launch, words, "trainer")
        return
    args = LaunchArguments.of_tree(tree)
    keys = "parallelism_config.parallelism_config_{0}_size megatron_lm_config.megatron_lm_{0}_degree {0}"
    sizes = {axis: args.whole(launch, *keys.format(axis).split()) for axis in ("tp", "pp", "cp")}
    args.pop("num_machines")
    training_common.layout(launch, args.whole(launch, "num_processes"), **sizes)
    launch.unresolved({"num_processes": "n"})
    if named := args.pop("deepspeed_config.deepspeed_config_file"):
        text = launch.open_file(str(named))
        if text is None:
            for option in ("zero", "dtype"):
                launch.refuse(option, f"its ZeRO stage and format are in {named}, which is not here")
            launch.framework = "deepspeed"
            args.pop("distributed_type")
            launch.unmodelled += args.left(FLAGS)
        else:
            deepspeed.under(launch, text, str(named))
        return
    rules.apply(FLAGS.rules, args, launch)
    launch.unmodelled += args.left(FLAGS)
