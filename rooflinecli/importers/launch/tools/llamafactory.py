"""LLaMA-Factory: the YAML of a fine-tuning run. Keys as in LLaMA-Factory 0.9 (src/llamafactory/hparams) and Hugging Face's Trainer."""

from __future__ import annotations

import re

from rooflinecli.importers.launch import training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags
from rooflinecli.importers.source import Tree

VERSION = "LLaMA-Factory 0.9"
TRAINS = True
FLAGS = flags("llamafactory")
_TRAINED = {
    "pt": "full",
    "sft": "full",
    "dpo": "dpo",
    "kto": "dpo",
}  # stages whose step has the cost of one of the recipes


def claims(tree: Tree) -> bool:
    exports = "export_dir" in tree and "per_device_train_batch_size" not in tree  # merges an adapter
    return (
        {"model_name_or_path", "finetuning_type"} <= tree.keys()
        and "tensor_model_parallel_size" not in tree
        and not exports
    )


def read(tree: Tree, launch: Launch) -> None:
    """A run of one replica; the launcher sets the number of replicas."""
    args = LaunchArguments.of_tree(tree)
    training_common.layout(launch, None)
    stage, kind = str(args.first("stage", "sft")), str(args.pop("finetuning_type", default="lora"))
    if stage not in _TRAINED or (args.first("do_train", True) is not True):
        launch.refuse("recipe", f"stage {stage} is no training step known here")
    recipe = "full" if kind == "full" else "qlora" if args.pop("quantization_bit") is not None else kind
    if recipe not in ("full", "lora", "qlora"):
        launch.refuse("recipe", f"finetuning_type {kind} is no recipe known here")
    elif (recipe := _TRAINED.get(stage, "full") if recipe == "full" else recipe) != "full":
        launch.options["recipe"] = recipe
    if recipe == "qlora" and str(args.first("quantization_bit")) != "4":
        launch.unmodelled.append(
            f"quantization_bit {args.first('quantization_bit')}: the frozen weights are taken in 4 bits"
        )
    if args.pop("pure_bf16") is True:  # no copies in fp32
        launch.options |= {"gradient-bytes": 2, "optimizer-bytes": 4}
    if "lora" in recipe:
        launch.options["lora-rank"] = args.whole(launch, "lora_rank", default=8)
        targets = str(args.pop("lora_target", default="all"))
        if targets != "all":
            launch.unmodelled.append(f"lora_target {targets}: all layers are taken to have adapters")
    training_common.trainer(launch, LaunchArguments({k.replace("_", "-"): v for k, v in args.given.items()}))
    args.pop(*_TRAINER)
    if recipe in ("lora", "qlora") and _TRAINED.get(stage) == "dpo":
        launch.notes.append(f"stage {stage}: taken at the cost of {recipe}")
    training_common.frozen(launch)
    launch.options.setdefault("seq", 2048)  # cutoff_len
    launch.options.setdefault("dtype", "bf16")
    if args.first("disable_gradient_checkpointing") is not True:
        launch.options["recompute"] = "full"  # LLaMA-Factory's default
    launch.notes = [note for note in launch.notes if not note.startswith("of the training script")]
    config = str(args.pop("deepspeed", default=""))
    staged = re.search(r"z(?:ero)?[_-]?([0-3])", config)
    launch.options["zero"] = int(staged[1]) if staged else 3 if args.pop("fsdp", "fsdp_config") else 0
    if "offload" in config:
        launch.options["offload"] = "optimizer"
        if launch.options["zero"] == 3:
            launch.unmodelled.append(f"deepspeed {config}: weights are taken to stay on the device")
    if config and not staged:
        launch.refuse("zero", f"its ZeRO stage is in {config}, which is not read")
    training_common.optimizer(launch, "muon" if args.pop("use_muon") is True else args.pop("optim"))
    launch.unmodelled += args.left(FLAGS)


_TRAINER = (
    "model_name_or_path",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "cutoff_len",
    "bf16",
    "fp16",
    "gradient_checkpointing",
)
