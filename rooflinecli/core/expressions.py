"""Expressions in tables that the package brings: Python's, compiled once, over the names of a scope and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any

NOTHING: dict[str, Any] = {"__builtins__": {}}  # the names that every scope has
_REFUSED = re.compile(r"\._|__|\blambda\b|:=")


@cache
def compiled(expression: str) -> CodeType:
    """The code of an expression. Raises TypeError for one that defines names or reaches inside an object."""
    if _REFUSED.search(expression):
        raise TypeError(f"{expression} is no expression of a row")
    return compile(expression, expression, "eval")


class Scope(dict[str, Any]):
    """Names that are known, those of a table's `let`, each worked out where it is first used, and the attributes of an object."""

    def __init__(self, known: Mapping[str, Any], let: Mapping[str, Any], of: Any):
        super().__init__(NOTHING | {name: value for name, value in known.items() if name not in let})
        self.let, self.of = let, of

    def __missing__(self, name: str) -> Any:
        self[name] = self.value(self.let[name]) if name in self.let else getattr(self.of, name)
        return self[name]

    def value(self, expression: str) -> Any:
        """What an expression comes to."""
        return eval(compiled(expression), self)

    def worked(self, written: Any) -> Any:
        """An entry of a table, worked out where it is text that starts with =."""
        return self.value(written[1:]) if isinstance(written, str) and written[:1] == "=" else written
