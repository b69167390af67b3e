"""Rows of YAML, one per model type: reader or interpreted keys, transformers' defaults, and fields that change no shape.

A row is parsed when a config of its type is read; a model type is a key at the left margin of a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.importers.hf.decoder import decoder
from rooflinecli.importers.hf.ignored_fields import SETS
from rooflinecli.specs.field_reader import Family
from rooflinecli.specs.yaml_loader import Loader

HERE = Path(__file__).parent
_ROW = re.compile(r'^(?:"([^"\n]+)"|([\w.-]+)):(.*\n(?:[ #].*\n|\n)*)', re.MULTILINE)
_SET = "$"  # before the name of a set of ignored fields


@cache
def texts(where: str) -> dict[str, str]:
    """The text behind each key of a file, or of all files of a folder."""
    path = HERE / where
    files = [path] if path.is_file() else sorted(path.glob("*.yaml"))
    return {
        match[1] or match[2]: match[3] for file in files for match in _ROW.finditer(file.read_text(encoding="utf-8"))
    }


@cache
def row(where: str, name: str) -> Mapping[str, Any]:
    """A row, on top of the one it extends; `defaults` merge field by field."""
    own: dict[str, Any] = yaml.load(texts(where)[name], Loader)
    if "extends" not in own:
        return own
    base = row(where, own.pop("extends"))
    return {**base, **own, "defaults": {**base.get("defaults", {}), **own.get("defaults", {})}}


@cache
def family(where: str, name: str) -> Family:
    """How a model type of a folder is read."""
    given = row(where, name)
    ignored: set[str] = set()
    for field in given.get("ignored", "").split():
        ignored |= SETS[field[1:]] if field.startswith(_SET) else {field}
    if "reader" not in given:
        return Family(partial(decoder, row=given), given["defaults"], frozenset(ignored))
    module, function = given["reader"].rsplit(".", 1)
    module = module if "." in module else f"{where}.{module}"
    convert = getattr(import_module(f"rooflinecli.importers.hf.{module}"), function)
    more = dict(given.get("arguments", {}))
    if "feedforward" in given or "experts" in given:
        more["row"] = given
    return Family(
        partial(convert, **more) if more else convert,
        given["defaults"],
        frozenset(ignored),
        **{key: True for key in ("own_head", "pair", "varied") if given.get(key)},
    )
