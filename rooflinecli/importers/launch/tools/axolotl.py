"""Axolotl: the YAML of a fine-tuning run. Keys as in Axolotl 0.12 (docs/config-reference)."""

from __future__ import annotations

import re

from rooflinecli.importers.launch import dtype_names, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags
from rooflinecli.importers.source import Tree

VERSION = "Axolotl 0.12"
TRAINS = True
FLAGS = flags("axolotl")
# modules of a layer by the names that decoders of transformers give them
_QKV = {"q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value", "Wqkv", "c_attn"}
_OUT = {"o_proj", "out_proj", "dense", "wo"}
_FFN = set("gate_proj up_proj down_proj gate_up_proj w1 w2 w3 fc1 fc2 c_fc dense_h_to_4h dense_4h_to_h".split())


def claims(tree: Tree) -> bool:
    return "base_model" in tree and ("datasets" in tree or "micro_batch_size" in tree)


def read(tree: Tree, launch: Launch) -> None:
    """Read a run as training options of one replica; the launcher sets the number of replicas."""
    args = LaunchArguments.of_tree({**tree, "fsdp": bool(tree.get("fsdp_config") or tree.get("fsdp")) or None})
    dtype_names.checkpoint(launch, args.pop("base_model"), "base_model")
    sizes = {
        "tp": args.whole(launch, "tensor_parallel_size"),
        "cp": args.whole(launch, "context_parallel_size", "sequence_parallel_degree"),
    }
    shard, copies = args.whole(launch, "dp_shard_size"), args.whole(launch, "dp_replicate_size")
    training_common.layout(launch, None, dp=shard and shard * (copies or 1), **sizes)
    if shard and (copies or 1) > 1:
        launch.options["shard"] = shard
    args.put(launch, "seq", "sequence_len")
    if micro := args.whole(launch, "micro_batch_size"):
        training_common.local_batch(launch, micro, args.whole(launch, "gradient_accumulation_steps") or 1)
    adapter = args.pop("adapter")
    if adapter in ("lora", "qlora"):
        launch.options["recipe"] = adapter
        args.put(launch, "lora-rank", "lora_r")
    elif adapter:
        launch.refuse("recipe", f"adapter {adapter} is no recipe known here")
    linear = args.pop("lora_target_linear")
    kind = args.first("rl")
    if kind in ("dpo", "ipo", "kto", "orpo", "simpo"):
        launch.options["recipe"] = "dpo" if adapter not in ("lora", "qlora") else adapter
        launch.notes.append(f"rl {kind}: taken at the cost of {launch.options['recipe']}")
    elif args.given.get("rl"):
        launch.unmodelled.append(f"rl {kind}: the training step alone is answered, without the sampling")
    modules = {str(m) for m in args.given.get("lora_target_modules", [])}
    args.pop("lora_target_modules")
    unknown = sorted(modules - _FFN - _OUT - _QKV)
    if modules and not linear:
        every = modules & _FFN or re.search(r"mlp|gate|up|down", " ".join(unknown))  # a pattern of several names
        launch.options["lora-targets"] = "all" if every else "attention" if modules & _OUT else "qkv"
        if unknown:
            launch.unmodelled.append(f"lora_target_modules {', '.join(unknown)}")
    narrow = {bits: args.pop(f"load_in_{bits}bit") is True for bits in (4, 8)}
    if narrow[4] and launch.options.get("recipe") == "lora":
        launch.options["recipe"] = "qlora"
    if narrow[8] and adapter != "qlora":
        launch.unmodelled.append("load_in_8bit true: the frozen weights are taken in 16 bits")
    again = [args.pop("gradient_checkpointing"), _sharded(args, "activation_checkpointing")]
    launch.options["recompute"] = "full" if {True, "true", "offload"} & set(again) else "none"
    if _sharded(args, "offload_params") is True:
        launch.unmodelled.append("fsdp_config.offload_params: weights are taken to stay on the device")
    config = str(args.pop("deepspeed"))  # the repository ships zero1.json to zero3.json
    stage = next((stage for stage in (1, 2, 3) if f"zero{stage}" in config), 0)
    launch.options["zero"] = 3 if args.pop("fsdp", "fsdp_version") is not None else stage
    training_common.optimizer(launch, args.pop("optimizer"))
    training_common.frozen(launch)
    launch.options["dtype"] = (
        "fp8" if args.pop("fp8") is True else "fp16" if args.given.get("fp16") == [True] else "bf16"
    )
    launch.unmodelled += args.left(FLAGS)


def _sharded(args: LaunchArguments, key: str) -> object:
    """A setting of fsdp_config, whose keys lost their prefix with FSDP2."""
    return args.pop(f"fsdp_config.{key}", f"fsdp_config.fsdp_{key}")
