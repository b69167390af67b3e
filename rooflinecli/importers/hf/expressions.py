"""Expressions of rows: arithmetic, comparisons, conditions, collections, comprehensions and calls of the functions named in a row.

Written in Python's syntax and walked here, so that a row reaches only the names that it is given.
"""

from __future__ import annotations

import ast
import operator
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv,
    "Mod": operator.mod, "Pow": operator.pow, "BitOr": operator.or_, "USub": operator.neg, "Not": operator.not_,
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
    "Is": operator.is_, "IsNot": operator.is_not, "In": lambda item, items: item in items, "NotIn": lambda item, items: item not in items,
    "List": list, "Tuple": tuple, "Set": set, "ListComp": list, "SetComp": set, "GeneratorExp": iter,
}  # fmt: skip


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def evaluated(expression: str, names: Mapping[str, Any]) -> Any:
    """What an expression comes to. Raises TypeError for syntax other than that of this module."""
    return _value(_parsed(expression), names)


def _value(node: Any, names: Mapping[str, Any]) -> Any:
    of = partial(_value, names=names)
    operation: Any = _OPERATIONS.get(type(getattr(node, "op", node)).__name__)
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.Attribute() if not node.attr.startswith("_"):
            return getattr(of(node.value), node.attr)
        case ast.Call():
            return of(node.func)(*_items(node.args, of), **{str(word.arg): of(word.value) for word in node.keywords})
        case ast.BinOp():
            return operation(of(node.left), of(node.right))
        case ast.UnaryOp():
            return operation(of(node.operand))
        case ast.BoolOp():
            for value in map(of, node.values):
                if bool(value) is isinstance(node.op, ast.Or):
                    break
            return value
        case ast.Compare():
            sides = zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False)
            return all(_OPERATIONS[type(how).__name__](of(left), of(right)) for how, left, right in sides)
        case ast.IfExp():
            return of(node.body if of(node.test) else node.orelse)
        case ast.Subscript():
            return of(node.value)[of(node.slice)]
        case ast.Slice():
            return slice(*(bound and of(bound) for bound in (node.lower, node.upper, node.step)))
        case ast.List() | ast.Tuple() | ast.Set():
            return operation(_items(node.elts, of))
        case ast.JoinedStr():
            return "".join(map(str, _items(node.values, of)))
        case ast.FormattedValue(conversion=-1, format_spec=None):
            return of(node.value)
        case ast.Dict():
            return {of(key): of(value) for key, value in zip(node.keys, node.values, strict=True)}
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return operation(_value(node.elt, inner) for inner in _turns(node.generators, names))
        case ast.DictComp():
            return {_value(node.key, inner): _value(node.value, inner) for inner in _turns(node.generators, names)}
    raise TypeError(f"{ast.unparse(node)} is no expression of a row")


def _items(nodes: list[ast.expr], of: Callable[[ast.expr], Any]) -> list[Any]:
    """Values of a list, those of a starred entry among them."""
    return [one for n in nodes for one in (of(n.value) if isinstance(n, ast.Starred) else (of(n),))]


def _turns(loops: list[ast.comprehension], names: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The names that a comprehension sees in each of its turns."""
    if not loops:
        yield names
        return
    target: Any = loops[0].target
    for value in _value(loops[0].iter, names):
        bound = (
            {target.id: value}
            if isinstance(target, ast.Name)
            else dict(zip((t.id for t in target.elts), value, strict=True))
        )
        inner: Mapping[str, Any] = ChainMap(bound, names)  # type: ignore[arg-type]
        if all(_value(condition, inner) for condition in loops[0].ifs):
            yield from _turns(loops[1:], inner)
