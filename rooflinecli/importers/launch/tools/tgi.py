"""text-generation-inference: `text-generation-launcher` and its container. Flags as in TGI 3.3 (docs/source/reference/launcher.md)."""

from __future__ import annotations

from rooflinecli.importers.launch import serving_common
from rooflinecli.importers.launch.launch import Launch, flags

VERSION = "TGI 3.3"
TRAINS = False
FLAGS = flags("tgi")


def read(words: list[str], launch: Launch) -> None:
    """Read a server's flags; TGI has no engine file, so the default engine is used."""
    args, sizes = serving_common.opened(words, launch, FLAGS)
    if args.first("quantize") == "bitsandbytes":  # of 8 bits here; bitsandbytes-nf4 has 4
        launch.options["weight-dtype"] = "int8"
    cores = args.count("hf-num-cores")
    if cores is not None and cores > 1:  # Inferentia2, Trainium
        sizes["tp"] = cores // 2
        launch.notes.append(f"{cores} NeuronCores, two to a chip: a device here is a chip, so tp is {cores // 2}")
    if sizes["tp"] is None and str(args.pop("sharded")).lower() != "false" and "?num-shard" not in launch.missing:
        sizes["tp"] = launch.devices
        stated = f"the {launch.devices} that it is given" if launch.devices else "not stated, taken as one"
        launch.notes.append(f"without --num-shard TGI takes every device that it sees: {stated}")
    if args.pop("speculate"):
        launch.unmodelled.append("--speculate: drafts by n-grams or by the checkpoint's own heads are left out")
    longest, tokens = str(args.pop("max-total-tokens")), str(args.pop("max-batch-total-tokens"))
    if tokens.isdigit() and longest.isdigit() and "max-batch-size" not in args.given:
        launch.options["batch"] = most = max(int(tokens) // int(longest), 1)
        launch.notes.append(f"--max-batch-total-tokens {tokens} admits {most} requests of --max-total-tokens {longest}")
    elif tokens.isdigit():
        note = f"--max-batch-total-tokens {tokens} caps the tokens of the batch"
        launch.notes.append(f"{note}; give --batch or --concurrency")
    serving_common.closed(launch, args, FLAGS, sizes, None)
