"""Registries of kinds: the files of a folder of the package. Listing them imports nothing, so that help stays fast."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import unknown

_PACKAGE = Path(__file__).resolve().parent.parent
_SPELLED = {"1f1b": "one_f_one_b", "llama.cpp": "llama_cpp"}  # names that people write and Python could not import

# folder -> {name of an earlier release: today's}: model files of users keep loading
_FORMER = {
    "layers/attention": {"uneven": "asymmetric-gqa", "reused": "shared-kv"},
    "layers/components": {"streams": "altup"},
    "layers/images": {
        "smart": "smart-resize",
        "longest": "longest-edge",
        "whole": "fixed-square",
        "padded": "padded-tiles",
        "shrunk": "patch-budget",
        "budget": "token-budget",
        "tiles": "dynamic-tiles",
        "split": "image-splitting",
        "canvas": "best-fit-canvas",
        "latent": "latent-patches",
    },
}


def canonical(folder: str, name: str) -> str:
    """Today's spelling of a kind that an earlier release called otherwise."""
    return _FORMER.get(folder, {}).get(name, name)


@cache
def kinds(folder: str) -> tuple[str, ...]:
    """Names of the files in a folder such as 'layers/attention', as people write them, sorted."""
    written = {module: name for name, module in _SPELLED.items()}
    files = (name.removesuffix(".py") for name in os.listdir(_PACKAGE / folder) if name.endswith(".py"))
    return tuple(sorted(written.get(s, s.replace("_", "-")) for s in files if not s.startswith("_")))


@cache
def load(folder: str, name: str) -> Any:
    """The module behind a name. Raises UsageError listing what exists."""
    if name not in kinds(folder):
        raise unknown(folder.rpartition("/")[2].removesuffix("s"), name, kinds(folder))
    stem = _SPELLED.get(name, name.replace("-", "_"))
    return import_module(f"rooflinecli.{folder.replace('/', '.')}.{stem}")
