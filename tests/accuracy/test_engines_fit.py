"""The refit of engines with few runs: it finds factors that are known, leaves out what it says, and asks for what ships."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.validate import fit_sparse_engines
from rooflinecli.validate.fit_sparse_engines import FITTED, Runs


def made(point, models=("a", "a", "b", "b", "c", "c")):
    """Runs whose misses are all due to constants that are off by the factors of a point, and known slopes."""
    slopes = np.array([[0.1, 0.8], [0.7, 0.2], [0.3, 0.5], [0.9, 0.1], [0.2, 0.6], [0.5, 0.5]])
    return Runs(np.array(models), -slopes @ np.array(point), slopes, np.full(6, 0.3))


@settings(deadline=None, max_examples=10)
@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_factors_that_explain_everything_are_found_whoever_is_left_out(first, second):
    runs = made((first, second))
    assert runs.fit(np.ones(6, dtype=bool)) == pytest.approx([first, second], abs=0.04)
    assert runs.without() == pytest.approx(np.zeros(6), abs=0.04)


def test_a_model_of_its_own_is_not_learnt_from():
    runs = made((0.0, 0.0))
    runs.missed[4:] = 0.2  # model c alone is a fifth slower than said
    assert runs.without()[4:] == pytest.approx([0.2, 0.2], abs=1e-3)
    assert abs(runs.errors(runs.fit(np.ones(6, dtype=bool)))[4:]).mean() < 0.2


@pytest.mark.parametrize("engine", sorted(FITTED))
def test_the_runs_ask_for_what_ships(engine):
    here, _, paths = FITTED[engine]
    runs = fit_sparse_engines.gather(here, paths)
    assert np.exp(runs.fit(np.ones(len(runs.missed), dtype=bool))) == pytest.approx(np.ones(len(paths)), abs=0.07)
    assert np.abs(np.expm1(runs.without())).mean() < 0.16
