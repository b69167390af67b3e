"""vLLM: `vllm serve MODEL` and the modules that are the same server.

Flags as in vLLM 0.11 (docs.vllm.ai/en/v0.11.0/cli/serve.html) and vllm/engine/arg_utils.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from rooflinecli.importers.launch import dtype_names, serving_common
from rooflinecli.importers.launch.flags import flags
from rooflinecli.importers.launch.launch import Launch, LaunchArguments
from rooflinecli.importers.source import Options, Tree

VERSION = "vLLM 0.11"
TRAINS = False
SUFFIX = ".sh"
FILES = ("config",)
LAUNCHERS = (
    "vllm serve", "-m vllm.entrypoints.openai.api_server", "-m vllm.entrypoints.api_server", "-m vllm.entrypoints.cli.main serve",
    "-m dynamo.vllm", "-m vllm_tgis_adapter", "-m aphrodite.endpoints.openai.api_server",
)  # fmt: skip
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


def starts(words: list[str]) -> list[str] | None:
    return serving_common.starting(words, *LAUNCHERS) or serving_common.after_image(words, r"vllm[-_]openai")


def read(words: list[str] | Tree, launch: Launch, tree: Tree | None = None) -> None:
    """A server's flags, over those of the YAML that --config names, as options of an estimate."""
    if isinstance(words, Mapping):
        read([], launch, words)
        return
    args = LaunchArguments.of_words(words, FLAGS.switches, FLAGS.short, FLAGS.many)
    if tree is not None:
        args.pop("config")
        args.under({str(k).replace("_", "-"): v for k, v in tree.items()})
    dtype_names.quantized(launch, args.pop("quantization"), "--quantization")
    model = args.model("model")
    dtype_names.checkpoint(launch, model, "the model")
    dtype_names.served(launch, args.pop("dtype"), "--dtype")
    dtype_names.cache(launch, args.pop("kv-cache-dtype"), "--kv-cache-dtype")
    tp, pp, dp = (args.whole(launch, f"{axis}-parallel-size") for axis in ("tensor", "pipeline", "data"))
    serving_common.server(launch, tp, pp, dp)
    if args.pop("enable-expert-parallel"):  # vllm/config/parallel.py: EP = TP x DP
        serving_common.place_experts(launch, (tp or 1) * (dp or 1), dp or 1)
        if {"?tensor-parallel-size", "?data-parallel-size"} & set(launch.missing):
            launch.missing["ep"] = "--enable-expert-parallel is over ranks that the running script knows"
    elif serving_common.has_experts(launch.options):  # fused_moe/config.py: without it experts are cut over TP x DP
        serving_common.place_experts(launch, 1, dp or 1)
    roles = [name for name in ("is-prefill-worker", "is-decode-worker") if name in args.given]
    serving_common.role(launch, args.given.get("disaggregation-mode"), args.given.get("kv-transfer-config"), *roles)
    _drafted(args, launch)
    _additional(args, launch)
    serving_common.unresolved(
        launch, {"tensor-parallel-size": "tp", "pipeline-parallel-size": "pp", "data-parallel-size": "dp"}, args
    )
    if args.given.get("decode-context-parallel-size", ["1"]) == ["1"]:
        args.pop("decode-context-parallel-size")
    if args.pop("enable-dbo"):
        launch.options["overlap"] = "two-batch"
    exchange = _EXCHANGES.get(str(args.pop("all2all-backend")))
    if exchange and launch.options.get("ep", 1) > 1:
        launch.options["exchange"] = exchange
    redundant = _json(args.given.get("eplb-config", ["{}"])[0]).get("num_redundant_experts") or args.pop(
        "num-redundant-experts"
    )
    if args.pop("enable-eplb") and redundant:
        args.pop("eplb-config")
        launch.put("redundant-experts", redundant, "--eplb-config")
    dtype_names.state(launch, args.pop("mamba-ssm-cache-dtype"))
    args.put(launch, "batch", "max-num-seqs")
    args.put(launch, "token-budget", "max-num-batched-tokens")
    args.put(launch, "gpu-memory-utilization", "gpu-memory-utilization")
    dtype_names.length(launch, args.pop("max-model-len"), "--max-model-len")
    launch.options["engine"] = "vllm"
    launch.unmodelled += args.left(FLAGS)


def _drafted(args: LaunchArguments, launch: Launch) -> None:
    """--speculative-config, or the flags that it had before 0.9."""
    config = _json(args.pop("speculative-config")) | {
        key: args.pop(f"speculative-config.{key}".replace("_", "-"))
        for key in ("method", "model", "num_speculative_tokens")
        if f"speculative-config.{key}".replace("_", "-") in args.given
    }
    model = args.pop("speculative-model") or config.get("model")
    tokens = args.pop("num-speculative-tokens") or config.get("num_speculative_tokens")
    serving_common.speculation(
        launch, config.get("method") or ("ngram" if str(model) == "[ngram]" else None), tokens, model
    )


def _additional(args: LaunchArguments, launch: Launch) -> None:
    """Weights that a TPU quantizes as it loads (qwix)."""
    written = str(args.given.get("additional-config", [""])[0])
    kind = re.search(r"weight_qtype\W+(float8|int8|int4)", written)
    if kind:
        args.pop("additional-config")
        launch.options[{"float8": "dtype", "int8": "dtype"}.get(kind[1], "weight-dtype")] = {"float8": "fp8"}.get(
            kind[1], kind[1]
        )


def _json(written: object) -> Options:
    try:
        found = json.loads(str(written or "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write(options: Options, model: str) -> str:
    """The command that serves this plan."""
    (ep, _, group), tp, dp = serving_common.expert_group(options), options.get("tp", 1), options.get("dp", 1)
    if serving_common.has_experts(options) and group != dp:
        dp = 1  # further servers: vLLM spreads experts over all its replicas
    return serving_common.command(
        ["vllm", "serve", model],
        [
            ("--tensor-parallel-size", options.get("tp")),
            ("--pipeline-parallel-size", serving_common.if_above_one(options, "pp")),
            ("--data-parallel-size", dp if dp > 1 else None),
            ("--enable-expert-parallel", ep > 1 and ep == dp * tp),
            ("--enable-dbo", options.get("overlap") == "two-batch"),
            (
                "--all2all-backend",
                {v: k for k, v in _EXCHANGES.items()}.get(options.get("exchange", "")) if ep > 1 else None,
            ),
            ("--enable-eplb", bool(options.get("redundant-experts"))),
            ("--eplb-config", _redundant(options)),
            ("--dtype", serving_common.WIDE.get(options.get("dtype", ""))),
            ("--quantization", _quantization(options)),
            ("--kv-cache-dtype", "fp8" if options.get("kv-dtype") == "fp8" else None),
            ("--max-model-len", serving_common.longest(options)),
            ("--max-num-seqs", options.get("batch")),
            ("--max-num-batched-tokens", options.get("token-budget")),
            ("--gpu-memory-utilization", options.get("gpu-memory-utilization")),
        ],
    )


def _redundant(options: Options) -> str | None:
    copies = options.get("redundant-experts")
    return json.dumps({"num_redundant_experts": int(copies)}) if copies else None


def _quantization(options: Options) -> str | None:
    """The --quantization of an unquantized checkpoint; four-bit checkpoints have it in their config."""
    return "fp8" if options.get("dtype") == "fp8" else None
