"""Formulas that are rows of a YAML file: a module's name is its file's, and each row a function of the module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number
from rooflinecli.core.snapshots import keep, kept

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Number]:
        """A row, for the type checker, in the modules that import this name."""


def formula_table(file: str, module: str, known: Mapping[str, Any] | None = None) -> dict[str, Callable[..., Number]]:
    """Register the rows of the YAML file next to a module, whose `__file__` and `__name__` are given, as formulas by name.

    A row's `is` may call other rows, `num` and what is `known`. `works`: name of a group of rows -> the work that they cite, before `source`.
    """
    path = Path(file).with_suffix(".yaml")
    groups = kept(path, "formulas", 0)
    if groups is None:
        import yaml

        groups = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        keep(path, "formulas", 0, [str(path)], groups)
    works, made, names = groups.pop("works"), dict[str, Callable[..., Number]](), dict(known or {}, num=num)
    for group, rows in groups.items():
        for name, row in rows.items():
            function: Callable[..., Number] = eval(f"lambda {', '.join(row['of'].split())}: {row['is']}", names)
            function.__name__, function.__module__, function.__doc__ = name, module, row["about"]
            source = ", ".join(filter(None, (works.get(group), row.get("source"))))
            names[name] = made[name] = formula(row["symbol"], row["unit"], source, row["is"])(function)
    return made
