"""NeMo: the YAML of megatron_gpt_config (NeMo 1.x), the dotted keys of its tests, and Megatron sections of NeMo RL.

Keys as in NeMo 1.23 (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from rooflinecli.launch import formats, training
from rooflinecli.launch.found import Arguments, Launch
from rooflinecli.launch.shapes import shape_of
from rooflinecli.specs.model import load_model

VERSION = "NeMo 1.23"
TRAINS = True
SUFFIX = ".yaml"
_SIZES = {"tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
          "ep": "expert_model_parallel_size"}  # fmt: skip
_SHAPE = {"layers": "num_layers", "d_model": "hidden_size", "heads": "num_attention_heads", "kv_heads": "num_query_groups",
          "d_ff": "ffn_hidden_size", "experts": "num_moe_experts", "top_k": "moe_router_topk"}  # fmt: skip
# the last part of a key that changes no cost beside the sizes
IDLE = (
    *training.IDLE_OPTIMIZER, "name", "*_dir", "*dir", "max_*", "log*", "*logger*", "*checkpoint*path", "accelerator", "seed", "fused*",
    "*_batches", "val_*", "*interval", "enable_*", "use_distributed_sampler", "limit_*", "*_steps", "*fusion", "*tokenizer*", "library",
    "type", "model", "delimiter", "*_file", "init_*", "position_embedding_type", "*rope*", "rotary*", "normalization", "layernorm*",
    "*dropout", "*amax*", "fp8_margin", "fp8_interval", "fp8_e4m3", "fp8_hybrid", "*nsys*", "trace", "ranks", "start_step", "end_step",
    "gen_shape", "*overlap*", "*grad*", "*_buffer*", "bucket*", "*splits*", "data_impl", "data_prefix", "num_workers", "dataloader*",
    "*_mask*", "reset_*", "index_*", "skip_*", "gc_interval", "pre_process", "post_process", "persist*", "bias", "headscale",
    "transformer_block_type", "openai_gelu", "normalize*", "attention_type", "*scal*", "*softmax*", "hysteresis", "fp32_*",
    "megatron_amp_O2", "transformer_engine", "mcore_*", "use_*", "apply_*", "make_vocab*", "native_*", "resume*", "sync_batch_comm",
    "onnx_safe", "batch_p2p_comm", "apex*", "enabled", "dependency", "time_limit", "mode", "monitor", "save*", "every*", "filename",
    "*timing*", "*tflops*", "sync_cuda", "seconds_to_sleep", "verbose", "stdout", "project", "create_*", "always_*", "explicit*",
    "tp_only*", "attention_backend", "model_parallel_size", "dataset*", "_target_", "CUDA_*", "SKIP_*", "TEST_TYPE", "*_config",
    "*prompts*", "*generations*", "*clip*", "*trajectory*", "*weight_updates*", "*importance*", "*ratio", "*env_vars*", "NRL_*",
    "PYTORCH*", "moe_router_*", "moe_grouped*", "moe_token*", "defer_*", "defaults", "bias_activation*", "group", "wandb*", "*tensorboard*",
    "share_embeddings*", "seq_len_*", "activations_checkpoint_layers_per_pipeline", "num_micro_batches_with*", "kv_channels",
    "run_name", "segment_size", "mtp_num_layers", "max_position_embeddings", "gradient_as_bucket_view", "accumulate_grad_batches", "make_sequence*", "cudnn*", "deterministic*",
)  # fmt: skip


def claims(tree: Mapping[str, Any]) -> bool:
    return (
        any(key.rpartition(".")[2] == _SIZES["tp"] for key in Arguments.of_tree(tree).given) and "policy" not in tree
    ) or (isinstance(tree.get("policy"), Mapping) and "megatron_cfg" in tree["policy"])


def read(tree: Mapping[str, Any], launch: Launch) -> None:
    """A config as a training plan; keys are told by their last part, wherever a release nests them."""
    trained = {k: v for k, v in tree.items() if k != "policy"} | _policy(tree)
    flat = Arguments.of_tree(trained)
    args = Arguments(
        {_last(key): value for key, value in flat.given.items()}, written={_last(k): k for k in flat.given}
    )
    per_node, nodes = args.whole(launch, "devices", "gpus_per_node"), args.whole(launch, "num_nodes")
    sizes = {axis: args.whole(launch, name) for axis, name in _SIZES.items()}
    training.layout(launch, per_node * nodes if per_node and nodes else None, **sizes)
    training.unreadable(launch, {name: axis for axis, name in _SIZES.items()} | {"devices": "n", "num_nodes": "n"})
    formats.checkpoint(launch, args.take("model_name"), "model_name")
    shape = {key: args.whole(launch, name) for key, name in _SHAPE.items()}
    launch.shape = {key: value for key, value in shape.items() if value}
    launch.shape["gated"] = "glu" in str(args.take("activation", default=""))
    args.put(launch, "micro-batch", "micro_batch_size", "train_micro_batch_size")
    args.put(launch, "batch", "global_batch_size", "train_global_batch_size")
    args.put(launch, "seq", "seq_length", "encoder_seq_length", "max_total_sequence_length")
    _recomputed(args, launch)
    if args.take("sequence_parallel") is True and launch.options.get("tp", 1) != 1:
        launch.options["sequence-parallel"] = True
    args.put(launch, "virtual-stages", "virtual_pipeline_model_parallel_size")
    launch.options["dtype"] = "fp8" if args.take("fp8") not in (None, False) else "bf16"
    if str(args.take("precision", default="bf16")) in ("16", "16-mixed", "fp16"):
        launch.options["dtype"] = "fp16"
    optimizer = str(args.take("name", default=""))
    sharded = "distributed" in optimizer or args.take("use_distributed_optimizer") is True
    launch.options["zero"] = 1 if sharded else 0
    launch.unmodelled += args.left(IDLE)


def _last(key: str) -> str:
    """The part of a key that says what it is; the optimizer's name is kept apart from those of runs and projects."""
    return ("name" if key.endswith("optim.name") else "run_name") if key.endswith(".name") else key.rpartition(".")[2]


def _policy(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The trained side of NeMo RL: what generates beside it is another plan."""
    policy = tree.get("policy")
    return (
        {k: v for k, v in policy.items() if k not in ("generation", "tokenizer")} if isinstance(policy, Mapping) else {}
    )


def _recomputed(args: Arguments, launch: Launch) -> None:
    kind = args.take("activations_checkpoint_granularity")
    if args.take("activation_checkpointing") is True:
        kind = "full"
    launch.options["recompute"] = kind or "none"
    layers = args.whole(launch, "activations_checkpoint_num_layers")
    if args.take("activations_checkpoint_method") == "block" and layers and "pp" in launch.options:
        launch.options["recompute-layers"] = layers * launch.options["pp"]


def write(options: dict[str, Any], model: str) -> str:
    """The sections of megatron_gpt_config.yaml that this plan decides."""
    shape = shape_of(load_model(options["model"]))
    n, recompute = int(options["n"]), options.get("recompute", "none")
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
        "optim": {"name": "mcore_distributed_optim" if int(options.get("zero", 0)) else "fused_adam"},
    }  # fmt: skip
    trainer = {"num_nodes": n // training.per_node(n), "devices": training.per_node(n), "accelerator": "gpu",
               "precision": "16" if options.get("dtype") == "fp16" else "bf16"}  # fmt: skip
    return yaml.safe_dump({"trainer": trainer, "model": wanted}, sort_keys=False)
