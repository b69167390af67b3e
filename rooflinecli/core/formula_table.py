"""Formulas that are rows of a YAML file: a module's name is its file's, and each row a function of the module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any
from zlib import crc32

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number
from rooflinecli.core.snapshots import keep, kept, stamp

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Number]:
        """A row, for the type checker, in the modules that import this name."""


def formula_table(file: str, module: str, known: Mapping[str, Any] | None = None) -> dict[str, Callable[..., Number]]:
    """Register the rows of the YAML file next to a module, whose `__file__` and `__name__` are given, as formulas by name.

    A row's `is` may call other rows, `num` and what is `known`. `works`: name of a group of rows -> the work that they cite, before `source`.
    """
    path, reader = Path(file).with_suffix(".yaml"), crc32(repr(stamp(__file__)).encode())
    read = kept(path, "formulas", reader)
    if read is None:
        read = _read(path)
        keep(path, "formulas", reader, [str(path)], read)
    rows, code = read
    names = {**(known or {}), "num": num, "__name__": module}
    exec(code, names)
    for name, row in rows.items():
        names[name].__doc__ = row["about"]
        names[name] = formula(row["symbol"], row["unit"], row["source"], row["is"])(names[name])
    return {name: names[name] for name in rows}


def _read(path: Path) -> tuple[dict[str, dict[str, str]], CodeType]:
    """The rows of a file by name, each with its whole source, and what defines their functions."""
    import yaml

    groups = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    works, found = groups.pop("works"), {}
    for group, rows in groups.items():
        for name, row in rows.items():
            found[name] = row | {"source": ", ".join(filter(None, (works.get(group), row.get("source"))))}
    written = (f"def {name}({', '.join(row['of'].split())}):\n    return {row['is']}" for name, row in found.items())
    return found, compile("\n".join(written), str(path), "exec")
