"""SGLang: `python -m sglang.launch_server` and `sglang serve`.

Flags as in SGLang 0.5 (docs.sglang.ai/advanced_features/server_arguments.html) and python/sglang/srt/server_args.py.
"""

from __future__ import annotations

from rooflinecli.importers.launch import serving_common
from rooflinecli.importers.launch.launch import Launch, flags
from rooflinecli.importers.source import Options

VERSION = "SGLang 0.5"
TRAINS = False
ENGINE = "sglang"
SUFFIX = ".sh"
FLAGS = flags("sglang")


def read(words: list[str], launch: Launch) -> None:
    """A server's flags. With --enable-dp-attention the data parallel replicas lie inside the tensor parallel group."""
    args, sizes = serving_common.opened(words, launch, FLAGS)
    tp, dp, group = sizes["tp"], sizes["dp"], 1
    if str(args.pop("moe-a2a-backend")) == "deepep" or args.pop("enable-deepep-moe"):
        args.pop("deepep-mode")
        sizes["ep"] = tp  # sglang/srt/server_args.py: experts over the whole tensor parallel group
    if args.pop("enable-dp-attention") and tp and dp:
        if tp % dp:
            launch.refuse("tp", f"--dp-size {dp} does not divide --tp-size {tp} under --enable-dp-attention")
        sizes["tp"], group = max(tp // dp, 1), dp
        launch.group = dp
    if args.pop("enable-two-batch-overlap"):
        launch.options["overlap"] = "two-batch"
    if args.pop("chunked-prefill-size") != "-1":  # which takes a prompt whole
        args.put(launch, "token-budget", "chunked-prefill-size")
    most = args.whole(launch, "max-running-requests") if group > 1 else None
    serving_common.closed(launch, args, FLAGS, sizes, ENGINE, group)
    if most is not None:  # srt/managers/tp_worker.py divides it under DP attention
        launch.options["batch"] = max(most // group, 1)
        note = f"--max-running-requests {most} is that of {group} ranks of attention"
        launch.notes.append(f"{note}: {max(most // group, 1)} on each")


def write(options: Options, model: str) -> str:
    """The command that serves this plan; experts over the replicas need attention data parallel inside the group."""
    (ep, _, group), tp, dp = serving_common.expert_group(options), options.get("tp", 1), options.get("dp", 1)
    inside = ep > 1 and group == dp > 1
    own = {
        "--tp-size": tp * dp if inside else tp, "--enable-dp-attention": inside,
        "--ep-size": ep if ep > 1 and group in (1, dp) else None, "--enable-two-batch-overlap": options.get("overlap") == "two-batch",
        "--kv-cache-dtype": "fp8_e4m3" if options.get("kv-dtype") == "fp8" else None,
    }  # fmt: skip
    if inside and options.get("batch"):
        own["--max-running-requests"] = int(options["batch"]) * int(dp)
    return serving_common.command(["python", "-m", "sglang.launch_server", "--model-path", model], FLAGS, options, own)
