"""vLLM: `vllm serve MODEL` and the modules that are the same server.

Flags as in vLLM 0.11 (docs.vllm.ai/en/v0.11.0/cli/serve.html) and vllm/engine/arg_utils.py.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.launch import formats, serving
from rooflinecli.launch.found import Arguments, Launch

VERSION = "vLLM 0.11"
TRAINS = False
SUFFIX = ".sh"
LAUNCHERS = (
    "vllm serve", "-m vllm.entrypoints.openai.api_server", "-m vllm.entrypoints.api_server", "-m vllm.entrypoints.cli.main serve",
    "-m dynamo.vllm", "-m vllm_tgis_adapter", "-m aphrodite.endpoints.openai.api_server",
)  # fmt: skip
SHORT = {"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size", "-q": "quantization",
         "-O": "compilation-config", "-dpl": "data-parallel-size-local"}  # fmt: skip
SWITCHES = {
    "trust-remote-code", "enable-expert-parallel", "enforce-eager", "enable-prefix-caching", "no-enable-prefix-caching",
    "enable-chunked-prefill", "no-enable-chunked-prefill", "disable-log-requests", "disable-log-stats", "headless",
    "async-scheduling", "language-model-only", "enable-auto-tool-choice", "disable-custom-all-reduce", "no-enable-log-requests",
}  # fmt: skip
# speed of the same work, not what is computed: kernels, graphs, schedules of the engine's steps
IDLE = (
    *serving.IDLE, "compilation-config", "attention-backend", "enforce-eager", "async-scheduling", "enable-chunked-prefill",
    "no-enable-chunked-prefill", "no-enable-prefix-caching", "block-size", "data-parallel-size-local",
    "data-parallel-backend", "disable-custom-all-reduce", "language-model-only", "runner", "task", "enable-server-load-tracking",
    "cuda-graph-sizes", "max-seq-len-to-capture", "all2all-backend", "enable-dbo", "disable-cascade-attn", "override-generation-config",
)  # fmt: skip


def starts(words: list[str]) -> list[str] | None:
    return serving.starting(words, *LAUNCHERS)


def read(words: list[str], launch: Launch) -> None:
    """A server's flags as options of an estimate."""
    args = Arguments.of_words(words, SWITCHES, SHORT)
    formats.quantized(launch, args.take("quantization"), "--quantization")
    model = args.take("model") or next(iter(args.positional), None)
    formats.checkpoint(launch, model, "the model")
    formats.compute(launch, args.take("dtype"), "--dtype")
    formats.cache(launch, args.take("kv-cache-dtype"), "--kv-cache-dtype")
    tp, pp, dp = (args.whole(launch, f"{axis}-parallel-size") for axis in ("tensor", "pipeline", "data"))
    serving.server(launch, tp, pp, dp, dp if args.take("enable-expert-parallel") else None)
    serving.unreadable(
        launch, {"tensor-parallel-size": "tp", "pipeline-parallel-size": "pp", "data-parallel-size": "dp"}
    )
    if args.given.get("decode-context-parallel-size", ["1"]) == ["1"]:
        args.take("decode-context-parallel-size")
    args.put(launch, "batch", "max-num-seqs")
    args.put(launch, "token-budget", "max-num-batched-tokens")
    formats.length(launch, args.take("max-model-len"), "--max-model-len")
    launch.options["engine"] = "vllm"
    launch.unmodelled += args.left(IDLE)


def write(options: dict[str, Any], model: str) -> str:
    """The command that serves this plan."""
    ep, dp = options.get("ep", 1), options.get("dp", 1)
    return serving.command(
        ["vllm", "serve", model],
        [
            ("--tensor-parallel-size", options.get("tp")),
            ("--pipeline-parallel-size", serving.above_one(options, "pp")),
            ("--data-parallel-size", serving.above_one(options, "dp")),
            ("--enable-expert-parallel", ep > 1 and ep == dp),
            ("--dtype", serving.WIDE.get(options.get("dtype", ""))),
            ("--quantization", _quantization(options)),
            ("--kv-cache-dtype", "fp8" if options.get("kv-dtype") == "fp8" else None),
            ("--max-model-len", serving.longest(options)),
            ("--max-num-seqs", options.get("batch")),
            ("--max-num-batched-tokens", options.get("token-budget")),
        ],
    )


def _quantization(options: dict[str, Any]) -> str | None:
    """What can be asked for of an unquantised checkpoint; four bits come with the checkpoint."""
    return "fp8" if options.get("dtype") == "fp8" else None
