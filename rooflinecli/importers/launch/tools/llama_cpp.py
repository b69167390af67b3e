"""llama.cpp: `llama-server -m FILE.gguf`.

Flags as in llama.cpp b6000 and later (tools/server/README.md, common/arg.cpp).
"""

from __future__ import annotations

from rooflinecli.importers.launch import dtype_names, serving_common
from rooflinecli.importers.launch.flags import flags
from rooflinecli.importers.launch.launch import Launch, LaunchArguments
from rooflinecli.importers.source import Options

VERSION = "llama.cpp b6000"
TRAINS = False
SUFFIX = ".sh"
LAUNCHERS = ("llama-server", "llama-cli", "llama-bench", "server-cuda")
FLAGS = flags("llama_cpp")


MOST_LAYERS = 60  # what people write to mean all of them: 70, 99, 999


def starts(words: list[str]) -> list[str] | None:
    return serving_common.starting(words, *LAUNCHERS)


def read(words: list[str], launch: Launch) -> None:
    """Read a server's flags: layers split over the cards are pipeline stages, rows are tensor parallelism; slots share the context."""
    args = LaunchArguments.of_words(words, FLAGS.switches, FLAGS.short, ())
    repository = str(args.pop("hf-repo", default=""))
    named, _, kind = repository.rpartition(":") if ":" in repository else (repository, "", "")
    file = args.pop("model", "hf-file")
    dtype_names.checkpoint(
        launch, file or (f"{named.removesuffix('-GGUF')}-{kind}" if kind else named) or None, "--model"
    )
    keys = args.pop("cache-type-k")
    dtype_names.cache(launch, keys, "--cache-type-k")
    if args.pop("cache-type-v") != keys:
        launch.unmodelled.append("--cache-type-v unlike --cache-type-k")
    cards = len(str(args.pop("tensor-split", default="1")).split(","))
    by_row = args.pop("split-mode") == "row"
    serving_common.server(launch, cards if by_row else 1, 1 if by_row else cards)
    _on_host(args, launch)
    serving_common.speculation(launch, None, args.pop("draft-max", "draft"), args.pop("model-draft"))
    slots = args.whole(launch, "parallel", default=1) or 1
    launch.options["batch"] = slots
    context = args.whole(launch, "ctx-size")
    if context:
        dtype_names.length(launch, context // slots, "--ctx-size for each slot")
    launch.unmodelled += args.left(FLAGS.idle)


def _on_host(args: LaunchArguments, launch: Launch) -> None:
    """Layers and experts that stay in the host's memory; any count beyond a model's layers means all on the device."""
    layers = args.whole(launch, "gpu-layers")
    if layers is not None and 0 <= layers < MOST_LAYERS:
        launch.options["offload-layers"] = layers
    if args.pop("cpu-moe"):
        launch.options["experts-on"] = "host"
    count = args.pop("n-cpu-moe")
    if count is not None:
        launch.put("experts-on", f"host:{count}", "--n-cpu-moe")


def write(options: Options, model: str) -> str:
    """The command that serves this plan. A GGUF file of these weights is named as they are on the Hub."""
    tp, pp, slots = options.get("tp", 1), options.get("pp", 1), int(options.get("batch", 1))
    kind = {"q8_0": "Q8_0", "q4_0": "Q4_0", "mxfp4": "mxfp4"}.get(options.get("weight-dtype", ""), "BF16")
    split = max(tp, pp)
    lengths = serving_common.longest(options)
    return serving_common.command(
        ["llama-server", "-m", f"{model.rpartition('/')[2]}-{kind}.gguf"],
        [
            ("--n-gpu-layers", 999),
            ("--split-mode", ("row" if tp > 1 else "layer") if split > 1 else None),
            ("--tensor-split", ",".join(["1"] * split) if split > 1 else None),
            ("--ctx-size", lengths * slots if lengths else None),
            ("--parallel", slots),
            ("--cache-type-k", options["kv-dtype"] if options.get("kv-dtype") in ("q8_0", "q4_0") else None),
            ("--cache-type-v", options["kv-dtype"] if options.get("kv-dtype") in ("q8_0", "q4_0") else None),
        ],
    )
