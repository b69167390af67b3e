"""The batch of a training run: gradient noise scale, steps against examples, learning rates that follow the batch."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_NOISE = "McCandlish et al. 2018, An Empirical Model of Large-Batch Training"


@formula("B_crit", "examples", _NOISE + ", equation 2.12")
def critical_batch_size(examples_min: Number, steps_min: Number) -> Number:
    """Batch where a run needs twice the least steps and twice the least examples: E_min / S_min."""
    return examples_min / steps_min


@formula("S", "steps", _NOISE + ", equation 2.11: (S/S_min - 1)(E/E_min - 1) = 1 with E = B S")
def steps_at_batch(batch: Number, steps_min: Number, critical: Number) -> Number:
    """Optimizer steps to a target loss at a batch size."""
    return steps_min * (1 + critical / batch)


@formula("E", "examples", _NOISE + ", equation 2.11: (S/S_min - 1)(E/E_min - 1) = 1 with E = B S")
def examples_at_batch(batch: Number, examples_min: Number, critical: Number) -> Number:
    """Training examples to a target loss at a batch size."""
    return examples_min * (1 + batch / critical)


@formula("E", "examples", _NOISE + ", equation 2.11 solved for E")
def examples_at_steps(steps: Number, steps_min: Number, examples_min: Number) -> Number:
    """Examples to a target loss when it is reached in a given number of steps; steps must exceed the least."""
    return examples_min * (1 + 1 / (steps / steps_min - 1))


@formula("T", "s", "time proportional to examples plus a fixed cost per step; " + _NOISE + ", appendix D")
def training_time_at_batch(
    examples: Number, steps: Number, seconds_per_example: Number, seconds_per_step: Number
) -> Number:
    """Training time as kappa E + sigma S."""
    return seconds_per_example * examples + seconds_per_step * steps


@formula("B*", "examples", "kappa E + sigma S minimized on the steps-examples hyperbola; " + _NOISE + ", appendix D")
def time_optimal_batch(
    examples_min: Number, steps_min: Number, seconds_per_example: Number, seconds_per_step: Number
) -> Number:
    """Batch that reaches a target loss soonest: sqrt(sigma E_min / (kappa S_min))."""
    return num.sqrt(seconds_per_step * examples_min / (seconds_per_example * steps_min))


@formula(
    "T*", "s", "kappa E + sigma S at its least, (sqrt(kappa E_min) + sqrt(sigma S_min))^2; " + _NOISE + ", appendix D"
)
def shortest_training_time(
    examples_min: Number, steps_min: Number, seconds_per_example: Number, seconds_per_step: Number
) -> Number:
    """Least time to a target loss over all batch sizes."""
    root = num.sqrt(seconds_per_example * examples_min) + num.sqrt(seconds_per_step * steps_min)
    return root * root


@formula("|G|^2", "1", _NOISE + ", appendix A.1")
def gradient_norm_squared(small_batch: Number, small_norm2: Number, big_batch: Number, big_norm2: Number) -> Number:
    """Unbiased squared norm of the true gradient from the gradient norms at two batch sizes."""
    return (big_batch * big_norm2 - small_batch * small_norm2) / (big_batch - small_batch)


@formula("tr(Sigma)", "1", _NOISE + ", appendix A.1")
def gradient_variance(small_batch: Number, small_norm2: Number, big_batch: Number, big_norm2: Number) -> Number:
    """Unbiased trace of the per-example gradient covariance from the gradient norms at two batch sizes."""
    return (small_norm2 - big_norm2) * small_batch * big_batch / (big_batch - small_batch)


@formula("B_simple", "examples", _NOISE + ", equation 2.9")
def noise_scale(variance: Number, norm2: Number) -> Number:
    """The simple gradient noise scale tr(Sigma) / |G|^2, an estimate of the critical batch."""
    return variance / norm2


@formula("eta", "1", "variance of the update kept constant; Krizhevsky 2014, One weird trick; usual for Adam")
def learning_rate_sqrt(rate: Number, batch: Number, new_batch: Number) -> Number:
    """Learning rate scaled by the square root of the batch."""
    return rate * num.sqrt(new_batch / batch)


@formula("eta", "1", "Goyal et al. 2017, Accurate, Large Minibatch SGD; usual for SGD, with warm-up")
def learning_rate_linear(rate: Number, batch: Number, new_batch: Number) -> Number:
    """Learning rate scaled in proportion to the batch."""
    return rate * (new_batch / batch)


@formula("eta_opt", "1", _NOISE + ", equation 2.6")
def learning_rate_noise(rate_max: Number, noise: Number, batch: Number) -> Number:
    """Best learning rate at a batch, eta_max / (1 + B_noise / B)."""
    return rate_max / (1 + noise / batch)


@formula("eta_max", "1", _NOISE + ", equation 2.6 solved for eta_max")
def learning_rate_ceiling(rate: Number, noise: Number, batch: Number) -> Number:
    """The learning rate that a rate tuned at one batch tends to for very large batches."""
    return rate * (1 + noise / batch)
