"""text-generation-inference: `text-generation-launcher` and its container. Flags as in TGI 3.3 (docs/source/reference/launcher.md)."""

from __future__ import annotations

from rooflinecli.importers.launch import dtype_names, serving_common
from rooflinecli.importers.launch.flags import flags
from rooflinecli.importers.launch.launch import Launch, LaunchArguments

VERSION = "TGI 3.3"
TRAINS = False
FLAGS = flags("tgi")


def starts(words: list[str]) -> list[str] | None:
    found = serving_common.starting(words, "text-generation-launcher", "tgi-entrypoint.sh")
    if found is not None:
        return found
    image = next((i for i, w in enumerate(words) if "text-generation-inference" in w), None)
    return words[image + 1 :] if image is not None and "--model-id" in words[image:] else None


def read(words: list[str], launch: Launch) -> None:
    """Read a server's flags; TGI has no engine file, so the default engine is used."""
    args = LaunchArguments.of_words(
        words,
        {"trust-remote-code", "json-output", "disable-custom-kernels", "env", "disable-grammar-support"},
        FLAGS.short,
        (),
    )
    dtype_names.quantized(launch, args.pop("quantize"), "--quantize")
    dtype_names.checkpoint(launch, args.pop("model-id"), "--model-id")
    dtype_names.served(launch, args.pop("dtype"), "--dtype")
    dtype_names.cache(launch, args.pop("kv-cache-dtype"), "--kv-cache-dtype")
    serving_common.server(launch, args.whole(launch, "num-shard"))
    serving_common.unresolved(launch, {"num-shard": "tp"})
    args.put(launch, "batch", "max-batch-size", "max-concurrent-requests")
    dtype_names.length(launch, args.pop("max-total-tokens"), "--max-total-tokens")
    launch.unmodelled += args.left(FLAGS.idle)
