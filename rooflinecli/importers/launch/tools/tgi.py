"""text-generation-inference: `text-generation-launcher` and its container. Flags as in TGI 3.3 (docs/source/reference/launcher.md)."""

from __future__ import annotations

from rooflinecli.importers.launch import serving_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags

VERSION = "TGI 3.3"
TRAINS = False
FLAGS = flags("tgi")


def starts(words: list[str]) -> list[str] | None:
    found = serving_common.started(words, FLAGS)
    if found is not None:
        return found
    image = next((i for i, w in enumerate(words) if "text-generation-inference" in w), None)
    return words[image + 1 :] if image is not None and "--model-id" in words[image:] else None


def read(words: list[str], launch: Launch) -> None:
    """Read a server's flags; TGI has no engine file, so the default engine is used."""
    args = LaunchArguments.of_words(words, FLAGS.switches, FLAGS.short, ())
    serving_common.formats(launch, args, FLAGS, args.pop("model-id"))
    if args.first("quantize") == "bitsandbytes":  # of 8 bits here; bitsandbytes-nf4 has 4
        launch.options["weight-dtype"] = "int8"
    shards, cores = args.whole(launch, "num-shard"), args.whole(launch, "hf-num-cores")
    if cores is not None and cores > 1:  # Inferentia2, Trainium
        shards = cores // 2
        launch.notes.append(f"{cores} NeuronCores, two to a chip: a device here is a chip, so tp is {shards}")
    if shards is None and str(args.pop("sharded")).lower() != "false" and "?num-shard" not in launch.missing:
        shards = launch.devices
        stated = f"the {shards} that it is given" if shards else "not stated, taken as one"
        launch.notes.append(f"without --num-shard TGI takes every device that it sees: {stated}")
    serving_common.server(launch, shards)
    serving_common.unresolved(launch, {"num-shard": "tp", "hf-num-cores": "tp"}, args, FLAGS)
    if args.pop("speculate"):
        launch.unmodelled.append("--speculate: drafts by n-grams or by the checkpoint's own heads are left out")
    longest, tokens = str(args.pop("max-total-tokens")), str(args.pop("max-batch-total-tokens"))
    if tokens.isdigit() and longest.isdigit() and "max-batch-size" not in args.given:
        launch.options["batch"] = most = max(int(tokens) // int(longest), 1)
        launch.notes.append(f"--max-batch-total-tokens {tokens} admits {most} requests of --max-total-tokens {longest}")
    elif tokens.isdigit():
        launch.notes.append(
            f"--max-batch-total-tokens {tokens} caps the tokens of the batch; give --batch or --concurrency"
        )
    serving_common.limits(launch, args, FLAGS, None)
