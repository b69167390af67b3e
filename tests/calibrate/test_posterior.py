"""Distributions and weights of a calibration against tables and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rooflinecli.calibrate import phase_fit, posterior
from rooflinecli.calibrate.posterior import SETTINGS, ConstantGroup, Posterior, _paths


@pytest.mark.parametrize(
    "freedom, quantile", [(4, 1.533206), (5, 1.475884), (10, 1.372184), (30, 1.310415), (1e9, 1.281552)]
)
def test_the_quantile_of_a_t_distribution_is_that_of_tables(freedom: float, quantile: float) -> None:
    assert posterior.student(freedom) == pytest.approx(quantile, rel=2e-3 if freedom < 6 else 2e-4)


def test_the_density_is_one_in_all_and_its_logarithm_is_that_of_a_t_with_four_degrees() -> None:
    at = np.linspace(-20, 20, 40_001)
    assert np.exp(posterior.log_density(at, 0.1)).sum() * 0.001 == pytest.approx(1, rel=1e-4)
    x, sigma = 0.3, 0.1
    constant = math.gamma(2.5) / (math.gamma(2) * math.sqrt(4 * math.pi) * sigma)
    assert posterior.log_density(np.array([x]), sigma)[0] == pytest.approx(math.log(constant * (1 + 9 / 4) ** -2.5))
    rows = np.array([0.1, -0.2, 0.4])
    assert posterior.log_likelihood(rows, sigma) == pytest.approx(sum(posterior.log_density(rows, sigma)))


def test_a_row_that_is_far_off_loses_weight() -> None:
    assert posterior.weights(np.array([0.0, 0.1, 0.4]), 0.1).tolist() == pytest.approx([5 / 4, 1.0, 5 / 20])


def test_an_error_of_80_per_cent_is_so_many_deviations_of_a_logarithm() -> None:
    """Nine of ten normal deviates are below 1.2816."""
    group = ConstantGroup("g", 0.25, ("efficiency.matmul.compute", "engine.per_step"))
    assert group.deviation == pytest.approx(math.log(1.25) / 1.281552, rel=1e-6)
    slower = group.factors(math.log(2.0))
    assert slower == {"efficiency.matmul.compute": pytest.approx(0.5), "engine.per_step": pytest.approx(2.0)}
    assert _paths("matmul gather .memory") == ("efficiency.matmul.memory", "efficiency.gather.memory")
    assert _paths("engine .per_step front") == ("engine.per_step", "engine.front")


def fit(**changed: object) -> Posterior:
    block = ConstantGroup("g", 0.25, ("engine.per_step",))
    base = Posterior(
        "decode", (block,), np.array([0.2]), np.array([[0.01]]), np.array([0.05, -0.05]), np.array([0.25, 0.15]), np.array([[1.0], [0.5]]),
        replace(SETTINGS["decode"], width=2.0, spread=0.1, kappa=1.5, least=0.5), evidence=1.0,
    )  # fmt: skip
    return replace(base, **changed)  # type: ignore[arg-type]


def test_moved_constants_are_taken_where_the_evidence_favors_them() -> None:
    assert fit().supported and fit().taken.tolist() == [0.2] and fit(share=0.5).taken.tolist() == [0.1]
    assert fit().kept.tolist() == [0.05, -0.05]
    assert (
        not fit(evidence=0.5).supported
        and fit(evidence=0.5).taken.tolist() == [0]
        and fit(evidence=0.5).kept.tolist() == [0.25, 0.15]
    )
    prior = 2.0 * math.log(1.25) / 1.2815516
    assert fit().prior.tolist() == pytest.approx([prior]) and fit().contraction.tolist() == pytest.approx(
        [1 - 0.01 / prior**2]
    )


def test_the_width_of_a_further_row() -> None:
    """Four assumed rows of the spread and those that were seen, weighed; then the parameters' part and a t quantile of six degrees."""
    weighed = 2 * 0.05**2  # within the spread each weighs one
    scale = math.sqrt((4 * 0.01 + weighed) / 6)
    assert fit().scale == pytest.approx(scale)
    half = [1.5 * 1.439756 * math.sqrt(scale**2 + slope**2 * 0.01) for slope in (1.0, 0.5)]
    assert fit().half_width(fit().slopes).tolist() == pytest.approx(half, rel=1e-3)
    assert fit().error == pytest.approx(math.expm1(sum(half) / 2), rel=2e-3)
    unmoved = fit(share=0.0).scale  # rows as far off as before, of which the first weighs 5 / (4 + 6.25)
    assert unmoved == pytest.approx(math.sqrt((0.04 + 5 / 10.25 * 0.25**2 + 5 / 6.25 * 0.15**2) / 6))


def test_a_single_row_cannot_tell_what_it_gains() -> None:
    one = fit(residuals=np.array([0.1]), before=np.array([0.3]), slopes=np.array([[1.0]]))
    assert phase_fit.with_share(one, np.zeros((1, 2))).share == 1.0
    two = phase_fit.with_share(fit(before=np.array([0.3, 0.3]), slopes=np.array([[1.0], [1.0]])), np.zeros((2, 2)))
    assert 0 < two.share < 1  # each predicts the other
    against = phase_fit.with_share(fit(before=np.array([0.3, -0.3]), slopes=np.array([[1.0], [1.0]])), np.zeros((2, 2)))
    assert against.share == 0


def test_evidence_is_the_difference_of_two_normal_likelihoods() -> None:
    residual, noise = np.array([0.1, 0.2]), np.array([0.01, 0.04])
    covariance = np.array([[0.03, 0.02], [0.02, 0.06]])

    def normal(cov: np.ndarray) -> float:
        return float(-0.5 * residual @ np.linalg.inv(cov) @ residual - 0.5 * math.log(np.linalg.det(cov)))

    assert phase_fit.log_evidence(residual, covariance, noise) == pytest.approx(
        normal(covariance) - normal(np.diag(noise))
    )
