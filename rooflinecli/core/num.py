"""maximum, minimum, where, ceil, floor, sqrt over any kind of number: float, numpy, jax, pint, sympy or a traced number.

Formulas call these instead of `max` or `if`, so that one text serves a scalar, a sweep and an explanation. Each kind
names its own namespace; the plain-float path stays first because it is the one that runs most.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

Number = Any  # float | int | numpy.ndarray | Traced | pint.Quantity | sympy.Expr | jax.Array
INF = math.inf
E = math.e  # any kind of number may be its exponent
_PLAIN = (float, int, bool)
_BARE = frozenset(_PLAIN)  # nearly always one of these itself, and a set is asked sooner than a type about its bases


def _namespace(*values: Number) -> Any:
    """The module of functions that understands all of `values`; the most demanding kind wins."""
    return _of(*map(type, values))


@cache
def _of(*kinds: type) -> Any:
    """The same by their types, of which a run meets few."""
    for kind in kinds:
        space = getattr(kind, "__roofline_num__", None)
        if space is not None:
            return space
    roots = {kind.__module__.partition(".")[0] for kind in kinds}
    if "sympy" in roots:
        return _SymPy
    if "jax" in roots or "jaxlib" in roots:
        return sys.modules["jax.numpy"]
    import numpy

    return numpy


class _SymPy:
    """sympy's names for the same functions; used by the tests that prove identities."""

    maximum = staticmethod(lambda a, b: sys.modules["sympy"].Max(a, b))
    minimum = staticmethod(lambda a, b: sys.modules["sympy"].Min(a, b))
    where = staticmethod(lambda condition, a, b: sys.modules["sympy"].Piecewise((a, condition), (b, True)))
    ceil = staticmethod(lambda a: sys.modules["sympy"].ceiling(a))
    floor = staticmethod(lambda a: sys.modules["sympy"].floor(a))
    sqrt = staticmethod(lambda a: sys.modules["sympy"].sqrt(a))
    log = staticmethod(lambda a: sys.modules["sympy"].log(a))


def maximum(a: Number, b: Number) -> Number:
    if a.__class__ is b.__class__ is float:  # nearly always, and a class is found sooner than asked about
        return a if a >= b else b
    if isinstance(a, _PLAIN) and isinstance(b, _PLAIN):
        return a if a >= b else b
    return _namespace(a, b).maximum(a, b)


def minimum(a: Number, b: Number) -> Number:
    if a.__class__ is b.__class__ is float:
        return a if a <= b else b
    if isinstance(a, _PLAIN) and isinstance(b, _PLAIN):
        return a if a <= b else b
    return _namespace(a, b).minimum(a, b)


def where(condition: Number, a: Number, b: Number) -> Number:
    """`a` where `condition` holds, else `b`; both are computed, so both must be finite for every legal input."""
    if condition.__class__ is bool or isinstance(condition, _PLAIN):
        return a if condition else b
    return _namespace(condition, a, b).where(condition, a, b)


def ceil(a: Number) -> Number:
    if a.__class__ is float or isinstance(a, _PLAIN):
        return float(math.ceil(a))
    return _namespace(a).ceil(a)


def floor(a: Number) -> Number:
    if a.__class__ is float or isinstance(a, _PLAIN):
        return float(math.floor(a))
    return _namespace(a).floor(a)


def sqrt(a: Number) -> Number:
    if isinstance(a, _PLAIN):
        return math.sqrt(a)
    return _namespace(a).sqrt(a)


def log(a: Number) -> Number:
    if isinstance(a, _PLAIN):
        return math.log(a)
    return _namespace(a).log(a)


def value(a: Number) -> Number:
    """The bare number inside a traced one; anything else unchanged. For decisions about structure, never in formulas."""
    if a.__class__ in _BARE:  # asking a float for an attribute that it lacks is slow
        return a
    return a.value if hasattr(a, "__roofline_num__") else a


def single(a: Number) -> Number:
    """To the digits of single precision, in which numbers that differ by rounding alone are equal: for rankings."""
    if hasattr(a, "astype"):
        return a.astype("float32")
    return struct.unpack("f", struct.pack("f", a))[0] if abs(a) < 1e38 else a


def rounded_up(a: float) -> float:
    """To three digits: a limit that a value keeps to."""
    step = 10.0 ** (math.floor(math.log10(a)) - 2)
    return math.ceil(a / step * (1 - 1e-9)) * step


def plain(a: Number) -> bool:
    """True for a scalar (float, int or a traced scalar): something that may raise instead of masking."""
    return a.__class__ in _BARE or isinstance(value(a), _PLAIN)


def present(a: Number) -> bool:
    """Whether a term with this coefficient exists at all: not zero, or in an array not zero everywhere. Structure, never a formula."""
    if a.__class__ in _BARE:
        return bool(a)
    bare = value(a)
    return bool(bare) if isinstance(bare, _PLAIN) else bool((bare != 0).any())


def quantile(ordered: Sequence[float], q: float) -> float:
    """Linear-interpolation quantile of an already sorted, non-empty sample."""
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Return the divisors of n in ascending order; above 2^32, only those that, or whose cofactor, are at most 2^16."""
    low = [d for d in range(1, min(math.isqrt(n), 2**16) + 1) if n % d == 0]
    return tuple(dict.fromkeys([*low, *(n // d for d in reversed(low))]))


def one(size: Number) -> bool:
    """Whether a size is the scalar 1, by which nothing is split."""
    if size.__class__ in _BARE:
        return bool(size == 1)
    return plain(size) and bool(value(size) == 1)
