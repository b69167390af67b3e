"""Registries of kinds: the files of a folder of the package, or the public functions of a module. Listing them imports nothing, so that
help stays fast."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import unknown

_PACKAGE = Path(__file__).resolve().parent.parent
_SPELLED = {"llama.cpp": "llama_cpp"}  # names that people write and Python could not import


def canonical(folder: str, name: str) -> str:
    """Today's spelling of a kind that an earlier release called otherwise: model files of users keep loading."""
    from rooflinecli.specs.snapshots import packaged

    return str(packaged(__file__, "former_kinds").get(folder, {}).get(name, name))


@cache
def kinds(folder: str) -> tuple[str, ...]:
    """Names of the files in a folder such as 'layers/attention', or of a module's functions, as people write them, sorted."""
    written = {module: name for name, module in _SPELLED.items()}
    module = _PACKAGE / f"{folder}.py"
    if module.is_file():
        stems = re.findall(r"^def ([a-z]\w*)\(", module.read_text(encoding="utf-8"), re.MULTILINE)
    else:
        files = (name.rpartition(".") for name in os.listdir(_PACKAGE / folder))
        stems = [stem for stem, _, kind in files if kind in ("py", "yaml") and not stem.startswith("_")]
    return tuple(sorted(written.get(s, s.replace("_", "-")) for s in stems))


@cache
def load(folder: str, name: str) -> Any:
    """The module, or the function, behind a name. Raises UsageError listing what exists."""
    if name not in kinds(folder):
        raise unknown(folder.rpartition("/")[2].removesuffix("s"), name, kinds(folder))
    stem, inside = _SPELLED.get(name, name.replace("-", "_")), f"rooflinecli.{folder.replace('/', '.')}"
    function = (_PACKAGE / f"{folder}.py").is_file()
    return getattr(import_module(inside), stem) if function else import_module(f"{inside}.{stem}")
