"""NeMo: the YAML of megatron_gpt_config (NeMo 1.x), the dotted keys of its tests, and Megatron sections of NeMo RL.

Keys as in NeMo 1.23 (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from rooflinecli.importers.launch import dtype_names, training_common
from rooflinecli.importers.launch.flags import flags
from rooflinecli.importers.launch.launch import Launch, LaunchArguments
from rooflinecli.importers.launch.model_by_sizes import shape_of
from rooflinecli.importers.source import Options, Tree
from rooflinecli.specs.model import load_model

VERSION = "NeMo 1.23"
TRAINS = True
SUFFIX = ".yaml"
_SIZES = {"tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
          "ep": "expert_model_parallel_size"}  # fmt: skip
_SHAPE = {"layers": "num_layers", "d_model": "hidden_size", "heads": "num_attention_heads", "kv_heads": "num_query_groups",
          "d_ff": "ffn_hidden_size", "experts": "num_moe_experts", "top_k": "moe_router_topk"}  # fmt: skip
# tables of NeMo RL that do not train
_ASIDE = tuple(
    "grpo dpo sft rm loss_fn checkpointing data env logger distillation value teacher exp_manager defaults".split()
)
FLAGS = flags("nemo")


def claims(tree: Tree) -> bool:
    policy = tree.get("policy")
    if isinstance(policy, Mapping):
        return "megatron_cfg" in policy or "dtensor_cfg" in policy
    return any(key.rpartition(".")[2] == _SIZES["tp"] for key in LaunchArguments.of_tree(tree).given)


def read(tree: Tree, launch: Launch) -> None:
    """Read a config as training options; keys are matched by their last part, wherever a release nests them."""
    trained = _trained(tree)
    flat = LaunchArguments.of_tree(trained)
    args = LaunchArguments(
        {_last(key): value for key, value in flat.given.items()}, written={_last(k): k for k in flat.given}
    )
    per_node, nodes = args.whole(launch, "devices", "gpus_per_node"), args.whole(launch, "num_nodes")
    sizes = {axis: args.whole(launch, name) for axis, name in _SIZES.items()}
    devices = per_node * nodes if per_node and nodes else None
    training_common.layout(launch, devices - _elsewhere(tree, per_node or 0) if devices else None, **sizes)
    training_common.unresolved(
        launch, {name: axis for axis, name in _SIZES.items()} | {"devices": "n", "num_nodes": "n"}
    )
    dtype_names.checkpoint(launch, args.pop("model_name", "model_name_or_path"), "model_name")
    if re.search("mamba|hybrid", str(args.given.get("spec"))):
        launch.refuse("model", "its spec is another architecture than its name and sizes describe here")
    shape = {key: args.whole(launch, name) for key, name in _SHAPE.items()}
    launch.shape = {key: value for key, value in shape.items() if value}
    if launch.shape:
        launch.shape["gated"] = (
            any("glu" in str(args.pop(name, default="")) for name in ("activation", "activation_func"))
            or args.pop("swiglu") is True
        )
        launch.shape |= (
            {"kv_heads": launch.shape["heads"]} if "heads" in launch.shape and not launch.shape.get("kv_heads") else {}
        )
        launch.shape |= {} if launch.shape.get("experts") else {"experts": 0, "top_k": 0}
        context = args.count("max_position_embeddings", "encoder_seq_length", "seq_length")
        launch.shape |= {"context": context} if context else {}
        if args.pop("share_embeddings_and_output_weights") is False:
            launch.shape["tied"] = False
        launch.shape["rotary"] = str(args.pop("position_embedding_type")) in ("rope", "rotary")
    training_common.expert_defaults(launch, launch.shape.get("experts"), "expert_model_parallel_size")
    args.put(launch, "micro-batch", "micro_batch_size", "train_micro_batch_size")
    args.put(launch, "batch", "global_batch_size", "train_global_batch_size")
    args.put(launch, "seq", "seq_length", "encoder_seq_length", "max_total_sequence_length", "cutoff_len")
    _steps(args, launch)
    _recomputed(args, launch)
    if args.pop("sequence_parallel") is True and launch.options.get("tp", 1) != 1:
        launch.options["sequence-parallel"] = True
    args.put(launch, "virtual-stages", "virtual_pipeline_model_parallel_size")
    launch.options["dtype"] = "fp8" if args.pop("fp8") not in (None, False) else "bf16"
    if str(args.pop("precision", default="bf16")) in ("16", "16-mixed", "fp16"):
        launch.options["dtype"] = "fp16"
    optimizer = str(args.pop("name", default=""))
    if (
        str(args.pop("grad_sync_dtype", "grad_reduce_dtype", default="")) in ("bf16", "bfloat16")
        or args.pop("grad_reduce_in_bf16") is True
    ):
        launch.options["gradient-bytes"] = 2  # main gradients are kept as they are reduced
    sharded = "distributed" in optimizer or args.pop("use_distributed_optimizer") is True
    fsdp = args.pop("fsdp", "use_megatron_fsdp", "use_torch_fsdp2", "use_custom_fsdp") is True
    stage = 2 if args.pop("fsdp_sharding_strategy") == "grad" else 3
    launch.options["zero"] = stage if fsdp else int(sharded)
    args.put(launch, "capacity-factor", "moe_expert_capacity_factor")
    if args.pop("moe_shared_expert_overlap") is True:
        launch.options["shared-expert-overlap"] = True
    if args.pop("cpu_offload") is True:
        launch.options["offload"] = "optimizer"
        launch.unmodelled.append("cpu_offload: weights are taken to stay on the device")
    if "lora" in str(args.pop("finetuning_type", "peft_scheme", default="")):
        launch.options["recipe"] = "lora"
        args.put(launch, "lora-rank", "lora_rank")
    peft = str(args.pop("dim", default="")) if any(key.endswith("peft.dim") for key in flat.given) else ""
    if peft.isdigit() and flat.given.get("megatron_cfg.peft.enabled", [True])[0] is True:
        launch.options |= {"recipe": "lora", "lora-rank": int(peft)}
    launch.unmodelled += args.left(FLAGS)


def _last(key: str) -> str:
    """The part of a key that identifies it; the optimizer's name is kept apart from those of runs and projects."""
    return ("name" if key.endswith("optim.name") else "run_name") if key.endswith(".name") else key.rpartition(".")[2]


def _trained(tree: Tree) -> Options:
    """The side of a config that trains: the policy of NeMo RL, or the whole."""
    if isinstance(tree.get("policy"), Mapping):
        return {k: v for k, v in tree.items() if k not in ("policy", *_ASIDE)} | _policy(tree)
    return dict(tree)


def _elsewhere(tree: Tree, per_node: int) -> int:
    """Devices of NeMo RL's cluster that generate and do not train, where the two are not colocated."""
    policy = tree.get("policy")
    generation = policy.get("generation") if isinstance(policy, Mapping) else None
    colocated = generation.get("colocated") if isinstance(generation, Mapping) else None
    if not isinstance(colocated, Mapping) or colocated.get("enabled") is not False:
        return 0
    resources = colocated.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    nodes, each = resources.get("num_nodes"), resources.get("gpus_per_node")
    return int(nodes or 1) * int(each or per_node) if nodes or each else 0


def _steps(args: LaunchArguments, launch: Launch) -> None:
    """LLaMA-Factory states the batch of a replica and its accumulation, not the global batch."""
    each, times = (
        args.whole(launch, "per_device_train_batch_size"),
        args.whole(launch, "gradient_accumulation_steps", default=1) or 1,
    )
    if each:
        launch.options["micro-batch"] = each
        launch.per_replica = each * times


def _policy(tree: Tree) -> Options:
    """The trained side of NeMo RL; its generation is another layout."""
    policy = tree.get("policy")
    if not isinstance(policy, Mapping):
        return {}
    found = {
        k: v
        for k, v in policy.items()
        if k not in ("generation", "tokenizer", "scheduler", "dynamic_batching", "sequence_packing", "draft")
    }
    megatron, dtensor = found.get("megatron_cfg"), found.get("dtensor_cfg")
    megatron, dtensor = (
        dict(megatron) if isinstance(megatron, Mapping) else {},
        dict(dtensor) if isinstance(dtensor, Mapping) else {},
    )
    if megatron.get("enabled") is True or (megatron and not dtensor):
        optimizer = {
            "use_distributed_optimizer": True,
            **(megatron.get("optimizer") or {}),
        }  # grpo_math_1B.yaml, which the others extend
        return found | {"megatron_cfg": megatron | {"optimizer": optimizer}, "dtensor_cfg": None}
    sizes = {
        _SIZES[axis]: dtensor.pop(f"{word}_parallel_size", None)
        for axis, word in (("tp", "tensor"), ("cp", "context"), ("ep", "expert"))
    }
    return found | {"megatron_cfg": None, "dtensor_cfg": dtensor | sizes, "fsdp": True}


def _recomputed(args: LaunchArguments, launch: Launch) -> None:
    kind = args.pop("activations_checkpoint_granularity", "recompute_granularity")
    if args.pop("activation_checkpointing") is True:
        kind = "full"
    launch.options["recompute"] = kind or "none"
    layers = args.whole(launch, "activations_checkpoint_num_layers", "recompute_num_layers")
    if layers == 0 and kind == "full":
        launch.options["recompute"] = "none"
    if args.pop("activations_checkpoint_method", "recompute_method") == "block" and layers and "pp" in launch.options:
        launch.options["recompute-layers"] = layers * launch.options["pp"]
    if modules := args.given.get("recompute_modules"):
        args.pop("recompute_modules")
        launch.options["recompute-modules"] = ",".join(map(str, modules))


def write(options: Options, model: str) -> str:
    """The sections of megatron_gpt_config.yaml that this plan decides."""
    shape = shape_of(load_model(options["model"]))
    n, recompute, zero = int(options["n"]), options.get("recompute", "none"), int(options.get("zero", 0))
    wanted = {
        "micro_batch_size": options.get("micro-batch"), "global_batch_size": options.get("batch"),
        **{name: options.get(axis, 1) for axis, name in _SIZES.items() if axis in ("tp", "pp") or options.get(axis, 1) != 1},
        "virtual_pipeline_model_parallel_size": options.get("virtual-stages") if options.get("virtual-stages", 1) != 1 else None,
        "sequence_parallel": bool(options.get("sequence-parallel", False)), "encoder_seq_length": options.get("seq"),
        **{name: shape[key] for key, name in _SHAPE.items() if shape.get(key)},
        "activation": "fast-swiglu" if shape["gated"] else "gelu",
        "activations_checkpoint_granularity": recompute if recompute in ("full", "selective") else None,
        "activations_checkpoint_method": "uniform" if recompute == "full" else None,
        "activations_checkpoint_num_layers": 1 if recompute == "full" else None,
        "fp8": options.get("dtype") == "fp8",
        **({"fsdp": True, "fsdp_sharding_strategy": "full" if zero == 3 else "grad"} if zero > 1 else {}),
        "optim": {"name": "mcore_distributed_optim" if zero == 1 else "fused_adam"},
    }  # fmt: skip
    trainer = {"num_nodes": n // training_common.per_node(n), "devices": training_common.per_node(n), "accelerator": "gpu",
               "precision": "16" if options.get("dtype") == "fp16" else "bf16"}  # fmt: skip
    return yaml.safe_dump({"trainer": trainer, "model": wanted}, sort_keys=False)
