"""Scaling laws: how loss, size, tokens and compute go together, and the optimum each law implies; batch and learning rate by gradient noise."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_HOFFMANN = "Hoffmann et al. 2022, Training Compute-Optimal Large Language Models"
_KAPLAN = "Kaplan et al. 2020, Scaling Laws for Neural Language Models"
_SARDANA = "Sardana et al. 2024, Beyond Chinchilla-Optimal"
_DEFINITION = "definition"
TOKENS_PER_PARAM = 20.0  # Hoffmann et al. 2022, approaches 1 and 2


@formula("D*", "tokens", _HOFFMANN + ", approaches 1 and 2: about 20 tokens per parameter")
def chinchilla_tokens(params: Number, tokens_per_param: Number) -> Number:
    """Compute-optimal training tokens of a model by the tokens-per-parameter rule."""
    return params * tokens_per_param


@formula("N*", "params", _HOFFMANN + "; C = 6 N D with D = r N")
def chinchilla_params(flops: Number, tokens_per_param: Number) -> Number:
    """Compute-optimal size for a training budget by the tokens-per-parameter rule."""
    return num.sqrt(flops / (6 * tokens_per_param))


@formula("N*", "params", _HOFFMANN + "; D = r N")
def chinchilla_params_for_tokens(tokens: Number, tokens_per_param: Number) -> Number:
    """Size for which a given number of tokens is compute-optimal by the tokens-per-parameter rule."""
    return tokens / tokens_per_param


@formula("D", "tokens", "C = 6 N D solved for D; N is what a token passes through, the active parameters of a mixture of experts")  # fmt: skip
def tokens_for_budget(flops: Number, active_params: Number) -> Number:
    """Training tokens that a FLOP budget pays for."""
    return flops / (6 * active_params)


@formula("L", "nats/token", _HOFFMANN + ", equation 10")
def parametric_loss(
    params: Number, tokens: Number, e: Number, a: Number, b: Number, alpha: Number, beta: Number
) -> Number:
    """Loss as irreducible entropy plus a term for finite size and one for finite data: E + A/N^alpha + B/D^beta."""
    return e + a / params**alpha + b / tokens**beta


@formula("G", "1", _HOFFMANN + ", equation 4")
def parametric_balance(a: Number, b: Number, alpha: Number, beta: Number) -> Number:
    """The constant G of the parametric optimum, (alpha A / (beta B))^(1/(alpha+beta))."""
    return (alpha * a / (beta * b)) ** (1 / (alpha + beta))


@formula("N*", "params", _HOFFMANN + ", equation 4")
def parametric_params(flops: Number, a: Number, b: Number, alpha: Number, beta: Number) -> Number:
    """Size that minimizes the parametric loss within a training budget of 6 N D FLOPs."""
    return parametric_balance(a, b, alpha, beta) * (flops / 6) ** (beta / (alpha + beta))


@formula("D*", "tokens", _HOFFMANN + ", equation 4: alpha A / N^alpha = beta B / D^beta at the optimum")
def parametric_tokens(params: Number, a: Number, b: Number, alpha: Number, beta: Number) -> Number:
    """Tokens that make a given size compute-optimal under the parametric loss."""
    return (beta * b * params**alpha / (alpha * a)) ** (1 / beta)


@formula("N*", "params", _HOFFMANN + ", equation 4: alpha A / N^alpha = beta B / D^beta at the optimum")
def parametric_params_for_tokens(tokens: Number, a: Number, b: Number, alpha: Number, beta: Number) -> Number:
    """Size for which a given number of tokens is compute-optimal under the parametric loss."""
    return (alpha * a * tokens**beta / (beta * b)) ** (1 / alpha)


@formula("D", "tokens", _HOFFMANN + ", equation 10 solved for D; " + _SARDANA + ", section 2")
def tokens_at_loss(
    params: Number, loss: Number, e: Number, a: Number, b: Number, alpha: Number, beta: Number
) -> Number:
    """Training tokens at which a model of a given size reaches a loss; the loss must exceed E + A/N^alpha."""
    return (b / (loss - e - a / params**alpha)) ** (1 / beta)


@formula("L_N", "nats/token", _HOFFMANN + ", equation 10 with unlimited data")
def loss_limit(params: Number, e: Number, a: Number, alpha: Number) -> Number:
    """The loss a size approaches however long it trains."""
    return e + a / params**alpha


@formula("N_min", "params", _HOFFMANN + ", equation 10 with unlimited data, solved for N")
def least_params_for_loss(loss: Number, e: Number, a: Number, alpha: Number) -> Number:
    """Size below which a loss is out of reach however long the training."""
    return (a / (loss - e)) ** (1 / alpha)


@formula("s", "1", _SARDANA + ", section 2: d(6 N D + 2 N D_inf)/dN = 0 along a line of equal loss")
def lifetime_balance(
    params: Number, tokens: Number, served: Number, a: Number, b: Number, alpha: Number, beta: Number
) -> Number:
    """Zero where training plus inference FLOPs are least at equal loss; positive below that size."""
    return alpha * a / params**alpha / (beta * b / tokens**beta) - 1 - served / (3 * tokens)


@formula("C_life", "FLOP", _SARDANA + ", equation 2: 6 N D to train, 2 N per token served")
def lifetime_flops(training_flops: Number, inference_flops: Number) -> Number:
    """Training plus inference FLOPs over a model's life."""
    return training_flops + inference_flops


@formula("B_crit", "tokens", _KAPLAN + ", equation 1.4")
def kaplan_critical_batch(scale: Number, loss: Number, exponent: Number) -> Number:
    """Critical batch in tokens at a loss, B* / L^(1/alpha_B)."""
    return scale / loss ** (1 / exponent)


@formula("FLOP/$", "FLOP", "peak over price; JAX Scaling Book, chapter 8 lists FLOP/s over $/h")
def flops_per_usd(peak: Number, usd_per_hour: Number) -> Number:
    """FLOPs at peak that a dollar buys."""
    return peak * 3600 / usd_per_hour


@formula("r", "1", _DEFINITION)
def tokens_per_parameter(tokens: Number, params: Number) -> Number:
    """Training tokens per parameter."""
    return tokens / params


@formula("n", "devices", "training_time solved for the devices, rounded up")
def devices_for_deadline(flops: Number, seconds: Number, peak: Number, mfu: Number) -> Number:
    """Devices that finish a number of FLOPs in time."""
    return num.ceil(flops / (seconds * peak * mfu))


@formula("h", "device-hours", _DEFINITION)
def device_hours(devices: Number, seconds: Number) -> Number:
    """Device-hours of a run."""
    return devices * seconds / 3600


@formula("d", "days", _DEFINITION)
def days(seconds: Number) -> Number:
    """Seconds as days."""
    return seconds / 86400


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


@formula("T*", "s", "kappa E + sigma S at its least, (sqrt(kappa E_min) + sqrt(sigma S_min))^2; " + _NOISE + ", appendix D")  # fmt: skip
def shortest_training_time(
    examples_min: Number, steps_min: Number, seconds_per_example: Number, seconds_per_step: Number
) -> Number:
    """Least time to a target loss over all batch sizes."""
    root = num.sqrt(seconds_per_example * examples_min) + num.sqrt(seconds_per_step * steps_min)
    return root * root
