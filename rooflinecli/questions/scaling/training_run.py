"""What a training run needs: batch, learning rate, time and dollars, width, experts, examples."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import ImpossibleValue, UsageError
from rooflinecli.core.num import Number
from rooflinecli.formulas import cost, counts, gradient_noise, training
from rooflinecli.formulas import scaling as law
from rooflinecli.questions.scaling.answer import KAPLAN_BATCH, TOKENS_PER_PARAM

ROUNDING = 1e-9  # a duration at the peak gives back an MFU of one, but for the last digits


def run(
    params: Number,
    tokens: Number,
    devices: Number,
    peak: Number,
    mfu: Number = None,
    throughput: Number = None,
    usd_per_device_hour: Number = None,
    seconds: Number = None,
) -> dict[str, Any]:
    """Time, MFU and bill of a run from an MFU, a throughput per device, or a duration; above peak is impossible.

    Without `devices`, as many as reach `seconds` at `mfu`.
    """
    flops, per_token = counts.training_flops_rule(params, tokens), counts.training_flops_rule(params, 1)
    if devices is None:
        devices = law.devices_for_deadline(flops, seconds, peak, mfu)
        seconds = None
    elif throughput is not None:
        mfu = training.mfu_from_throughput(per_token, throughput, peak)
    elif seconds is not None:
        mfu = training.model_flops_utilization(flops, seconds, devices, peak)
    if num.value(mfu) > 1 + ROUNDING:
        raise ImpossibleValue(
            f"that takes {num.value(mfu):.1%} of peak, and an MFU above 100 % is impossible; give more "
            "devices, a longer time or fewer tokens (training counts 6 N FLOPs per token)"
        )
    time = training.training_time(flops, devices, peak, mfu) if seconds is None else seconds
    answer = {
        "params": params,
        "tokens": tokens,
        "devices": devices,
        "flops_per_token": per_token,
        "training_flops": flops,
        "mfu": mfu,
        "time_s": time,
        "time_days": law.days(time),
        "device_hours": law.device_hours(devices, time),
        "tokens_per_s": law.run_throughput(tokens, time),
    }
    if usd_per_device_hour is not None:
        hourly = cost.fleet_price(devices, usd_per_device_hour)
        answer |= {"price_usd_per_hour": hourly, "training_usd": cost.run_cost(time, hourly)}
        if num.value(usd_per_device_hour) > 0:  # a free device has no FLOPs per dollar
            answer["flops_per_usd_at_peak"] = law.flops_per_usd(peak, usd_per_device_hour)
    return answer | {"notes": ["6 N D without attention scores; for a mixture of experts N is the active parameters."]}


def width(params: Number, layers: Number, expansion: Number = 4.0, multiple: Number = 64.0) -> dict[str, Any]:
    """The model width that spends a parameter budget, exact and rounded, and what it then costs."""
    exact = law.width_for_params(params, layers, expansion)
    rounded = law.rounded_width(exact, multiple)
    return {
        "d_exact": exact,
        "d_model": rounded,
        "layers": layers,
        "params": counts.dense_params_rule(layers, rounded, expansion, 0),
        "notes": ["(4 + 2E) L d^2 without embeddings; E is d_ff / d_model, E = 4 gives 12 L d^2."],
    }


def addition(digits: Number, params: Number, tokens_per_param: Number = TOKENS_PER_PARAM) -> dict[str, Any]:
    """Data for a transformer that learns to add: example length, tokens and examples."""
    length, tokens = law.addition_example_tokens(digits), law.chinchilla_tokens(params, tokens_per_param)
    return {
        "tokens_per_example": length,
        "params": params,
        "tokens": tokens,
        "examples": law.examples_for_tokens(tokens, length),
        "training_flops": counts.training_flops_rule(params, tokens),
    }


def mixture(
    flops: Number = None,
    active: Number = None,
    total: Number = None,
    experts: Number = None,
    top_k: Number = None,
    batch_tokens: Number = None,
) -> dict[str, Any]:
    """A mixture of experts at a budget beside the dense model of its size, and the load of one expert."""
    answer: dict[str, Any] = {}
    if flops is not None and active is not None:
        answer |= {
            "training_flops": flops,
            "active_params": active,
            "tokens": law.tokens_for_budget(flops, active),
            "compute_optimal_active_params": law.chinchilla_params(flops, TOKENS_PER_PARAM),
        }
        if total is not None:
            answer |= {"total_params": total, "dense_tokens": law.tokens_for_budget(flops, total)}
    if experts is not None and top_k is not None and batch_tokens is not None:
        if num.value(top_k) > num.value(experts):
            raise UsageError("--top-k exceeds --experts; a token cannot visit more experts than there are")
        answer |= {
            "experts": experts,
            "top_k": top_k,
            "batch_tokens": batch_tokens,
            "expert_tokens": law.tokens_per_expert(batch_tokens, top_k, experts),
            "experts_visited": counts.active_experts(experts, top_k, batch_tokens),
        }
    if not answer:
        raise UsageError("give --flops and --active-params, or --experts, --top-k and --batch-tokens")
    return answer | {"notes": ["A token trains its active parameters: 6 N_active FLOPs, not 6 N_total."]}


def batch_size(
    examples_min: Number,
    steps_min: Number,
    batch: Number = None,
    seconds_per_example: Number = None,
    seconds_per_step: Number = None,
) -> dict[str, Any]:
    """Steps against examples over the batch, the critical batch, and the batch that is done soonest."""
    critical = gradient_noise.critical_batch_size(examples_min, steps_min)
    timed = seconds_per_example is not None and seconds_per_step is not None
    answer: dict[str, Any] = {"critical_batch": critical}
    if timed:
        costs = (examples_min, steps_min, seconds_per_example, seconds_per_step)
        answer["time_optimal_batch"] = gradient_noise.time_optimal_batch(*costs)
        answer["shortest_time_s"] = gradient_noise.shortest_training_time(*costs)
    sizes = {"critical": critical, "time_optimal": answer.get("time_optimal_batch"), "as_given": batch}
    rows: dict[str, dict[str, Any]] = {}
    for name, size in sizes.items():
        if size is not None:
            rows[name] = {
                "batch": size,
                "steps": gradient_noise.steps_at_batch(size, steps_min, critical),
                "examples": gradient_noise.examples_at_batch(size, examples_min, critical),
            }
            if timed:
                rows[name]["time_s"] = gradient_noise.training_time_at_batch(
                    rows[name]["examples"], rows[name]["steps"], seconds_per_example, seconds_per_step
                )
    return answer | {"batches": rows, "notes": ["(steps/steps_min - 1)(examples/examples_min - 1) = 1"]}


def measured_noise_scale(small: Number, small_norm2: Number, big: Number, big_norm2: Number) -> dict[str, Any]:
    """The gradient noise scale from squared gradient norms at two batch sizes."""
    if num.value(small) >= num.value(big):
        raise UsageError("the second batch must be larger than the first; swap them")
    norm2 = gradient_noise.gradient_norm_squared(small, small_norm2, big, big_norm2)
    variance = gradient_noise.gradient_variance(small, small_norm2, big, big_norm2)
    if num.value(norm2) <= 0 or num.value(variance) < 0:
        raise UsageError("these norms imply a negative noise scale, they are too noisy; average them over more batches")
    return {
        "gradient_norm_squared": norm2,
        "gradient_variance": variance,
        "noise_scale_batch": gradient_noise.noise_scale(variance, norm2),
    }


def kaplan_batch(target: Number) -> dict[str, Any]:
    """Kaplan's critical batch at a loss."""
    scale, exponent = KAPLAN_BATCH
    return {
        "loss": target,
        "critical_batch_tokens": law.kaplan_critical_batch(scale, target, exponent),
        "notes": ["Kaplan et al. 2020, equation 1.4; fitted on WebText2"],
    }


def learning_rate(rate: Number, batch: Number, new_batch: Number, scale: Number = None) -> dict[str, Any]:
    """A learning rate carried to another batch by the square-root, the linear and the noise-scale rule."""
    answer = {
        "batch": batch,
        "new_batch": new_batch,
        "lr": rate,
        "lr_sqrt": gradient_noise.learning_rate_sqrt(rate, batch, new_batch),
        "lr_linear": gradient_noise.learning_rate_linear(rate, batch, new_batch),
    }
    if scale is not None:
        ceiling = gradient_noise.learning_rate_ceiling(rate, scale, batch)
        answer |= {"lr_max": ceiling, "lr_noise_scale": gradient_noise.learning_rate_noise(ceiling, scale, new_batch)}
    return answer | {
        "notes": [
            "square root is usual for Adam, linear for SGD (with warm-up); "
            "eta_max / (1 + B_noise/B) turns from linear to flat at the noise scale"
        ]
    }
