"""SGLang: `python -m sglang.launch_server` and `sglang serve`.

Flags as in SGLang 0.5 (docs.sglang.ai/advanced_features/server_arguments.html) and python/sglang/srt/server_args.py.
"""

from __future__ import annotations

from rooflinecli.importers.launch import dtype_names, serving_common
from rooflinecli.importers.launch.flags import flags
from rooflinecli.importers.launch.launch import Launch, LaunchArguments
from rooflinecli.importers.source import Options

VERSION = "SGLang 0.5"
TRAINS = False
SUFFIX = ".sh"
LAUNCHERS = ("-m sglang.launch_server", "sglang serve", "-m dynamo.sglang", "-m sglang.launch_server_llavavid")
FLAGS = flags("sglang")


def starts(words: list[str]) -> list[str] | None:
    return serving_common.starting(words, *LAUNCHERS)


def read(words: list[str], launch: Launch) -> None:
    """A server's flags. With --enable-dp-attention the data parallel replicas lie inside the tensor parallel group."""
    args = LaunchArguments.of_words(words, FLAGS.switches, FLAGS.short, FLAGS.many)
    dtype_names.quantized(launch, args.pop("quantization"), "--quantization")
    dtype_names.checkpoint(launch, args.model("model-path"), "--model-path")
    dtype_names.served(launch, args.pop("dtype"), "--dtype")
    dtype_names.cache(launch, args.pop("kv-cache-dtype"), "--kv-cache-dtype")
    tp, pp, dp, ep = (args.whole(launch, f"{axis}-size") for axis in ("tp", "pp", "dp", "ep"))
    deepep = str(args.pop("moe-a2a-backend")) == "deepep" or bool(args.pop("enable-deepep-moe"))
    if deepep:  # sglang/srt/server_args.py: it puts experts over the whole tensor parallel group
        args.pop("deepep-mode")
        ep = tp
    if args.pop("enable-dp-attention") and tp and dp:
        if tp % dp:
            launch.refuse("tp", f"--dp-size {dp} does not divide --tp-size {tp} under --enable-dp-attention")
        serving_common.server(launch, max(tp // dp, 1), pp, dp)
        serving_common.place_experts(launch, ep, dp)
    else:
        serving_common.server(launch, tp, pp, dp)
        serving_common.place_experts(launch, ep)
    serving_common.role(launch, args.given.get("disaggregation-mode"))
    serving_common.speculation(
        launch, args.pop("speculative-algorithm", "speculative-algo"), args.pop("speculative-num-steps", "speculative-num-draft-tokens"),
        args.pop("speculative-draft-model-path", "speculative-draft"),
    )  # fmt: skip
    for name in ("speculative-eagle-topk", "speculative-num-draft-tokens"):
        args.pop(name)
    if args.pop("enable-two-batch-overlap"):
        launch.options["overlap"] = "two-batch"
    args.put(launch, "redundant-experts", "ep-num-redundant-experts")
    dtype_names.state(launch, args.pop("mamba-ssm-dtype"))
    serving_common.unresolved(launch, {f"{axis}-size": axis for axis in ("tp", "pp", "dp", "ep")}, args)
    args.put(launch, "batch", "max-running-requests")
    if args.pop("chunked-prefill-size") != "-1":  # which takes a prompt whole
        args.put(launch, "token-budget", "chunked-prefill-size")
    args.put(launch, "gpu-memory-utilization", "mem-fraction-static")
    dtype_names.length(launch, args.pop("context-length"), "--context-length")
    launch.options["engine"] = "sglang"
    launch.unmodelled += args.left(FLAGS)


def write(options: Options, model: str) -> str:
    """The command that serves this plan; experts over the replicas need attention data parallel inside the group."""
    (ep, _, group), tp, dp = serving_common.expert_group(options), options.get("tp", 1), options.get("dp", 1)
    inside = ep > 1 and group == dp > 1
    return serving_common.command(
        ["python", "-m", "sglang.launch_server", "--model-path", model],
        [
            ("--tp-size", tp * dp if inside else tp),
            ("--pp-size", serving_common.if_above_one(options, "pp")),
            ("--dp-size", serving_common.if_above_one(options, "dp")),
            ("--enable-dp-attention", inside),
            ("--ep-size", ep if ep > 1 and group in (1, dp) else None),
            ("--enable-two-batch-overlap", options.get("overlap") == "two-batch"),
            ("--ep-num-redundant-experts", options.get("redundant-experts") or None),
            ("--dtype", serving_common.WIDE.get(options.get("dtype", ""))),
            ("--quantization", "fp8" if options.get("dtype") == "fp8" else None),
            ("--kv-cache-dtype", "fp8_e4m3" if options.get("kv-dtype") == "fp8" else None),
            ("--context-length", serving_common.longest(options)),
            ("--max-running-requests", options.get("batch")),
            ("--chunked-prefill-size", options.get("token-budget")),
            ("--mem-fraction-static", options.get("gpu-memory-utilization")),
        ],
    )
