"""@formula and Traced: how a number remembers where it came from.

A formula is an ordinary function of numbers with a symbol, a unit and a source. Given plain numbers it costs one extra
class check. Given `Traced` numbers it returns a `Traced` whose tree is the arithmetic that ran, so an explanation is
never retyped and its value equals the estimate's bit for bit.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from rooflinecli.core.fast_dataclass import dataclass

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False, repr=False)
class Formula:
    """What `roofline formula NAME` shows: symbol = body, unit, source."""

    name: str
    symbol: str
    unit: str
    source: str
    module: str
    function: Callable[..., Any]

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def signature(self) -> str:
        return f"{self.name}{inspect.signature(self.function)}".replace(": 'Number'", "").replace(" -> 'Number'", "")

    @property
    def body(self) -> str:
        """The arithmetic as written, without decorator, docstring and signature."""
        source = inspect.getsource(self.function)
        lines = source[source.index("def ") :].splitlines()
        start = next(i for i, line in enumerate(lines) if line.rstrip().endswith(":")) + 1
        text = "\n".join(lines[start:])
        if self.function.__doc__:
            text = text.split('"""', 2)[2]
        return inspect.cleandoc("\n" + text).strip()


FORMULAS: dict[str, Formula] = {}


def formula(symbol: str, unit: str, source: str) -> Callable[[F], F]:
    """Register a pure function of numbers as a formula.

    symbol: how it prints ("t_ar"); unit: SI ("s", "B", "FLOP", "1"); source: paper, book or "definition".
    """

    def wrap(function: F) -> F:
        name = function.__name__
        if name in FORMULAS:
            raise ValueError(f"two formulas are called {name}: {FORMULAS[name].module} and {function.__module__}")
        FORMULAS[name] = Formula(name, symbol, unit, source, function.__module__, function)

        def named(result: Traced) -> Traced:
            return Traced(result.value, "formula", (result,), symbol, unit, source, name)

        return functools.wraps(function)(_calling(function, named))  # type: ignore[return-value]

    return wrap


def _calling(function: Callable[..., Any], named: Callable[[Traced], Traced]) -> Callable[..., Any]:
    """The function with its traced results named. Positional only, and most by their number of arguments: an estimate makes
    hundreds of these calls, and gathering arguments to spread them again takes as long as the arithmetic."""

    def two(a: Any, b: Any) -> Any:
        result = function(a, b)
        return named(result) if result.__class__ is Traced else result

    def three(a: Any, b: Any, c: Any) -> Any:
        result = function(a, b, c)
        return named(result) if result.__class__ is Traced else result

    def four(a: Any, b: Any, c: Any, d: Any) -> Any:
        result = function(a, b, c, d)
        return named(result) if result.__class__ is Traced else result

    def many(*args: Any) -> Any:
        result = function(*args)
        return named(result) if result.__class__ is Traced else result

    by_arguments: dict[int, FunctionType] = {2: two, 3: three, 4: four}  # type: ignore[dict-item]
    caller: Any = by_arguments.get(function.__code__.co_argcount, many)
    # Code of its own: CPython remembers at each call what was called there, and one code for all formulas never remembers right.
    return FunctionType(caller.__code__.replace(), caller.__globals__, caller.__name__, None, caller.__closure__)


class _Namespace:
    """What `num` calls for traced numbers: the same functions on values, recorded."""

    @staticmethod
    def _apply(name: str, function: Callable[..., Any], *args: Any) -> Traced:
        return Traced(function(*(_value(a) for a in args)), name, args)

    @classmethod
    def maximum(cls, a: Any, b: Any) -> Traced:
        return cls._apply("max", lambda x, y: x if x >= y else y, a, b)

    @classmethod
    def minimum(cls, a: Any, b: Any) -> Traced:
        return cls._apply("min", lambda x, y: x if x <= y else y, a, b)

    @classmethod
    def where(cls, condition: Any, a: Any, b: Any) -> Traced:
        return cls._apply("where", lambda c, x, y: x if c else y, condition, a, b)

    @classmethod
    def ceil(cls, a: Any) -> Traced:
        return cls._apply("ceil", lambda x: float(math.ceil(x)), a)

    @classmethod
    def floor(cls, a: Any) -> Traced:
        return cls._apply("floor", lambda x: float(math.floor(x)), a)

    @classmethod
    def sqrt(cls, a: Any) -> Traced:
        return cls._apply("sqrt", math.sqrt, a)

    @classmethod
    def log(cls, a: Any) -> Traced:
        return cls._apply("ln", math.log, a)


def _value(a: Any) -> Any:
    return a.value if a.__class__ is Traced else a


def _binary(symbol: str, function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: Traced, other: Any) -> Traced:
        return Traced(function(self.value, _value(other)), symbol, (self, other))

    def backward(self: Traced, other: Any) -> Traced:
        return Traced(function(_value(other), self.value), symbol, (other, self))

    return forward, backward


class Traced:
    """A scalar that carries its derivation: `op` over `args`, or a leaf with the file:line it was read from.

    op is 'leaf', 'formula' (args = the expression that ran), an operator, or a function name. Comparisons give traced
    truth values; asking one for a plain bool raises, because a formula must not branch on a number.
    """

    __slots__ = ("args", "name", "op", "source", "symbol", "unit", "value")
    __roofline_num__ = _Namespace
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        value: Any,
        op: str,
        args: tuple[Any, ...] = (),
        symbol: str = "",
        unit: str = "",
        source: str = "",
        name: str = "",
    ):
        self.value, self.op, self.args = value, op, args
        self.symbol, self.unit, self.source, self.name = symbol, unit, source, name

    __add__, __radd__ = _binary("+", operator.add)
    __sub__, __rsub__ = _binary("-", operator.sub)
    __mul__, __rmul__ = _binary("*", operator.mul)
    __truediv__, __rtruediv__ = _binary("/", operator.truediv)
    __pow__, __rpow__ = _binary("**", operator.pow)
    __lt__, _ = _binary("<", operator.lt)
    __le__, _ = _binary("<=", operator.le)
    __gt__, _ = _binary(">", operator.gt)
    __ge__, _ = _binary(">=", operator.ge)
    __eq__, _ = _binary("==", operator.eq)
    __and__, __rand__ = _binary("and", operator.and_)
    __or__, __ror__ = _binary("or", operator.or_)

    def __neg__(self) -> Traced:
        return Traced(-self.value, "neg", (self,))

    def __bool__(self) -> bool:
        raise TypeError("a formula branched on a number; use num.where")

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return f"Traced({self.symbol or self.op}={self.value!r})"


def leaf(symbol: str, value: Any, unit: str, source: str) -> Traced:
    """A traced input: `source` is file:line and citation, or the flag it came from."""
    return Traced(value, "leaf", (), symbol, unit, source)


def label(number: Any, symbol: str, unit: str = "s") -> Any:
    """The same number under a more telling symbol in explanations; free for plain numbers. `unit` is for plain sums."""
    if number.__class__ is not Traced:
        return number
    if number.op in ("leaf", "formula"):
        return Traced(number.value, number.op, number.args, symbol, number.unit, number.source, number.name)
    return Traced(number.value, "formula", (number,), symbol, unit)
