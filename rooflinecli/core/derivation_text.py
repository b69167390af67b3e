"""A traced number as text: symbol = expression = numbers = value, then the symbols of the expression, to a depth."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from rooflinecli.core.derivation import FORMULAS, Traced, leaf
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.core.record import leaves
from rooflinecli.core.units import count, si

Name = Callable[[Traced], str]

_RANK = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
_LONG_SUM = 12


def quantities(answer: object) -> dict[str, Number]:
    """Dotted path -> number, for every number of an answer; `phases.` is left out."""
    return {
        path.removeprefix("phases."): value
        for path, value in leaves(answer)
        if isinstance(value, (int, float, Traced)) and not isinstance(value, bool)
    }


def derivation(answer: object, name: str, path: str = "") -> Traced:
    """The number of a traced answer that --explain names, at a path of today's names. Raises UsageError naming what exists."""
    numbers, path = quantities(answer), path or name
    if path not in numbers:
        if inside := ", ".join(one for one in numbers if one.startswith(path + ".")):
            raise UsageError(f"--explain {name} is a group; name one of {inside}", "explain")
        raise unknown("quantity", path, numbers, "the JSON of the same command shows every quantity", "explain")
    found = numbers[path]
    return (
        found
        if isinstance(found, Traced)
        else leaf(path, found, "", "counted exactly, without arithmetic on hardware or workload")
    )


def explain(number: Traced, depth: int = 3) -> str:
    """The derivation of `number`, indented by level; anything deeper than `depth` is named but not unfolded."""
    lines: list[str] = []
    _node(number, depth, 0, lines, set())
    width = max(60, min(shutil.get_terminal_size((110, 40)).columns, 130))
    folded = []
    for line in lines:  # continuations are indented under their line
        pad = " " * (len(line) - len(line.lstrip()) + 4)
        folded += textwrap.wrap(line, width, subsequent_indent=pad, break_long_words=False, break_on_hyphens=False) or [
            ""
        ]
    return "\n".join(folded)


def _node(number: Traced, depth: int, level: int, lines: list[str], seen: set[int]) -> None:
    pad = "  " * level
    if number.op == "leaf":
        lines.append(f"{pad}{number.symbol} = {quantity(number)}   [{number.source}]")
        return
    head = f"{pad}{number.symbol or 'value'} = {quantity(number)}"
    if id(number) in seen:
        lines.append(f"{head}   (above)")
        return
    seen.add(id(number))
    text, figures, origin, parts = step(number)
    lines += [head, f"{pad}  = {text}"]
    if figures != text:
        lines.append(f"{pad}  = {figures}")
    if origin:
        lines.append(f"{pad}  [{origin}]")
    for part in parts if depth > 1 else ():
        _node(part, depth - 1, level + 1, lines, seen)


def quantity(number: Traced) -> str:
    """The value for people, and in full behind it, so that it can be checked against the JSON."""
    short, full = _short(number.value, number.unit), repr(number.value)
    plain = short.replace(",", "").split(" ")[0]
    return short if isinstance(number.value, bool) or full in (plain, f"{plain}.0") else f"{short} ({full})"


class Step(NamedTuple):
    """The arithmetic of a number in symbols and in figures, the source of its formula, and the numbers it names."""

    text: str
    figures: str
    origin: str
    parts: list[Traced]


def step(number: Traced) -> Step:
    """Return the arithmetic under a number, without names that only rename."""
    node = number.args[0] if number.op == "formula" else number
    while isinstance(node, Traced) and node.op == "formula" and not node.name + node.symbol:
        node = node.args[0]
    origin = f"{number.name}: {FORMULAS[number.name].source}" if number.op == "formula" and number.name else ""
    text, figures = (_render(node, name) for name in (lambda t: t.symbol, lambda t: _short(t.value, t.unit)))
    return Step(text, figures, origin, _symbols(node))


def _short(value: Number, unit: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if unit in ("B", "B/s", "FLOP/s", "FLOP", "s", "Hz", "FLOP/B", "USD", "W", "J"):
        return si(float(value), unit)
    if unit == "1" or not unit:
        return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1e4 else count(float(value))
    return f"{count(float(value))} {unit}"


def _render(node: Number, name: Name, rank: int = 0) -> str:
    """An expression in operators, `name` writing its symbols; in brackets where it binds less than `rank`."""
    if not isinstance(node, Traced):
        return f"{node:g}" if isinstance(node, float) else str(node)
    if node.op == "leaf" or (node.op == "formula" and node.symbol):
        return name(node)
    if node.op == "formula":
        return _render(node.args[0], name, rank)
    if node.op == "+":
        return _sum(node, name, rank)
    if node.op in _RANK and len(node.args) == 2:
        mine = _RANK[node.op]
        left, right = _render(node.args[0], name, mine), _render(node.args[1], name, mine + (node.op in "-/"))
        sign = {"*": "·", "**": "^"}.get(node.op, node.op)
        text = f"{left}^{right}" if node.op == "**" else f"{left} {sign} {right}"
        return f"({text})" if mine < rank else text
    if node.op == "neg":
        return f"-{_render(node.args[0], name, 3)}"
    if node.op in ("<", "<=", ">", ">=", "==", "and", "or"):
        return f"{_render(node.args[0], name, 1)} {node.op} {_render(node.args[1], name, 1)}"
    return f"{node.op}({', '.join(_render(a, name) for a in node.args)})"


def _sum(node: Traced, name: Name, rank: int) -> str:
    terms = [t for t in _terms(node) if not (isinstance(t, (int, float)) and t == 0)]
    shown = [_render(t, name, 1) for t in terms]
    if len(shown) > _LONG_SUM:
        shown = [*shown[:_LONG_SUM], f"… ({len(terms) - _LONG_SUM} more terms)"]
    text = " + ".join(shown)
    return f"({text})" if rank > 1 and len(shown) > 1 else text


def _terms(node: Number) -> list[Number]:
    """The addends of a chain of sums, left to right."""
    terms: list[Number] = []
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Traced) and top.op == "+":
            stack += [top.args[1], top.args[0]]
        else:
            terms.append(top)
    return terms


def _symbols(node: Number) -> list[Traced]:
    """The named numbers an expression mentions, once each, in order."""
    found: list[Traced] = []
    stack, names = [node], set()
    while stack:
        top = stack.pop()
        if not isinstance(top, Traced):
            continue
        if top.op == "leaf" or (top.op == "formula" and top.symbol):
            if (top.symbol, repr(top.value)) not in names:
                names.add((top.symbol, repr(top.value)))
                found.append(top)
        else:
            stack += reversed(top.args)
    return found
