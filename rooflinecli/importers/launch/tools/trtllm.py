"""TensorRT-LLM: `trtllm-serve MODEL`, `trtllm-build`, and the YAML of --extra_llm_api_options (--config).

Flags as in TensorRT-LLM 1.1 (nvidia.github.io/TensorRT-LLM/commands/trtllm-serve) and tensorrt_llm/commands/serve.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from rooflinecli.importers.launch import dtype_names, serving_common
from rooflinecli.importers.launch.flags import flags
from rooflinecli.importers.launch.launch import Launch, LaunchArguments
from rooflinecli.importers.source import Options, Tree

VERSION = "TensorRT-LLM 1.1"
TRAINS = False
SUFFIX = ".sh"
LAUNCHERS = (
    "trtllm-serve serve",
    "trtllm-serve",
    "-m tensorrt_llm.commands.serve",
    "-m dynamo.trtllm",
    "trtllm-build",
    "trtllm-bench",
)
FLAGS = flags("trtllm")
FILES = ("extra-llm-api-options", "config", "extra-engine-args")  # flags that name a YAML with the rest


def starts(words: list[str]) -> list[str] | None:
    return serving_common.starting(words, *LAUNCHERS)


def claims(tree: Tree) -> bool:
    """The YAML that --extra_llm_api_options names, on its own."""
    return "kv_cache_config" in tree or ("tensor_parallel_size" in tree and "max_batch_size" in tree)


def read(words: list[str] | Tree, launch: Launch, tree: Tree | None = None) -> None:
    """A server's flags over those of its YAML."""
    if isinstance(words, Mapping):
        read([], launch, words)
        return
    if words[:1] in (["disaggregated"], ["disaggregated_mpi_worker"]):
        launch.refuse(
            "?disaggregated", "trtllm-serve disaggregated leaves its pools to the config of -c, which is not read"
        )
        return
    args = LaunchArguments.of_words(words, FLAGS.switches, FLAGS.short, FLAGS.many)
    if tree is not None:
        for name in FILES:
            args.pop(name)
        inner = LaunchArguments.of_tree(tree)
        for key, values in inner.given.items():
            args.given.setdefault(_KEYS.get(key, key.replace("_", "-")), values)
    model = args.model("model", "model-path", "model-name", "checkpoint-dir")
    dtype_names.quantized(launch, args.pop("quantization"), "--quantization")
    dtype_names.checkpoint(launch, model, "the model")
    dtype_names.served(launch, args.pop("dtype", "gemm-plugin"), "--dtype")
    dtype_names.cache(launch, args.pop("kv-cache-dtype"), "kv_cache_config.dtype")
    tp, pp, ep = (args.whole(launch, f"{axis}-size") for axis in ("tp", "pp", "ep"))
    if str(args.pop("enable-attention-dp", default="")).lower() == "true" and tp:
        serving_common.server(launch, 1, pp, tp)
        serving_common.place_experts(launch, ep, tp)
    else:
        serving_common.server(launch, tp, pp)
        serving_common.place_experts(launch, ep)
    serving_common.unresolved(launch, {f"{axis}-size": axis for axis in ("tp", "pp", "ep")}, args)
    serving_common.role(launch, args.given.get("disaggregation-mode"))
    serving_common.speculation(
        launch, args.pop("speculative-config.decoding-type"), args.pop("speculative-config.max-draft-len", "speculative-config.num-nextn-predict-layers"),
        args.pop("speculative-config.speculative-model-dir", "speculative-config.speculative-model"),
    )  # fmt: skip
    args.put(launch, "batch", "max-batch-size")
    args.put(launch, "token-budget", "max-num-tokens")
    args.put(launch, "gpu-memory-utilization", "kv-cache-free-gpu-memory-fraction")
    if "max-seq-len" in args.given:
        dtype_names.length(launch, args.pop("max-seq-len"), "--max_seq_len")
    elif str(args.pop("max-input-len")).isdigit():
        dtype_names.prompts(launch, int(str(args.pop("max-input-len"))), "--max_input_len")
    launch.options["engine"] = "trtllm"
    launch.unmodelled += args.left(FLAGS)


_KEYS = {"tensor_parallel_size": "tp-size", "pipeline_parallel_size": "pp-size", "moe_expert_parallel_size": "ep-size",
         "kv_cache_config.dtype": "kv-cache-dtype", "kv_cache_dtype": "kv-cache-dtype",
         "kv_cache_config.free_gpu_memory_fraction": "kv-cache-free-gpu-memory-fraction"}  # fmt: skip


def write(options: Options, model: str) -> str:
    """The command that serves this layout; replicas are separate servers."""
    ep, _, group = serving_common.expert_group(options)
    return serving_common.command(
        ["trtllm-serve", model],
        [
            ("--tp_size", options.get("tp")),
            ("--pp_size", serving_common.if_above_one(options, "pp")),
            ("--ep_size", ep if ep > 1 and group == 1 else None),
            ("--max_batch_size", options.get("batch")),
            ("--max_num_tokens", options.get("token-budget")),
            ("--kv_cache_free_gpu_memory_fraction", options.get("gpu-memory-utilization")),
            ("--max_seq_len", serving_common.longest(options)),
        ],
    )
