"""Hugging Face accelerate: its YAML. Keys as in accelerate 1.10 (docs: package_reference/cli, usage_guides/fsdp and deepspeed)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from rooflinecli.importers.launch import serving_common, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags
from rooflinecli.importers.launch.tools import deepspeed, trainers
from rooflinecli.importers.source import Options, Tree, parse

VERSION = "accelerate 1.10"
TRAINS = True
_STAGES = {"FULL_SHARD": 3, "1": 3, "SHARD_GRAD_OP": 2, "2": 2, "NO_SHARD": 0, "3": 0, "HYBRID_SHARD": 3, "4": 3}
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
    positional = (word for before, word in pairwise(words) if before == "--" or not before.startswith("--"))
    if any(word.endswith((".yaml", ".yml")) for word in positional):
        return None  # the config of a trainer has the rest
    if program == "trl" and words[2:]:
        return [*words[2:], f"trl_{words[1]}"]
    if program == "swift" and (kind := next((word for word in words[1:] if word in ("sft", "pt", "rlhf")), "")):
        return _swift(kind, words[1:], flags)
    if (found := serving_common.started(words, FLAGS)) is not None or "--per-device-train-batch-size" not in flags:
        return found
    first = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == "torchrun"), 0)
    named = flags & {"--model-name-or-path", "--model-id", "--model-name"}
    return words[first:] if named and deepspeed.starts(words) is None else None


def _swift(kind: str, words: list[str], flags: set[str]) -> list[str]:
    """Arguments of ms-swift as those of Trainer, with its defaults: adapters, bf16, recomputation, and ZeRO stages by name."""
    own = {"--gradient_checkpointing": "true", "--torch_dtype": "bfloat16"}
    if not flags & {"--tuner-type", "--train-type", "--sft-type"}:
        own["--tuner_type"] = "full" if kind == "pt" else "lora"
    found = [word for flag, value in own.items() if flag.replace("_", "-") not in flags for word in (flag, value)]
    for before, word in pairwise(["", *words]):
        stage = re.fullmatch(r"zero([0-3])(_offload)?", word) if before == "--deepspeed" else None
        found += (
            [f"--zero_stage={stage[1]}", *(["--offload_optimizer_device=cpu"] if stage[2] else [])] if stage else [word]
        )
    named = any(
        not re.fullmatch(r"zero[0-3](_offload)?", word) for before, word in pairwise(words) if before == "--deepspeed"
    )
    return [
        "--deepspeed_config_file" if word == "--deepspeed" else word for word in found if named or word != "--deepspeed"
    ]


def _flagged(words: LaunchArguments, config: Tree) -> Options:
    """The config under the flags of `accelerate launch`, which have the names of its keys."""
    tree: Options = {**config}
    for flag in list(words.given):
        name = flag.replace("-", "_")
        if name.startswith("fsdp_"):
            tree["fsdp_config"] = {**(tree.get("fsdp_config") or {}), name: words.pop(flag)}
        elif name == "fsdp":
            kind = "FULL_SHARD" if "full_shard" in str(words.pop(flag)) else "SHARD_GRAD_OP"
            tree |= {
                "distributed_type": "FSDP",
                "fsdp_config": {**(tree.get("fsdp_config") or {}), "fsdp_sharding_strategy": kind},
            }
        elif name in _DEEPSPEED:
            tree["deepspeed_config"] = {**(tree.get("deepspeed_config") or {}), _DEEPSPEED[name]: words.pop(flag)}
        elif name in ("num_processes", "num_machines", "mixed_precision", "use_cpu"):
            tree[name] = words.pop(flag)
        elif name in _KINDS:
            tree["distributed_type"] = _KINDS[name]
    return tree


def read(tree: Tree | list[str], launch: Launch, config: Tree | None = None) -> None:
    """A launch without model or load: how many processes, what is sharded, in which format; and the script's own where it has a command."""
    if isinstance(tree, list):
        words = LaunchArguments.of_words(tree, training_common.SWITCHES, many=())
        launch.devices = training_common.ranks(words) or launch.devices
        read(_flagged(words, config or {}), launch)
        trainers.fill(launch, words, "trainer")
        launch.notes.append("of the training script's own arguments, those of Hugging Face's Trainer are read")
        return
    args = LaunchArguments.of_tree(tree)
    megatron = {axis: f"megatron_lm_config.megatron_lm_{axis}_degree" for axis in ("tp", "pp")}
    sizes = {
        axis: args.whole(launch, f"parallelism_config.parallelism_config_{axis}_size", megatron.get(axis, axis))
        for axis in ("tp", "pp", "cp")
    }
    args.pop("num_machines")
    training_common.layout(launch, args.whole(launch, "num_processes"), **sizes)
    launch.unresolved({"num_processes": "n"})
    if named := args.pop("deepspeed_config.deepspeed_config_file"):
        text = launch.open_file(str(named))
        if text is None:
            for option in ("zero", "dtype"):
                launch.refuse(option, f"its ZeRO stage and format are in {named}, which is not here")
        else:
            config = parse(text, str(named))
            shared = Launch(launch.tool, launch.where)
            deepspeed.read(config if isinstance(config, Mapping) else {}, shared)
            kept = (
                "zero",
                "dtype",
                "micro-batch",
                "batch",
                "offload",
                "optimizer",
                "gradient-bytes",
                "optimizer-bytes",
            )
            launch.options |= {k: v for k, v in shared.options.items() if k in kept}
            launch.per_replica = shared.per_replica
            launch.unmodelled += shared.unmodelled
            launch.notes += [note for note in shared.notes if "auto" in note]
            launch.framework = shared.framework
            return
    sharding = args.pop("fsdp_config.fsdp_sharding_strategy", "fsdp_config.sharding_strategy")
    stage = args.pop("deepspeed_config.zero_stage")
    kind = str(args.pop("distributed_type"))
    launch.framework = "deepspeed" if kind == "DEEPSPEED" else ""
    if args.pop("use_cpu") is True or kind == "MULTI_CPU":
        launch.unmodelled.append("use_cpu: its processes are taken as devices")
    reshard = str(args.pop("fsdp_config.fsdp_reshard_after_forward", default="")).lower()
    if kind == "DEEPSPEED" and stage is None and "zero" not in launch.missing:
        stage = 2  # of its DeepSpeedPlugin
        launch.notes.append("zero_stage is not stated: the 2 of accelerate is taken; give --zero")
    default = {"false": 2}.get(reshard, _STAGES.get(reshard.upper(), 3)) if kind == "FSDP" else 0
    launch.put("zero", stage if stage is not None else _STAGES.get(str(sharding), default), "zero_stage")
    args.pop("fsdp_config.fsdp_version")
    if "dtype" not in launch.missing:
        mixed = str(args.pop("mixed_precision", default="no"))
        launch.options["dtype"] = {"no": "fp32"}.get(mixed, mixed)
    offloads = [args.pop(f"deepspeed_config.offload_{what}_device", default="none") for what in ("optimizer", "param")]
    if offloads[0] not in ("none", None):
        launch.options["offload"] = "optimizer"
    if offloads[1] not in ("none", None) or args.pop("fsdp_config.fsdp_offload_params") is True:
        launch.unmodelled.append("parameters offloaded to the host: weights are taken to stay on the device")
    if args.pop("fsdp_config.fsdp_activation_checkpointing") is True:
        launch.options["recompute"] = "full"
    if str(args.pop("deepspeed_config.gradient_accumulation_steps", default=1)) not in ("1", "auto"):
        launch.notes.append("gradient_accumulation_steps splits a batch but does not set its size; give --batch")
    launch.unmodelled += args.left(FLAGS)
