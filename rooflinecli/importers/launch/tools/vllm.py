"""vLLM: `vllm serve MODEL` and the modules that are the same server.

Flags as in vLLM 0.11 (docs.vllm.ai/en/v0.11.0/cli/serve.html) and vllm/engine/arg_utils.py.
"""

from __future__ import annotations

import json
import re

from rooflinecli.core.text import one_line
from rooflinecli.importers.launch import serving_common
from rooflinecli.importers.launch.launch import Launch, flags
from rooflinecli.importers.launch.shell_expansion import readable
from rooflinecli.importers.source import Options, Tree

VERSION = "vLLM 0.11"
TRAINS = False
ENGINE = "vllm"
SUFFIX = ".sh"
FILES = ("config",)
FLAGS = flags("vllm")
_EXCHANGES = {"deepep_low_latency": "deepep-low-latency", "deepep_high_throughput": "deepep", "flashinfer_all2allv": "nvlink",
              "allgather_reducescatter": "gather"}  # fmt: skip


def claims(tree: Tree) -> bool:
    """The YAML that --config names, on its own."""
    sizes = {
        "tensor-parallel-size", "max-model-len", "max-num-seqs", "max-num-batched-tokens", "kv-cache-dtype", "gpu-memory-utilization",
    }  # fmt: skip
    keys = {str(key).replace("_", "-") for key in tree}
    return len(sizes & set(tree)) > 1 or (isinstance(tree.get("model"), str) and bool(keys & sizes))


def read(given: list[str] | Tree, launch: Launch, config: Tree | None = None) -> None:
    """A server's flags, over those of the YAML that --config names, as options of an estimate."""
    args, sizes = serving_common.opened(given, launch, FLAGS, config, FILES)
    tp, dp = sizes["tp"] or 1, sizes["dp"] or 1
    spread = args.pop("enable-expert-parallel")
    if spread:  # vllm/config/parallel.py: EP = TP x DP
        sizes["ep"] = tp * dp
        if {"?tensor-parallel-size", "?data-parallel-size"} & set(launch.missing):
            launch.missing["ep"] = "--enable-expert-parallel is over ranks that the running script knows"
    if (drafting := str(args.first("speculative-config", ""))) and not _json(drafting):
        launch.unmodelled.append(f"--speculative-config {one_line(readable(drafting))[:60]}")
    args.unpack("speculative-config", _json)
    if args.pop("enable-dbo"):
        launch.options["overlap"] = "two-batch"
    exchange = _EXCHANGES.get(str(args.pop("all2all-backend", "VLLM_ALL2ALL_BACKEND")))
    if exchange and spread and tp * dp > 1:
        launch.options["exchange"] = exchange
    copies = _json(args.first("eplb-config", "{}")).get("num_redundant_experts")
    copies = copies or args.pop("num-redundant-experts")
    if args.pop("enable-eplb") and copies:
        args.pop("eplb-config")
        launch.put("redundant-experts", copies, "--eplb-config")
    quantized = re.search(r"weight_qtype\W+(float8|int8|int4)", str(args.first("additional-config", "")))
    if quantized:  # as a TPU loads them (qwix)
        args.pop("additional-config")
        option = "weight-dtype" if quantized[1] == "int4" else "dtype"
        launch.options[option] = quantized[1].replace("float8", "fp8")
    # fused_moe/config.py: without expert parallelism experts are cut over TP x DP
    group = dp if spread or serving_common.has_experts(launch.options) else 1
    serving_common.closed(launch, args, FLAGS, sizes, ENGINE, group)


def _json(written: object) -> Options:
    try:
        found = json.loads(str(written or "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write(options: Options, model: str) -> str:
    """The command that serves this plan; four-bit checkpoints have their format in their config."""
    (ep, _, group), tp, dp = serving_common.expert_group(options), options.get("tp", 1), options.get("dp", 1)
    if serving_common.has_experts(options) and group != dp:
        dp = 1  # further servers: vLLM spreads experts over all its replicas
    exchanges = {ours: theirs for theirs, ours in _EXCHANGES.items()}
    copies = options.get("redundant-experts")
    own = {
        "--data-parallel-size": dp if dp > 1 else None, "--enable-expert-parallel": ep > 1 and ep == dp * tp,
        "--enable-dbo": options.get("overlap") == "two-batch", "--enable-eplb": bool(copies),
        "--all2all-backend": exchanges.get(options.get("exchange", "")) if ep > 1 else None,
        "--eplb-config": json.dumps({"num_redundant_experts": int(copies)}) if copies else None,
        "--kv-cache-dtype": "fp8" if options.get("kv-dtype") == "fp8" else None,
    }  # fmt: skip
    return serving_common.command(["vllm", "serve", model], FLAGS, options, own)
