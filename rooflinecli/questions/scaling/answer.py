"""How large, how long, how low a loss: Chinchilla, Kaplan and the inference-aware optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.core.solve import decreasing_root, solved_value
from rooflinecli.formulas import counts
from rooflinecli.formulas import scaling as law

TOKENS_PER_PARAM = 20.0  # Hoffmann et al. 2022, approaches 1 and 2


@dataclass(frozen=True)
class Fit:
    """Published constants of L = E + A/N^alpha + B/D^beta."""

    e: float
    a: float
    b: float
    alpha: float
    beta: float
    source: str

    @property
    def slopes(self) -> tuple[float, float, float, float]:
        return self.a, self.b, self.alpha, self.beta

    @property
    def all(self) -> tuple[float, float, float, float, float]:
        return self.e, *self.slopes


FITS = {
    "besiroglu": Fit(
        1.8172,
        482.01,
        2085.43,
        0.3478,
        0.3658,
        "Besiroglu et al. 2024, Chinchilla Scaling: A replication attempt, arXiv:2404.10102 (corrected)",
    ),
    "hoffmann": Fit(1.69, 406.4, 410.7, 0.34, 0.28, "Hoffmann et al. 2022, arXiv:2203.15556, equation 10 as printed"),
    "hoffmann-tex": Fit(
        1.6934,
        406.4,
        410.7,
        0.3392,
        0.2849,
        "Hoffmann et al. 2022 with the digits of its TeX source, quoted by Besiroglu et al. 2024",
    ),
    "sardana": Fit(
        1.69,
        406.4,
        410.7,
        0.336,
        0.283,
        "Hoffmann et al. 2022 with three-digit exponents, as Sardana et al. 2024 use it, arXiv:2401.00448",
    ),
}
# constant, exponent, unit: Kaplan et al. 2020, equations 1.1 to 1.4
KAPLAN_PARAMS, KAPLAN_TOKENS, KAPLAN_COMPUTE = (8.8e13, 0.076), (5.4e13, 0.095), (3.1e8, 0.050)
KAPLAN_BATCH = (2e8, 0.21)


def fits(name: str) -> dict[str, Fit]:
    """The fits called `name`, 'all' for every one."""
    if name == "all":
        return FITS
    if name not in FITS:
        raise unknown("fit", name, [*FITS, "all"])
    return {name: FITS[name]}


def _point(params: Number, tokens: Number, fit: Fit) -> dict[str, Any]:
    return {
        "params": params,
        "tokens": tokens,
        "tokens_per_param": law.tokens_per_parameter(tokens, params),
        "training_flops": counts.training_flops_rule(params, tokens),
        "loss": law.parametric_loss(params, tokens, *fit.all),
    }


def _optimum(params: Number, tokens: Number, flops: Number, fit: Fit) -> dict[str, Any]:
    """The compute-optimal point of a fit for a size, a token count or a budget, whichever is given."""
    if params is None:
        params = (
            law.parametric_params(flops, *fit.slopes)
            if tokens is None
            else law.parametric_params_for_tokens(tokens, *fit.slopes)
        )
    if tokens is None:
        tokens = law.parametric_tokens(params, *fit.slopes) if flops is None else law.tokens_for_budget(flops, params)
    return _point(params, tokens, fit)


def chinchilla(
    params: Number = None,
    tokens: Number = None,
    flops: Number = None,
    tokens_per_param: Number = TOKENS_PER_PARAM,
    fit: str = "all",
) -> dict[str, Any]:
    """The compute-optimal size and tokens, by the rule of thumb and by each parametric fit."""
    chosen = fits(fit)
    if params is None:
        rule_params = (
            law.chinchilla_params(flops, tokens_per_param)
            if tokens is None
            else law.chinchilla_params_for_tokens(tokens, tokens_per_param)
        )
    else:
        rule_params = params
    rule_tokens = law.chinchilla_tokens(rule_params, tokens_per_param) if tokens is None else tokens
    return {
        "params": rule_params,
        "tokens": rule_tokens,
        "tokens_per_param": tokens_per_param,
        "training_flops": counts.training_flops_rule(rule_params, rule_tokens),
        "fits": {name: _optimum(params, tokens, flops, one) for name, one in chosen.items()},
        "notes": [
            "The rule of thumb is on top; each fit minimizes its own loss at C = 6 N D.",
            *(f"{name}: {one.source}" for name, one in chosen.items()),
        ],
    }


def loss(params: Number, tokens: Number, fit: str = "all") -> dict[str, Any]:
    """The parametric loss of a run, and what its compute would reach at each fit's optimum."""
    flops, chosen = counts.training_flops_rule(params, tokens), fits(fit)
    here = {
        name: {
            "loss": law.parametric_loss(params, tokens, *one.all),
            "loss_limit": law.loss_limit(params, one.e, one.a, one.alpha),
            "irreducible": one.e,
        }
        for name, one in chosen.items()
    }
    best = {name: _optimum(None, None, flops, one) for name, one in chosen.items()}
    return {
        "params": params,
        "tokens": tokens,
        "tokens_per_param": law.tokens_per_parameter(tokens, params),
        "training_flops": flops,
        "fits": here,
        "optimum_at_this_compute": best,
        "notes": [
            "loss limit: what this size approaches however long it trains",
            *(f"{name}: {one.source}" for name, one in chosen.items()),
        ],
    }


def kaplan(params: Number = None, tokens: Number = None, flops: Number = None) -> dict[str, Any]:
    """The loss by each of Kaplan's three laws that has an input."""
    answer: dict[str, Any] = {}
    if params is not None:
        answer |= {"params": params, "loss_by_params": law.kaplan_loss(KAPLAN_PARAMS[0], params, KAPLAN_PARAMS[1])}
    if tokens is not None:
        answer |= {"tokens": tokens, "loss_by_tokens": law.kaplan_loss(KAPLAN_TOKENS[0], tokens, KAPLAN_TOKENS[1])}
    if flops is not None:
        days = law.flops_to_pflop_s_days(flops)
        answer |= {
            "training_flops": flops,
            "pflop_s_days": days,
            "loss_by_compute": law.kaplan_loss(KAPLAN_COMPUTE[0], days, KAPLAN_COMPUTE[1]),
        }
    if not answer:
        raise UsageError("nothing to go by; give --params, --tokens or --flops (one or more)")
    return answer | {
        "notes": [
            "Each law assumes that the other two do not limit; params are without embeddings.",
            "Kaplan et al. 2020, arXiv:2001.08361, equations 1.1 to 1.3",
        ]
    }


def inference_aware(
    served: Number,
    params: Number = None,
    tokens: Number = None,
    target: Number = None,
    fit: str = "sardana",
    instead: Number = None,
) -> dict[str, Any]:
    """The size that reaches a loss with the least training plus inference FLOPs, against training alone."""
    if fit == "all":
        raise UsageError(f"--fit all: the optimum follows one fit; give one of {', '.join(FITS)}")
    one = fits(fit)[fit]
    if target is None:
        tokens = law.parametric_tokens(params, *one.slopes) if tokens is None else tokens
        target = law.parametric_loss(params, tokens, *one.all)
    if num.value(target) <= one.e:
        raise UsageError(f"a loss of {num.value(target):.4g} is not above the {one.e} no model of fit {fit} beats")
    sizes = {
        "compute_optimal": _size_for(target, 0.0, one),
        "inference_aware": _size_for(target, served, one),
        "as_given": params,
        "instead": instead,
    }
    options = {name: _lifetime(size, target, served, one) for name, size in sizes.items() if size is not None}
    base = options["compute_optimal" if params is None else "as_given"]["lifetime_flops"]
    for row in options.values():
        row["saving"] = law.relative_saving(row["lifetime_flops"], base)
    return {
        "loss": target,
        "served_tokens": served,
        "options": options,
        "notes": ["Equal loss throughout; 6 N D to train, 2 N per token served.", f"{fit}: {one.source}"],
    }


def _size_for(target: Number, served: Number, fit: Fit) -> Number:
    """Size at which training plus inference is cheapest for a loss; nothing served: the compute-optimal size."""
    loss_value, demand = num.value(target), num.value(served)
    least = law.least_params_for_loss(loss_value, fit.e, fit.a, fit.alpha)

    def balance(params: float) -> float:
        if law.loss_limit(params, fit.e, fit.a, fit.alpha) >= loss_value:
            return 1.0  # out of reach for this size, or too near to tell
        tokens = law.tokens_at_loss(params, loss_value, *fit.all)
        return float(law.lifetime_balance(params, tokens, demand, *fit.slopes))

    root = decreasing_root(balance, least * (1 + 1e-9), least * 1e6)
    return solved_value(root, target, "N*", "params", "root of lifetime_balance along the line of equal loss")


def _lifetime(params: Number, target: Number, served: Number, fit: Fit) -> dict[str, Any]:
    """Tokens and FLOPs of reaching a loss with one size and serving it. Raises UsageError out of reach."""
    limit = law.loss_limit(num.value(params), fit.e, fit.a, fit.alpha)
    if limit >= num.value(target):
        raise UsageError(
            f"{num.value(params):.4g} parameters cannot reach a loss of {num.value(target):.4g}, only "
            f"{limit:.4g}; take a larger model or a higher loss"
        )
    tokens = law.tokens_at_loss(params, target, *fit.all)
    training = label(counts.training_flops_rule(params, tokens), "C_train")
    inference = label(counts.forward_flops_rule(params, served), "C_inf")
    return {
        "params": params,
        "tokens": tokens,
        "tokens_per_param": law.tokens_per_parameter(tokens, params),
        "training_flops": training,
        "inference_flops": inference,
        "lifetime_flops": law.lifetime_flops(training, inference),
    }
