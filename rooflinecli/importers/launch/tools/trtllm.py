"""TensorRT-LLM: `trtllm-serve MODEL`, `trtllm-build`, and the YAML of --extra_llm_api_options (--config).

Flags as in TensorRT-LLM 1.1 (nvidia.github.io/TensorRT-LLM/commands/trtllm-serve) and tensorrt_llm/commands/serve.py.
"""

from __future__ import annotations

from rooflinecli.importers.launch import serving_common
from rooflinecli.importers.launch.launch import Launch, flags, flattened
from rooflinecli.importers.source import Options, Tree

VERSION = "TensorRT-LLM 1.1"
TRAINS = False
ENGINE = "trtllm"
SUFFIX = ".sh"
FLAGS = flags("trtllm")
FILES = ("extra-llm-api-options", "config", "extra-engine-args")  # flags that name a YAML with the rest


def claims(tree: Tree) -> bool:
    """The YAML that --extra_llm_api_options names, or the parameters of Triton's backend."""
    keys = set(tree)
    return bool({"kv_cache_config", "gpt_model_path"} & keys) or {"tensor_parallel_size", "max_batch_size"} <= keys


def read(given: list[str] | Tree, launch: Launch, config: Tree | None = None) -> None:
    """A server's flags over those of its YAML."""
    if isinstance(given, list) and given[:1] in (["disaggregated"], ["disaggregated_mpi_worker"]):
        why = "trtllm-serve disaggregated leaves its pools to the config of -c, which is not read"
        launch.refuse("?disaggregated", why)
        return
    alone = None if isinstance(given, list) else flattened(given)
    args, sizes = serving_common.opened(alone or given, launch, FLAGS, config and flattened(config), FILES)
    tp = sizes["tp"]
    apart = str(args.pop("enable-attention-dp", default="")).lower() == "true" and tp is not None
    if apart:
        sizes |= {"tp": 1, "dp": tp}
    if tp is None and "checkpoint-dir" in args.given:
        launch.refuse("tp", "trtllm-build has the ranks of its checkpoint")
    if tp is None and "gpt-model-path" in args.given:
        launch.refuse("tp", "an engine of TensorRT has the ranks that it was built for")
    prompt = str(args.pop("max-input-len"))
    if "max-seq-len" not in args.given and prompt.isdigit():
        note = f"--max_input_len {prompt} caps prompts; a launch states no load; give --prompt and --output"
        launch.notes.append(note)
        launch.options |= {"prompt": int(prompt)} if int(prompt) < 2048 else {}
    serving_common.closed(launch, args, FLAGS, sizes, ENGINE, tp if apart and tp else 1)
    roles = {"CONTEXT": "prefill", "GENERATION": "decode"}
    serving_common.role(launch, roles.get(str(args.first("server-role")).upper()))


def write(options: Options, model: str) -> str:
    """The command that serves this layout; replicas are separate servers."""
    ep, _, group = serving_common.expert_group(options)
    own = {"--ep_size": ep if ep > 1 and group == 1 else None}
    return serving_common.command(["trtllm-serve", model], FLAGS, options, own)
