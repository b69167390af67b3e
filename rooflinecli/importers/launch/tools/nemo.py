"""NeMo: the YAML of megatron_gpt_config (NeMo 1.x), the dotted keys of its tests, and Megatron sections of NeMo RL.

Keys as in NeMo 1.23 (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from rooflinecli.core.text import one_line
from rooflinecli.importers.launch import dtype_names, rules, training_common
from rooflinecli.importers.launch.launch import (
    Launch,
    LaunchArguments,
    assigned_keys,
    flags,
    flattened,
    interpolated,
    overridden,
)
from rooflinecli.importers.launch.tools import megatron
from rooflinecli.importers.launch.training_common import shape_of
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
FILES = ("config-file",)
# of Megatron Bridge's scripts/performance
_SHORT = {"-mr": "model-recipe-name", "-m": "model-family-name", "-ng": "num-gpus", "-gn": "gpus-per-node", "-g": "gpu", "-c": "compute-dtype", "-gb": "global-batch-size",
          "-mb": "micro-batch-size", "-sl": "seq-length", "-tp": "tensor-model-parallel-size", "-pp": "pipeline-model-parallel-size", "-cp": "context-parallel-size",
          "-vp": "virtual-pipeline-model-parallel-size", "-ep": "expert-model-parallel-size", "-et": "expert-tensor-parallel-size"}  # fmt: skip
FLAGS = flags("nemo")


def starts(words: list[str]) -> list[str] | None:
    """A script of NeMo or Megatron Bridge that is given keys over those of its config or recipe, or flags of its performance scripts."""
    flags = {word.partition("=")[0] for word in words}
    if {"--recipe", "--model_recipe_name"} & flags and any(
        re.search(r"recipe\.py$|performance/\w+\.py$", w) for w in words
    ):
        return words
    given = assigned_keys(words)
    known = {*_SIZES.values(), "global_batch_size", "micro_batch_size"} & {key.rpartition(".")[2] for key in given}
    tables = {"model", "train"} & {key.partition(".")[0] for key in given}
    return words if known and tables and any(word.endswith(".py") for word in words) else None


def claims(tree: Tree) -> bool:
    policy = tree.get("policy")
    if "_recipe" in str(tree.get("recipe")):
        return True
    if isinstance(policy, Mapping):
        return "megatron_cfg" in policy or "dtensor_cfg" in policy
    keys = {key.rpartition(".")[2] for key in LaunchArguments.of_tree(tree).given}
    # to generate with, conversion, tuning, evaluation
    other = {
        "gpu_memory_utilization",
        "gpt_model_file",
        "restore_from_path",
        "convert_name",
        "run_best",
        "eval_batch_size",
    } & keys
    return (
        _SIZES["tp"] in keys
        and not (other and not any("optim" in key for key in LaunchArguments.of_tree(tree).given))
        and not {"actor_rollout_ref", "reward_model", "rollout", "inference", "gpt_model_file"} & set(tree)
    )


def read(given: Tree | list[str], launch: Launch, config: Tree | None = None) -> None:
    """Read a config as training options; keys are matched by their last part, wherever a release nests them."""
    tree = _of_command(given, launch, config) if isinstance(given, list) else given
    policy = tree.get("policy")
    if isinstance(policy, Mapping):
        tree = {key: value for key, value in tree.items() if key not in ("policy", *_ASIDE)} | _policy(policy)
    flat = LaunchArguments.of_tree(tree)
    trained = {key: value for key, value in flat.given.items() if not re.search(r"\b(test|validation)_ds\.", key)}
    args = LaunchArguments({_last(k): value for k, value in trained.items()}, written={_last(k): k for k in trained})
    # keys over a recipe of Megatron Bridge, or of NeMo 2
    recipe, bridge = (
        one_line(str(flat.first("recipe.name", flat.first("recipe", "")))),
        "train" in tree and "trainer" not in tree,
    )
    if bridge:
        args.given.setdefault("use_distributed_optimizer", [True])  # as its recipes have it
    args.pop("recipe")
    per_node = args.whole(launch, "devices", "gpus_per_node", "num_gpus_per_node", "nproc_per_node")
    nodes = args.whole(launch, "num_nodes", "nodes", default=1 if bridge else None)
    sizes = {axis: args.whole(launch, name) for axis, name in _SIZES.items()}
    devices = per_node * nodes if per_node and nodes else None
    training_common.layout(launch, devices - _elsewhere(policy, per_node or 0) if devices else None, **sizes)
    launch.unresolved({name: axis for axis, name in _SIZES.items()} | {"devices": "n", "num_nodes": "n"})
    named = next(
        (name for name in ("model_name", "model_name_or_path", "hf_path", "pretrained_checkpoint") if args.has(name)),
        "model_name",
    )
    dtype_names.checkpoint(launch, args.pop(named), named)
    if bridge or recipe:
        library = "Megatron Bridge" if bridge else "NeMo 2"
        launch.notes.append(
            f"keys over a recipe of {library}{recipe and ', ' + recipe}: what the recipe itself sets is not read"
        )
        if re.search("peft|lora", recipe) or ("finetune_recipe" in recipe and not args.has("peft_scheme")):
            launch.options["recipe"] = "lora"
        size = re.sub(r"[_.](pretrain|sft|peft|finetune).*|^llm\.", "", recipe)
        size = re.sub(r"^(llama|qwen)(\d)(\d)_", r"\1\2.\3_", size)
        if "model" not in launch.options and dtype_names.known(size.replace("_", "-")):
            launch.options["model"] = size.replace("_", "-")
    if re.search("mamba|hybrid", str(args.given.get("spec"))):
        launch.refuse("model", "its spec is another architecture than its name and sizes describe here")
    glu = ["glu" in str(args.pop(name, default="")) for name in ("activation", "activation_func")]
    megatron.settings(args, launch, any(glu) or args.pop("swiglu") is True)
    if "heads" in launch.shape:
        launch.shape.setdefault("kv_heads", launch.shape["heads"])
    sharded = isinstance(policy, Mapping) and tree.get("megatron_cfg") is None
    overlaps = args.pop("overlap_grad_reduce", "overlap_grad_sync") is True
    launch.framework = "" if sharded else "megatron-bridge" if bridge else megatron.stack(overlaps)
    if args.given.get("kd_config") or any(".teacher." in key for key in flat.given):
        launch.refuse("recipe", "a teacher runs forward in each step of a distillation, which no recipe here has")
    args.put(launch, "virtual-stages", "virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank")
    launch.put("stages", megatron.stages_of(args, launch), "decoder_first_pipeline_num_layers")
    megatron.recomputed(args, launch)
    each = args.whole(launch, "per_device_train_batch_size")  # LLaMA-Factory's, of a replica
    if each:
        training_common.local_batch(launch, each, args.whole(launch, "gradient_accumulation_steps") or 1)
    rules.apply(FLAGS.rules, args, launch)
    args.put(launch, "lora-rank", *(["lora_rank", "lora_dim"] if launch.options.get("recipe") == "lora" else []))
    peft = str(args.pop("dim", default="")) if any(key.endswith("peft.dim") for key in flat.given) else ""
    if peft.isdigit() and flat.first("megatron_cfg.peft.enabled", True) is True:
        launch.options |= {"recipe": "lora", "lora-rank": int(peft)}
    launch.shaping = [one for one in args.left(FLAGS) if one not in args.left(FLAGS, megatron.FLAGS.shaping)]
    launch.unmodelled += args.left(FLAGS, megatron.FLAGS.shaping)


def _of_command(given: list[str], launch: Launch, config: Tree | None) -> Options:
    """The config of a command that sets keys of one, or of a recipe."""
    at = next(i for i, word in enumerate(given, 1) if word.endswith(".py"))  # before it are the flags of its runner
    words, runner = LaunchArguments.of_words(given[at:], short=_SHORT, many=()), LaunchArguments.of_words(given[:at])
    launch.devices = words.count("num-gpus") or training_common.processes(runner) or launch.devices
    recipe, file = words.pop("recipe"), words.pop("config-name")
    if words.has("model-recipe-name"):
        if chip := words.pop("gpu"):
            launch.on_chip(str(chip))
        task, dtype = words.pop("task", default="pretrain"), str(words.pop("compute-dtype", default=""))
        recipe = f"{words.pop('model-recipe-name')}_{task}"
        words.pop("gpus-per-node", "model-family-name")
        kept = {name.replace("-", "_"): value for name, (_, *values) in words.unread().items() for value in values[:1]}
        return {"recipe": recipe, "train": {}, "fp8": dtype if dtype.startswith("fp8") else None, **kept}
    text = launch.open_file(f"{words.pop('config-path', default='.')}/{str(file).removesuffix('.yaml')}.yaml")
    config = config or (yaml.safe_load(text) if text else None) or {}
    if not config and not recipe:
        launch.notes.append("what its own config sets is not read")
    base = {"train": {}, **config, "recipe": recipe} if recipe else config
    found: Options = interpolated(overridden(base, assigned_keys(given)))
    return found


def _last(key: str) -> str:
    """The part of a key that identifies it; the optimizer's name is kept apart from those of runs and projects."""
    return ("name" if key.endswith("optim.name") else "run_name") if key.endswith(".name") else key.rpartition(".")[2]


def _elsewhere(policy: object, per_node: int) -> int:
    """Devices of NeMo RL's cluster that generate and do not train, where the two are not colocated."""
    keys = flattened(policy if isinstance(policy, Mapping) else {})
    nodes, each = (keys.get(f"generation.colocated.resources.{key}") for key in ("num_nodes", "gpus_per_node"))
    if keys.get("generation.colocated.enabled") is not False or not (nodes or each):
        return 0
    return int(nodes or 1) * int(each or per_node)


def _policy(policy: Tree) -> Options:
    """The trained side of NeMo RL; its generation is another layout."""
    aside = ("generation", "tokenizer", "scheduler", "dynamic_batching", "sequence_packing", "draft")
    found = {key: value for key, value in policy.items() if key not in aside}
    megatron_cfg, dtensor = (dict(found.get(key) or {}) for key in ("megatron_cfg", "dtensor_cfg"))
    if megatron_cfg.get("enabled") is True or (megatron_cfg and not dtensor):
        # grpo_math_1B.yaml, which the others extend
        optimizer = {"use_distributed_optimizer": True, **(megatron_cfg.get("optimizer") or {})}
        return found | {"megatron_cfg": megatron_cfg | {"optimizer": optimizer}, "dtensor_cfg": None}
    words = {"tp": "tensor", "cp": "context", "ep": "expert"}
    sizes = {_SIZES[axis]: dtensor.pop(f"{word}_parallel_size", None) for axis, word in words.items()}
    return found | {"megatron_cfg": None, "dtensor_cfg": dtensor | sizes, "fsdp": True}


def write(options: Options, model: str) -> str:
    """The sections of megatron_gpt_config.yaml that this plan decides."""
    spec = load_model(options["model"])
    shape = shape_of(spec)
    n, recompute, zero = int(options["n"]), options.get("recompute", "none"), int(options.get("zero", 0))
    stages = int(options.get("virtual-stages") or 1)
    wanted = {
        "micro_batch_size": options.get("micro-batch"), "global_batch_size": options.get("batch"),
        **{name: options.get(axis, 1) for axis, name in _SIZES.items() if axis in ("tp", "pp") or options.get(axis, 1) != 1},
        "virtual_pipeline_model_parallel_size": stages if stages != 1 and shape["layers"] % (stages * options.get("pp", 1)) == 0 else None,
        "sequence_parallel": bool(options.get("sequence-parallel", False)), "encoder_seq_length": options.get("seq"),
        **{name: shape[key] for key, name in _SHAPE.items() if shape.get(key)},
        "normalization": "rmsnorm" if spec.norm == "rmsnorm" else "layernorm", "bias": spec.layers[-1].feedforward.bias,
        "position_embedding_type": "rope" if spec.positions.kind == "rotary" else "learned_absolute",
        "share_embeddings_and_output_weights": spec.tied_embeddings,
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
