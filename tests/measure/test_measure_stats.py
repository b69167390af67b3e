"""Order statistics and errors against numbers worked out by hand."""

import math
import random

import pytest

from rooflinecli.core.num import quantile
from rooflinecli.measure.timing import errors, summarize


def test_quantiles_interpolate():
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([1.0, 2.0, 3.0], 0.1) == pytest.approx(1.2)


def test_summary_of_a_known_sample():
    s = summarize([10.0, 11.0, 12.0, 13.0, 100.0])
    assert (s.n, s.median, s.mad, s.outliers) == (5, 12.0, 1.0, 1)
    assert s.median_low <= s.median <= s.median_high


def test_empty_sample_is_refused():
    with pytest.raises(ValueError):
        summarize([])


def test_interval_covers_the_median_about_as_often_as_it_says():
    rng = random.Random(3)
    covered = 0
    for _ in range(400):
        s = summarize([rng.expovariate(1.0) for _ in range(25)])
        covered += s.median_low <= math.log(2) <= s.median_high
    assert 0.93 <= covered / 400 <= 0.995


def test_errors_are_relative_to_the_measurement():
    median, p90 = errors([1.1, 2.0, 2.7], [1.0, 2.0, 3.0])
    assert median == pytest.approx(0.1) and p90 == pytest.approx(0.1)
    assert math.isnan(errors([], [])[0])
