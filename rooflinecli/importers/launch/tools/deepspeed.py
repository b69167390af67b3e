"""DeepSpeed: its JSON, and gpt-neox files that carry the same keys. Keys as in DeepSpeed 0.17 (www.deepspeed.ai/docs/config-json)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rooflinecli.importers.launch import rules, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, named_file
from rooflinecli.importers.launch.tools import megatron, trainers
from rooflinecli.importers.source import Options, Tree, parse

VERSION = "DeepSpeed 0.17"
TRAINS = True
SUFFIX = ".json"
FILES = ("deepspeed", "deepspeed-config", "ds-config")
_STAGE = "zero_optimization.stage"
_OFF = ("none", "false", "0", "1")  # of ZeRO++; a partition of one device is none
FLAGS = flags("deepspeed")


def claims(tree: Tree) -> bool:
    return "zero_optimization" in tree or {"train_batch_size", "train_micro_batch_size_per_gpu"} & set(tree) != set()


def starts(words: list[str]) -> list[str] | None:
    """A training script that is given a config of DeepSpeed, or a stage by the launcher `deepspeed`."""
    stage = any(word.replace("_", "-").startswith("--zero-stage") for word in words)
    staged = stage and "deepspeed" in (word.rpartition("/")[2] for word in words)
    return words if (staged or named_file(words, FILES)) and megatron.starts(words) is None else None


def read(tree: Tree | list[str], launch: Launch, config: Tree | None = None) -> None:
    """Read a config as training options; `auto` is set by the launcher, and a list of stages is not supported."""
    if isinstance(tree, list):
        words = trainers.scripted(tree, launch)
        stage = words.pop("zero-stage")
        sizes = {key: words.pop(key) for key in ("model-parallel-size", "pipe-parallel-size") if words.has(key)}
        read({**(config or {_STAGE: stage}), **sizes}, launch)
        trainers.fill(launch, words, "trainer")
        return
    args = LaunchArguments.of_tree({key.strip(): value for key, value in tree.items()})
    tp = args.whole(launch, "model-parallel-size", "tensor_parallel.autotp_size", default=1)
    pp = args.whole(launch, "pipe-parallel-size", default=1)
    training_common.layout(launch, None, tp=tp, pp=max(pp or 1, 1))
    stages = args.given.get(_STAGE) or [0]
    args.pop(_STAGE)
    if len(stages) > 1:
        launch.refuse("zero", f"{_STAGE} is a list, {stages}, for autotuning to choose from")
    else:
        launch.put("zero", stages[0], _STAGE)
    _batch(args, launch, (tp or 1) * max(pp or 1, 1))
    variants = {"hpz": "zero_hpz_partition_size", "qgz": "zero_quantized_gradients", "qwz": "zero_quantized_weights"}
    on = [name for name, key in variants.items() if str(args.pop(f"zero_optimization.{key}")).lower() not in _OFF]
    launch.framework = "+".join(["deepspeed", *on])
    training_common.optimizer(launch, args.pop("optimizer.type"))
    training_common.set_model_sizes(args, launch, FLAGS.sizes)
    args.put(launch, "seq", "seq-length")
    rules.apply(FLAGS.rules, args, launch)
    launch.unmodelled += args.left(FLAGS)


def under(launch: Launch, text: str, name: str) -> None:
    """What the config that a trainer or a launcher names says of states, and of formats and batches that are not stated beside it."""
    shared, config = Launch(launch.tool, launch.where), parse(text, name)
    read(config if isinstance(config, Mapping) else {}, shared)
    states = "zero offload optimizer gradient-bytes optimizer-bytes".split()
    left = states + [name for name in ("dtype", "micro-batch", "batch") if name not in launch.options]
    launch.options |= {k: v for k, v in shared.options.items() if k in left}
    launch.per_replica = launch.per_replica or shared.per_replica
    launch.unmodelled += shared.unmodelled
    launch.notes += [note for note in shared.notes if "auto" in note]
    launch.framework = shared.framework


def _batch(args: LaunchArguments, launch: Launch, within: int) -> None:
    """train_batch_size = micro batch x accumulation x replicas: three of them determine the fourth."""
    whole, micro = args.whole(launch, "train_batch_size"), args.whole(launch, "train_micro_batch_size_per_gpu")
    steps = args.whole(launch, "gradient_accumulation_steps")
    if micro:
        launch.options["micro-batch"] = micro
    if whole:
        launch.options["batch"] = whole
        micro = micro or (whole if steps == 1 else None)
        known = "n" in launch.options or "train_micro_batch_size_per_gpu" not in args.given
        if micro and steps and whole % (micro * steps) == 0 and not known:
            launch.options |= {"dp": whole // (micro * steps), "n": whole // (micro * steps) * within}
            launch.notes = [n for n in launch.notes if not n.startswith("the number of devices")]
    elif micro:
        launch.per_replica = micro * (steps or 1)


def write(options: Options, model: str) -> str:
    """A config for deepspeed.initialize. JSON has no comments: options without a key go under `roofline`, which DeepSpeed ignores."""
    dp, micro = int(options.get("dp", 1)), int(options.get("micro-batch") or 1)
    batch, dtype = options.get("batch"), options.get("dtype")
    zero: Options = {"stage": int(options.get("zero", 0))}
    if options.get("offload") == "optimizer":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    wanted: Options = {"train_micro_batch_size_per_gpu": micro, "zero_optimization": zero}
    if batch:
        wanted = {"train_batch_size": int(batch), **wanted}
        if int(batch) % (micro * dp) == 0:
            wanted["gradient_accumulation_steps"] = int(batch) // (micro * dp)
    if dtype in ("bf16", "fp16"):
        wanted[dtype] = {"enabled": True}
    return json.dumps(wanted, indent=2) + "\n"
