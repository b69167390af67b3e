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
from typing import Any, TypeVar, cast

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number

F = TypeVar("F", bound=Callable[..., Number])


@dataclass(frozen=True, eq=False, repr=False)
class Formula:
    """A registered formula: symbol = body, unit, source."""

    name: str
    symbol: str
    unit: str
    source: str
    module: str
    function: Callable[..., Number]
    written: str = ""  # its arithmetic, where it is a row of a table

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def signature(self) -> str:
        return f"{self.name}{inspect.signature(self.function)}".replace(": 'Number'", "").replace(" -> 'Number'", "")

    @property
    def body(self) -> str:
        """The arithmetic as written, without decorator, docstring and signature."""
        if self.written:
            return f"return {self.written}"
        source = inspect.getsource(self.function)
        lines = source[source.index("def ") :].splitlines()
        start = next(i for i, line in enumerate(lines) if line.rstrip().endswith(":")) + 1
        text = "\n".join(lines[start:])
        if self.function.__doc__:
            text = text.split('"""', 2)[2]
        return inspect.cleandoc("\n" + text).strip()


FORMULAS: dict[str, Formula] = {}


def formula(symbol: str, unit: str, source: str, written: str = "") -> Callable[[F], F]:
    """Register a pure function of numbers as a formula.

    symbol: how it prints ("t_ar"); unit: SI ("s", "B", "FLOP", "1"); source: paper, book or "definition"; written: see Formula.
    """

    def wrap(function: F) -> F:
        name = function.__name__
        if name in FORMULAS:
            raise ValueError(f"two formulas are called {name}: {FORMULAS[name].module} and {function.__module__}")
        FORMULAS[name] = Formula(name, symbol, unit, source, function.__module__, function, written)

        def named(result: Traced) -> Traced:
            return Traced(result.value, "formula", (result,), symbol, unit, source, name)

        return functools.wraps(function)(_calling(function, named))  # type: ignore[return-value]

    return wrap


def _calling(function: Callable[..., Number], named: Callable[[Traced], Traced]) -> Callable[..., Number]:
    """The function with its traced results named. Positional only, and most by their number of arguments: an estimate makes
    hundreds of these calls, and gathering arguments to spread them again takes as long as the arithmetic."""

    def two(a: Number, b: Number) -> Number:
        result = function(a, b)
        return named(result) if result.__class__ is Traced else result

    def three(a: Number, b: Number, c: Number) -> Number:
        result = function(a, b, c)
        return named(result) if result.__class__ is Traced else result

    def many(*args: Number) -> Number:
        result = function(*args)
        return named(result) if result.__class__ is Traced else result

    arity = function.__code__.co_argcount
    caller = cast(FunctionType, two if arity == 2 else three if arity == 3 else many)
    # Code of its own: CPython remembers at each call what was called there, and one code for all formulas never remembers right.
    return FunctionType(caller.__code__.replace(), caller.__globals__, caller.__name__, None, caller.__closure__)


def _recorded(name: str, function: Callable[..., Number]) -> staticmethod[..., Traced]:
    """The function on values; its result remembers the arguments."""
    return staticmethod(lambda *args: Traced(function(*map(num.value, args)), name, args))


class _Namespace:
    """Functions that `num` calls for traced numbers."""

    maximum = _recorded("max", lambda a, b: a if a >= b else b)
    minimum = _recorded("min", lambda a, b: a if a <= b else b)
    where = _recorded("where", lambda condition, a, b: a if condition else b)
    ceil = _recorded("ceil", lambda a: float(math.ceil(a)))
    floor = _recorded("floor", lambda a: float(math.floor(a)))
    sqrt = _recorded("sqrt", math.sqrt)
    log = _recorded("ln", math.log)


Operator = Callable[["Traced", Number], "Traced"]


def _binary(symbol: str, function: Callable[[Number, Number], Number]) -> tuple[Operator, Operator]:
    def forward(self: Traced, other: Number) -> Traced:
        return Traced(function(self.value, num.value(other)), symbol, (self, other))

    def backward(self: Traced, other: Number) -> Traced:
        return Traced(function(num.value(other), self.value), symbol, (other, self))

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
        value: Number,
        op: str,
        args: tuple[Number, ...] = (),
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
    __eq__, _ = _binary("==", operator.eq)  # type: ignore[assignment]
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


def leaf(symbol: str, value: Number, unit: str, source: str) -> Traced:
    """A traced input: `source` is file:line and citation, or the flag it came from."""
    return Traced(value, "leaf", (), symbol, unit, source)


def label(number: Number, symbol: str, unit: str = "s") -> Number:
    """The same number under a more telling symbol in explanations; free for plain numbers. `unit` is for plain sums."""
    if number.__class__ is not Traced:
        return number
    if number.op in ("leaf", "formula"):
        return Traced(number.value, number.op, number.args, symbol, number.unit, number.source, number.name)
    return Traced(number.value, "formula", (number,), symbol, unit)


def decreasing_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function of a positive number crosses zero, by bisection of its logarithm."""
    a, b = math.log(low), math.log(high)
    for _ in range(200):
        middle = (a + b) / 2
        if middle in (a, b):
            break
        a, b = (middle, b) if function(math.exp(middle)) > 0 else (a, middle)
    return math.exp((a + b) / 2)


def solved_value(value: float, like: Any, symbol: str, unit: str, how: str) -> Any:
    """A number found by search, of the kind of `like`: a traced one says how it was found."""
    return leaf(symbol, value, unit, how) if num.value(like) is not like else value
