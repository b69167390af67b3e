"""One text of a formula serves floats, numpy arrays, traced numbers and symbols; here all of them must agree."""

from __future__ import annotations

import inspect

import numpy
import pytest

from rooflinecli.core.derivation import FORMULAS, Traced, leaf
from rooflinecli.formulas import all_formulas

MODULES = {"scaling", "serving", "speculation", "occupancy", "textbook"}
all_formulas()
MINE = sorted(
    name
    for name, entry in FORMULAS.items()
    if entry.module.rpartition(".")[2] in MODULES
    and name != "open_loop_itl"  # whose load is below 1, and which iterates
    and name != "matmul_critical_rows"  # whose bandwidth is far below its peak
)
# legal values where "any positive number" is not: three samples per parameter
LEGAL = {
    "acceptance": (0.3, 0.8, 1.0),
    "loss": (2.5, 3.0, 4.0),
    "alpha": (0.34, 0.3478, 0.336),
    "beta": (0.28, 0.3658, 0.283),
    "e": (1.69, 1.8172, 1.6934),
    "a": (406.4, 482.01, 400.0),
    "b": (410.7, 2085.43, 400.0),
    "params": (1e9, 7e9, 7e10),
    "tokens": (1e11, 2e12, 1.5e13),
    "flops": (1e21, 1e22, 1e25),
    "exponent": (0.076, 0.21, 0.05),
    "utilization": (0.5, 0.7, 1.0),
    "hit_rate": (0.0, 0.5, 1.0),
    "removed": (0.5, 1.0, 2.0),
    "total": (3.0, 4.0, 9.0),
    "chain_longest": (1.0, 2.0, 3.0),
    "threshold": (0.6, 0.6, 0.6),
    "compute_share": (0.05, 0.5, 0.9),
    "bandwidth_share": (0.4, 0.7, 0.1),
    "steps": (30.0, 50.0, 70.0),
    "steps_min": (10.0, 20.0, 30.0),
    "big_batch": (64.0, 512.0, 4096.0),
    "small_batch": (8.0, 16.0, 32.0),
    "shared": (0.0, 100.0, 512.0),
    "load": (0.2, 0.5, 0.9),
    "before": (1.0, 2.0, 3.0),
    "within": (2.0, 4.0, 8.0),
    "prompt": (1024.0, 2048.0, 4096.0),
}
ANY = (3.0, 64.0, 700.0)


def samples(name: str) -> list[dict[str, float]]:
    parameters = inspect.signature(FORMULAS[name].function).parameters
    return [{p: LEGAL.get(p, ANY)[i] for p in parameters} for i in range(3)]


def call(name: str):
    entry = FORMULAS[name]
    return getattr(__import__(entry.module, fromlist=[name]), name)


@pytest.mark.parametrize("name", MINE)
def test_an_array_equals_its_scalars(name):
    points = samples(name)
    arrays = {p: numpy.array([point[p] for point in points]) for p in points[0]}
    got, want = call(name)(*arrays.values()), [call(name)(*point.values()) for point in points]
    powers = FORMULAS[name].body.count("**")  # numpy rounds a power by up to 2 ulp, and later powers stretch that
    numpy.testing.assert_array_max_ulp(
        numpy.asarray(got, dtype=float), numpy.array(want, dtype=float), maxulp=2 * powers**2
    )


def test_a_traced_number_has_the_bits_of_the_float_and_never_branches():
    for name, point in ((each, point) for each in MINE for point in samples(each)):
        traced = call(name)(*(leaf(p, v, "1", "test") for p, v in point.items()))
        assert isinstance(traced, Traced), name
        assert traced.value == call(name)(*point.values()), name


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", MINE)
def test_symbols_evaluate_to_the_float(name):
    import sympy

    for point in samples(name):
        symbols = {p: sympy.Symbol(p, positive=True) for p in point}
        expression = sympy.sympify(call(name)(*symbols.values()))
        got = expression.subs({symbols[p]: sympy.Float(v, 40) for p, v in point.items()})
        want = call(name)(*point.values())
        assert bool(got) is want if isinstance(want, bool) else float(got) == pytest.approx(want, rel=1e-9)


def test_each_says_what_it_is_and_where_it_is_from():
    for name in MINE:
        entry = FORMULAS[name]
        assert entry.doc.splitlines()[0].endswith((".", ").")), name
        assert entry.source and entry.unit and entry.symbol, name


def test_no_formula_of_these_modules_is_left_out():
    assert len(MINE) > 60
