"""What a folder of the package offers: its files are its kinds. Nothing is imported to list them, so that help stays cheap."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rooflinecli.errors import unknown

_PACKAGE = Path(__file__).resolve().parent.parent
_SPELLED = {"1f1b": "one_f_one_b", "llama.cpp": "llama_cpp"}  # names that people write and Python could not import


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
