"""The refit of engines with few runs: it finds factors that are known, leaves out what it says, and asks for what ships."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import fit_sparse_engines
from lab.fit_serving import Linear
from lab.fit_sparse_engines import FITTED

ALL = np.ones(6, dtype=bool)
MODELS = np.array(["a", "a", "b", "b", "c", "c"])


def made(point):
    """Runs whose misses are all due to constants that are off by the factors of a point, and known slopes."""
    slopes = np.array([[0.1, 0.8], [0.7, 0.2], [0.3, 0.5], [0.9, 0.1], [0.2, 0.6], [0.5, 0.5]])
    return Linear(("first", "second"), -slopes @ np.array(point), slopes, 1.0, 0.0)


@settings(deadline=None, max_examples=10)
@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_factors_that_explain_everything_are_found_whoever_is_left_out(first, second):
    runs = made((first, second))
    assert runs.fit(ALL) == pytest.approx([first, second], abs=1e-3)
    assert runs.left_out(MODELS) == pytest.approx(np.zeros(6), abs=1e-3)


def test_a_model_of_its_own_is_not_learnt_from():
    runs = made((0.0, 0.0))
    runs.missed[4:] = 0.2  # model c alone is a fifth slower than predicted
    assert runs.left_out(MODELS)[4:] == pytest.approx([0.2, 0.2], abs=1e-3)
    assert abs(runs.errors(runs.fit(ALL))[4:]).mean() < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("engine", sorted(FITTED))
def test_the_runs_ask_for_what_ships(engine):
    here, _, paths = FITTED[engine]
    runs, models, _ = fit_sparse_engines.gather(here, paths)
    assert np.exp(runs.fit(np.ones(len(models), dtype=bool))) == pytest.approx(np.ones(len(paths)), abs=0.07)
    assert np.abs(np.expm1(runs.left_out(models))).mean() < 0.16
