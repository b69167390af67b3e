"""LMDeploy: `lmdeploy serve api_server MODEL`. Flags as in LMDeploy 0.16 (lmdeploy.readthedocs.io, lmdeploy/cli/serve.py)."""

from __future__ import annotations

from rooflinecli.importers.launch import serving_common
from rooflinecli.importers.launch.launch import Launch, flags

VERSION = "LMDeploy 0.16"
TRAINS = False
FLAGS = flags("lmdeploy")


def read(words: list[str], launch: Launch) -> None:
    """Read a server's flags."""
    args, sizes = serving_common.opened(words, launch, FLAGS)
    serving_common.closed(launch, args, FLAGS, sizes, "lmdeploy")
