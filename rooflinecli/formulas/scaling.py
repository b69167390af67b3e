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


@formula("L", "nats/token", _KAPLAN + ", equations 1.1 to 1.3; fitted on WebText2")
def kaplan_loss(scale: Number, quantity: Number, exponent: Number) -> Number:
    """Kaplan's power law (X_c / X)^alpha_X for parameters, tokens or compute, the other two not limiting."""
    return (scale / quantity) ** exponent


@formula("B_crit", "tokens", _KAPLAN + ", equation 1.4")
def kaplan_critical_batch(scale: Number, loss: Number, exponent: Number) -> Number:
    """Critical batch in tokens at a loss, B* / L^(1/alpha_B)."""
    return scale / loss ** (1 / exponent)


@formula("C", "FLOP", "a PFLOP/s-day is 10^15 FLOP/s for 86400 s")
def pflop_s_days_to_flops(days: Number) -> Number:
    """PFLOP/s-days as FLOPs."""
    return days * 8.64e19


@formula("C", "PFLOP/s-days", "a PFLOP/s-day is 10^15 FLOP/s for 86400 s")
def flops_to_pflop_s_days(flops: Number) -> Number:
    """FLOPs as PFLOP/s-days."""
    return flops / 8.64e19


@formula("d", "1", _KAPLAN + ", table 1: N = (4 + 2E) L d^2 without embeddings, solved for d")
def width_for_params(params: Number, layers: Number, expansion: Number) -> Number:
    """Model width that spends a parameter budget on a number of layers."""
    return num.sqrt(params / ((4 + 2 * expansion) * layers))


@formula("d", "1", "nearest multiple that suits the hardware's tiles, at least one")
def rounded_width(width: Number, multiple: Number) -> Number:
    """A width rounded to the nearest multiple."""
    return num.maximum(num.floor(width / multiple + 0.5), 1) * multiple


@formula("n", "tokens", "balanced routing: every token visits top_k experts; Shazeer et al. 2017, Outrageously Large Neural Networks")  # fmt: skip
def tokens_per_expert(tokens: Number, top_k: Number, experts: Number) -> Number:
    """Tokens the average expert of a mixture receives."""
    return tokens * top_k / experts


@formula("n", "tokens", "character tokens of 'a+b=c' with two n-digit addends and a sum of n + 1 digits")
def addition_example_tokens(digits: Number) -> Number:
    """Longest example of an addition transformer: both addends, the sum, and the two signs."""
    return digits + 1 + digits + 1 + (digits + 1)


@formula("n", "examples", _DEFINITION)
def examples_for_tokens(tokens: Number, tokens_per_example: Number) -> Number:
    """Examples needed to make up a number of tokens."""
    return num.ceil(tokens / tokens_per_example)


@formula("FLOP/$", "FLOP", "peak over price; JAX Scaling Book, chapter 8 lists FLOP/s over $/h")
def flops_per_usd(peak: Number, usd_per_hour: Number) -> Number:
    """FLOPs at peak that a dollar buys."""
    return peak * 3600 / usd_per_hour


@formula("r", "1", _DEFINITION)
def tokens_per_parameter(tokens: Number, params: Number) -> Number:
    """Training tokens per parameter."""
    return tokens / params


@formula("s", "1", _DEFINITION)
def relative_saving(cost: Number, base: Number) -> Number:
    """Share of a base cost that is saved."""
    return 1 - cost / base


@formula("R", "tokens/s", _DEFINITION)
def run_throughput(tokens: Number, seconds: Number) -> Number:
    """Tokens per second of a whole training run."""
    return tokens / seconds


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


@formula("T*", "s", "kappa E + sigma S at its least, (sqrt(kappa E_min) + sqrt(sigma S_min))^2; " + _NOISE + ", appendix D")  # fmt: skip
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
