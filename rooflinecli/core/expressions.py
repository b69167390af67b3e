"""Expressions in tables that the package brings: Python's, compiled once, over the names of a scope and nothing else.

One that is asked seldom is worked out by a `Scope`; of a table that is asked thousands of times `conditions` makes one function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any

from rooflinecli.core.num import value
from rooflinecli.core.record import Json

Met = tuple[Json, Any, Any]  # a row, which of its `each` it is for, and what its `holds` comes to
NOTHING: Json = {"__builtins__": {}}  # the names that every scope has
_REFUSED = re.compile(r"\._|__|\blambda\b|:=")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@cache
def compiled(expression: str) -> CodeType:
    """The code of an expression. Raises TypeError for one that defines names or reaches inside an object."""
    return compile(_harmless(expression), expression, "eval")


def _harmless(expression: str) -> str:
    if _REFUSED.search(expression):
        raise TypeError(f"{expression} is no expression of a row")
    return expression


class Scope(dict[str, Any]):
    """Names that are known, those of a table's `let`, each worked out where it is first used, and the attributes of an object."""

    def __init__(self, known: Mapping[str, Any], let: Mapping[str, Any], of: Any):
        super().__init__(known, **NOTHING)
        for name in let:
            self.pop(name, None)
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


def conditions(
    rows: Sequence[Json], let: Mapping[str, str], known: Mapping[str, Any], arguments: str, of: type
) -> Callable[..., Iterator[Met]]:
    """A function of `arguments` that yields each row whose `if` is true, which of its `each` this is, and what its `holds` comes to.

    The last argument is an object whose attributes are names too, of class `of`; they and those of `let` are worked out where they are
    first used. With the argument `broken`, rows whose `holds` is true are left out.
    """
    lines, given = [f"def found({arguments}):", " yield from ()"], arguments.split(", ")

    def add(line: str, depth: int, expression: str, ready: set[str]) -> None:
        """A line with an expression, and above it the names that it needs."""
        for name in _NAME.findall(_QUOTED.sub("", expression)):
            if name not in ready and (name in let or (name not in known and hasattr(of, name))):
                ready.add(name)
                add(f"{name} = ", depth, let.get(name, f"{given[-1]}.{name}"), ready)
        lines.append(f"{' ' * depth}{line}{_harmless(expression)}")

    top = {*given}
    for i, row in enumerate(rows):
        depth, ready = 1, top
        when = row.get("if", "True")
        for condition in [when] if re.search(r" (or|if|for) ", when) else when.split(" and "):
            add("if ", depth, condition, ready)
            lines[-1] += ":"
            depth, ready = depth + 1, {*ready}
        if "each" in row:
            add("for each in ", depth, row["each"], ready)
            lines[-1] += ":"
            depth, ready = depth + 1, {*ready}
        add("held = ", depth, row.get("holds", "None"), ready)
        lines.append(f"{' ' * depth}if not (broken and bare(held)):")
        lines.append(f"{' ' * depth} yield rows[{i}], {'each' if 'each' in row else None}, held")
    exec("\n".join(lines), made := {**NOTHING, **known, "rows": rows, "bare": value})
    return made["found"]  # type: ignore[no-any-return]
