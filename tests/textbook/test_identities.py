"""Optima and solved forms against what defines them: derivatives by sympy, brute force, round trips."""

from __future__ import annotations

import pytest

from rooflinecli.formulas import scaling, textbook
from rooflinecli.formulas import scaling as law
from rooflinecli.questions.scaling.question import FITS, InferenceAware


@pytest.fixture(scope="module")
def sympy():
    """Imported where it is used; a second is long for the tests that need none of it."""
    import sympy

    return sympy


@pytest.fixture(scope="module")
def symbols(sympy):
    return sympy.symbols("N D C E A B alpha beta", positive=True)


@pytest.mark.slow
def test_the_parametric_optimum_has_no_slope(sympy, symbols):
    """d/dN of the loss along 6 N D = C vanishes at the closed form."""
    N, _, C, E, A, B, alpha, beta = symbols
    slope = sympy.diff(law.parametric_loss(N, C / (6 * N), E, A, B, alpha, beta), N)
    at = slope.subs(N, law.parametric_params(C, A, B, alpha, beta))
    for fit in FITS.values():
        numbers = {C: 1e23, A: fit.a, B: fit.b, alpha: fit.alpha, beta: fit.beta}
        size = float(law.parametric_params(1e23, *fit.slopes))
        assert abs(float(at.subs(numbers))) * size < 1e-9


def test_size_and_tokens_of_the_optimum_are_each_others_inverse():
    for fit in FITS.values():
        tokens = law.parametric_tokens(7e9, *fit.slopes)
        assert law.parametric_params_for_tokens(tokens, *fit.slopes) == pytest.approx(7e9)
        assert law.parametric_params(6 * 7e9 * tokens, *fit.slopes) == pytest.approx(7e9)


@pytest.mark.slow
def test_lifetime_balance_is_the_derivative_of_the_lifetime_cost(sympy, symbols):
    """Implicit differentiation along equal loss: dC/dN = 6 D + 2 D_inf + 6 N dD/dN is -6 D times the balance."""
    N, D, _, E, A, B, alpha, beta = symbols
    served = sympy.Symbol("S", positive=True)
    loss = law.parametric_loss(N, D, E, A, B, alpha, beta)
    along = -sympy.diff(loss, N) / sympy.diff(loss, D)
    slope = 6 * D + 2 * served + 6 * N * along
    balance = law.lifetime_balance(N, D, served, A, B, alpha, beta)
    assert sympy.simplify(slope + 6 * D * balance) == 0


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("served", [1e9, 2e12, 1e15])
def test_the_inference_aware_optimum_beats_a_fine_grid(fit, served):
    answer = InferenceAware(tokens_served=served, params=13e9, fit=fit).answer()
    best, one = answer["options"]["inference_aware"], FITS[fit]
    least = law.least_params_for_loss(answer["loss"], one.e, one.a, one.alpha)
    for step in range(1, 4000):
        params = least * 1.002**step
        tokens = law.tokens_at_loss(params, answer["loss"], *one.all)
        assert 6 * params * tokens + 2 * params * served >= best["lifetime_flops"] * (1 - 1e-12)


def test_nothing_served_is_the_compute_optimum():
    options = InferenceAware(tokens_served=0.0, params=13e9).answer().options
    assert options["inference_aware"]["params"] == pytest.approx(13e9, rel=1e-9)
    assert options["compute_optimal"]["params"] == pytest.approx(13e9, rel=1e-9)


def test_the_time_optimal_batch_has_no_slope(sympy):
    b, e_min, s_min, kappa, sigma = sympy.symbols("B E_min S_min kappa sigma", positive=True)
    critical = scaling.critical_batch_size(e_min, s_min)
    time = scaling.training_time_at_batch(
        scaling.examples_at_batch(b, e_min, critical),
        scaling.steps_at_batch(b, s_min, critical),
        kappa,
        sigma,
    )
    at = scaling.time_optimal_batch(e_min, s_min, kappa, sigma)
    assert sympy.simplify(sympy.diff(time, b).subs(b, at)) == 0
    assert sympy.simplify(time.subs(b, at) - scaling.shortest_training_time(e_min, s_min, kappa, sigma)) == 0


def test_steps_and_examples_lie_on_the_hyperbola(sympy):
    b, e_min, s_min = sympy.symbols("B E_min S_min", positive=True)
    critical = scaling.critical_batch_size(e_min, s_min)
    steps, examples = (
        scaling.steps_at_batch(b, s_min, critical),
        scaling.examples_at_batch(b, e_min, critical),
    )
    assert sympy.simplify((steps / s_min - 1) * (examples / e_min - 1)) == 1
    assert sympy.simplify(examples - b * steps) == 0
    assert sympy.simplify(textbook.examples_at_steps(steps, s_min, e_min) - examples) == 0


def test_the_noise_scale_is_recovered_from_the_gradient_norms_it_predicts(sympy):
    """E|G_B|^2 = |G|^2 + tr(Sigma)/B (McCandlish et al. 2018, appendix A.1)."""
    norm2, trace, b, big = sympy.symbols("g t b B", positive=True)
    seen = (b, norm2 + trace / b, big, norm2 + trace / big)
    assert sympy.simplify(textbook.gradient_norm_squared(*seen) - norm2) == 0
    assert sympy.simplify(textbook.gradient_variance(*seen) - trace) == 0


def test_the_noise_rule_lies_between_flat_and_linear():
    for scale in (1.0, 1e3, 1e9):
        top = textbook.learning_rate_ceiling(1e-3, scale, 100.0)
        moved = textbook.learning_rate_noise(top, scale, 400.0)
        assert 1e-3 <= moved <= textbook.learning_rate_linear(1e-3, 100.0, 400.0) * (1 + 1e-12)
