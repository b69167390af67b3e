"""One formula, any number: float, numpy, traced, and (where units are declared) pint agree; no formula branches on a number."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.core.derivation import Traced, formula, leaf
from rooflinecli.formulas import all_formulas

FORMULAS = all_formulas()


def test_formulas_are_listed_by_module_and_name():
    places = [(entry.module, name) for name, entry in FORMULAS.items()]
    assert places == sorted(places) and len({module for module, _ in places}) > 20


# arguments that must stay inside a range for the formula to mean anything
SHARES = {
    "efficiency",
    "mfu",
    "utilization",
    "fraction",
    "bubble",
    "acceptance",
    "overlap",
    "relative_error",
    "per_doubling",
    "draft_cost",
}


def sample(name: str, seed: float) -> float:
    """A legal value for an argument, by its name."""
    return 0.05 + 0.9 * seed if name in SHARES or name.endswith(("_share", "_fraction")) else 2.0 + 61.0 * seed


def arguments(entry) -> list[str]:
    return list(inspect.signature(entry.function).parameters)


def values(entry, seed: float) -> list[float]:
    return [sample(name, (seed * (i + 1) * 0.37) % 1.0) for i, name in enumerate(arguments(entry))]


def same(a: float, b: float) -> bool:
    """Bit for bit, or within 2 ulp where a power or a root is involved."""
    if isinstance(a, complex) or a != a:
        return a != a and b != b
    return a == b or abs(a - b) <= 2 * math.ulp(abs(a))


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", [n for n in sorted(FORMULAS) if arguments(FORMULAS[n])])
def test_scalar_numpy_and_traced_agree(name):
    entry = FORMULAS[name]
    for seed in (0.1, 0.31, 0.77, 0.93):
        args = values(entry, seed)
        try:
            plain = entry.function(*args)
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        if isinstance(plain, complex):  # outside the domain: a power of a negative number
            continue
        many = entry.function(*(np.array([a, a * 1.0]) for a in args))
        traced = entry.function(*(leaf(n, a, "1", "test") for n, a in zip(arguments(entry), args, strict=True)))
        assert same(float(plain), float(np.asarray(many).ravel()[0])), name
        assert isinstance(traced, Traced) and traced.value == plain, name


def test_formulas_have_a_source_a_unit_and_a_sentence():
    for name, entry in FORMULAS.items():
        assert len(entry.source) > 3 and entry.unit and entry.symbol and entry.doc.splitlines()[0].strip(), name
        assert "return" in entry.body, name


def test_a_branching_formula_is_caught():
    def bad(x):
        return 1 if x > 2 else 0

    with pytest.raises(TypeError, match="branched"):
        bad(leaf("x", 3.0, "1", "test"))


def test_two_homes_for_one_formula_are_caught():
    name = next(iter(FORMULAS))
    twin = type(lambda: 0)((lambda x: x).__code__, {}, name)
    with pytest.raises(ValueError, match="two formulas"):
        formula("x", "1", "test")(twin)


def test_integer_arrays_do_not_overflow_where_floats_would_not():
    from rooflinecli.formulas.counts import matmul_flops

    big = np.array([1 << 20], dtype=np.float64)
    assert matmul_flops(big, big, big)[0] == 2.0 * (1 << 60)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("matmul_flops", {"m": "", "k": "", "n": "flop"}),
        ("compute_time", {"flops": "flop", "peak": "flop/second"}),
        ("memory_time", {"bytes_moved": "byte", "bandwidth": "byte/second"}),
        ("ridge_point", {"peak": "flop/second", "bandwidth": "byte/second"}),
        ("effective_compute_time", {"flops": "flop", "peak": "flop/second", "efficiency": ""}),
        ("collective_floor", {"volume": "byte", "bandwidth": "byte/second"}),
        ("model_flops_utilization", {"model_flops": "flop", "seconds": "second", "devices": "", "peak": "flop/second"}),
    ],
)
def test_units_come_out_right(name, units):
    import pint

    registry = pint.UnitRegistry()
    registry.define("flop = [flop]")
    wanted = {"s": "second", "FLOP": "flop", "FLOP/B": "flop/byte", "1": ""}[FORMULAS[name].unit]
    result = FORMULAS[name].function(*(registry.Quantity(3.0, unit) for unit in units.values()))
    assert result.check(registry.Quantity(1.0, wanted).dimensionality)


def test_a_bandwidth_given_in_bytes_is_refused():
    import pint

    registry = pint.UnitRegistry()
    registry.define("flop = [flop]")
    compute = FORMULAS["compute_time"].function(registry.Quantity(3.0, "flop"), registry.Quantity(2.0, "flop/second"))
    wrong = FORMULAS["memory_time"].function(registry.Quantity(3.0, "byte"), registry.Quantity(2.0, "byte"))
    with pytest.raises(pint.DimensionalityError):
        FORMULAS["floor_time"].function(compute, wrong)


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3), st.floats(1.0, 8.0), st.floats(0, 1e-3))
def test_a_joined_time_is_never_below_either(a, b, p, overhead):
    from rooflinecli.formulas import roofline as f

    for t in (f.joined_norm(a, b, p, overhead), f.joined_max(a, b, overhead), f.joined_sum(a, b, overhead)):
        assert t >= max(a, b) + overhead - 1e-12 * max(a, b)
