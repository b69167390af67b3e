"""`roofline scaling`: the size, tokens, batch, learning rate, time and dollars of a training run."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.derivation import decreasing_root, label, solved_value
from rooflinecli.core.errors import ImpossibleValue, UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Quantities
from rooflinecli.formulas import cost, counts, training
from rooflinecli.formulas import scaling as law
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Group, Number, OptNumber, OptText, Text, field

Point = dict[str, Quantity]  # quantities of a row by name

TOKENS_PER_PARAM = 20.0  # Hoffmann et al. 2022, approaches 1 and 2
# constant, exponent: Kaplan et al. 2020, equations 1.1 to 1.4
KAPLAN_PARAMS, KAPLAN_TOKENS, KAPLAN_COMPUTE = (8.8e13, 0.076), (5.4e13, 0.095), (3.1e8, 0.050)
KAPLAN_BATCH = (2e8, 0.21)


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


# fmt: off
FITS = {
    "besiroglu": Fit(1.8172, 482.01, 2085.43, 0.3478, 0.3658, "Besiroglu et al. 2024, Chinchilla Scaling: A replication attempt, arXiv:2404.10102 (corrected)"),
    "hoffmann": Fit(1.69, 406.4, 410.7, 0.34, 0.28, "Hoffmann et al. 2022, arXiv:2203.15556, equation 10 as printed"),
    "hoffmann-tex": Fit(1.6934, 406.4, 410.7, 0.3392, 0.2849, "Hoffmann et al. 2022 with the digits of its TeX source, quoted by Besiroglu et al. 2024"),
    "sardana": Fit(1.69, 406.4, 410.7, 0.336, 0.283, "Hoffmann et al. 2022 with three-digit exponents, as Sardana et al. 2024 use it, arXiv:2401.00448"),
}
# fmt: on


def fits(name: str) -> dict[str, Fit]:
    """The fits called `name`, 'all' for every one."""
    if name == "all":
        return FITS
    if name not in FITS:
        raise unknown("fit", name, [*FITS, "all"])
    return {name: FITS[name]}


ROUNDING = 1e-9  # a duration at the peak gives back an MFU of one, but for the last digits


def exactly_one(question: Question[Any], *names: str) -> None:
    """Raise UsageError unless exactly one of these fields was given."""
    flags = [question.fields()[name].flag for name in names]
    if sum(question.is_given(question.fields()[name]) for name in names) != 1:
        raise UsageError(f"give exactly one of {', '.join(flags[:-1])} and {flags[-1]}")


def _optimum(params: Quantity, tokens: Quantity, flops: Quantity, fit: Fit) -> Point:
    """The compute-optimal point of a fit for a size, a token count or a budget, whichever is given."""
    if params is None:
        params = (
            law.parametric_params(flops, *fit.slopes)
            if tokens is None
            else law.parametric_params_for_tokens(tokens, *fit.slopes)
        )
    if tokens is None:
        tokens = law.parametric_tokens(params, *fit.slopes) if flops is None else law.tokens_for_budget(flops, params)
    return {
        "params": params,
        "tokens": tokens,
        "tokens_per_param": law.tokens_per_parameter(tokens, params),
        "training_flops": counts.training_flops_rule(params, tokens),
        "loss": law.parametric_loss(params, tokens, *fit.all),
    }


# fmt: off
class Compute(Group):
    """Parameters, tokens and FLOPs of a run, of which one decides the others."""

    params: OptNumber = field("params", "Parameters (70B), or a model's name.", default=None, symbol="N", short="-p")
    tokens: OptNumber = field("tokens", "Training tokens (15T).", default=None, symbol="D")
    flops: OptNumber = field("flop", "Training FLOPs (1e22, '10 ZFLOP').", default=None, symbol="C")


class Fits(Group):
    """Published fits of the parametric loss."""

    fit: Text = field("free", "besiroglu (corrected), hoffmann, hoffmann-tex, sardana, or all.", default="all", metavar="CHOICE")


class Chinchilla(Fits, Compute, Question[Quantities]):
    """Compute-optimal size and tokens from one of --params, --tokens, --flops."""

    verb = "scaling chinchilla"
    tokens_per_param: Number = field("positive", "Rule of thumb of Hoffmann et al.", default=TOKENS_PER_PARAM, symbol="r")

    def check(self) -> None:
        exactly_one(self, "params", "tokens", "flops")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        chosen, ratio = fits(self.fit), self.tokens_per_param
        if self.params is not None:
            params = self.params
        elif self.tokens is not None:
            params = law.chinchilla_params_for_tokens(self.tokens, ratio)
        else:
            params = law.chinchilla_params(self.flops, ratio)
        tokens = law.chinchilla_tokens(params, ratio) if self.tokens is None else self.tokens
        return Quantities.of(
            "scaling-chinchilla/1", params=params, tokens=tokens, tokens_per_param=ratio, training_flops=counts.training_flops_rule(params, tokens),
            fits={name: _optimum(self.params, self.tokens, self.flops, one) for name, one in chosen.items()},
            notes=[
                "The rule of thumb is on top; each fit minimizes its own loss at C = 6 N D.",
                *(f"{name}: {one.source}" for name, one in chosen.items()),
            ],
        )


class Loss(Fits, Question[Quantities]):
    """Parametric loss of a run by each published fit, and the optimum for its compute."""

    verb = "scaling loss"
    params: Number = field("params", "Parameters (70B), or a model's name.", symbol="N", short="-p")
    tokens: Number = field("tokens", "Training tokens (1.4T).", symbol="D")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        params, tokens = self.params, self.tokens
        flops, chosen = counts.training_flops_rule(params, tokens), fits(self.fit)
        return Quantities.of(
            "scaling-loss/1", params=params, tokens=tokens, tokens_per_param=law.tokens_per_parameter(tokens, params), training_flops=flops,
            fits={
                name: {
                    "loss": law.parametric_loss(params, tokens, *one.all),
                    "loss_limit": law.loss_limit(params, one.e, one.a, one.alpha),
                    "irreducible": one.e,
                }
                for name, one in chosen.items()
            },
            optimum_at_this_compute={name: _optimum(None, None, flops, one) for name, one in chosen.items()},
            notes=[
                "loss limit: what this size approaches however long it trains",
                *(f"{name}: {one.source}" for name, one in chosen.items()),
            ],
        )


class Kaplan(Compute, Question[Quantities]):
    """The three power laws of Kaplan et al.: loss by parameters, tokens, compute."""

    verb = "scaling kaplan"
    pflop_s_days: OptNumber = field("positive", "Compute in PFLOP/s-days, instead of --flops.", default=None, symbol="C")

    def check(self) -> None:
        if self.flops is not None and self.pflop_s_days is not None:
            raise UsageError("--flops and --pflop-s-days are mutually exclusive; give one of them")
        if not self.written():
            raise UsageError("nothing to go by; give --params, --tokens or --flops (one or more)")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        def loss(law_of: tuple[float, float], amount: Quantity) -> Quantity:
            return None if amount is None else law.kaplan_loss(law_of[0], amount, law_of[1])

        flops = self.flops if self.pflop_s_days is None else law.pflop_s_days_to_flops(self.pflop_s_days)
        days = None if flops is None else law.flops_to_pflop_s_days(flops)
        return Quantities.of(
            "scaling-kaplan/1", params=self.params, loss_by_params=loss(KAPLAN_PARAMS, self.params),
            tokens=self.tokens, loss_by_tokens=loss(KAPLAN_TOKENS, self.tokens),
            training_flops=flops, pflop_s_days=days, loss_by_compute=loss(KAPLAN_COMPUTE, days),
            notes=[
                "Each law assumes that the other two do not limit; params are without embeddings.",
                "Kaplan et al. 2020, arXiv:2001.08361, equations 1.1 to 1.3",
            ],
        )


class InferenceAware(Question[Quantities]):
    """The size with least training plus inference FLOPs, at the loss of --params (compute-optimal or at --tokens) or --loss."""

    verb = "scaling inference-aware"
    tokens_served: Number = field("tokens", "Tokens served over the model's life (2T).", symbol="D_inf", least=0)
    params: OptNumber = field("params", "Parameters (70B), or a model's name.", default=None, symbol="N", short="-p")
    tokens: OptNumber = field("tokens", "Training tokens (15T).", default=None, symbol="D")
    loss: OptNumber = field("positive", "Loss to reach, instead of --params.", default=None, symbol="L")
    compare_params: OptNumber = field("params", "Another size to compare (7B).", default=None, symbol="N", former=("instead",))
    fit: Text = field("free", "besiroglu, hoffmann, hoffmann-tex or sardana.", default="sardana", metavar="CHOICE")

    def check(self) -> None:
        exactly_one(self, "params", "loss")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        if self.fit == "all":
            raise UsageError(f"--fit all: the optimum follows one fit; give one of {', '.join(FITS)}")
        fit, served, target = fits(self.fit)[self.fit], self.tokens_served, self.loss
        if target is None:
            tokens = law.parametric_tokens(self.params, *fit.slopes) if self.tokens is None else self.tokens
            target = law.parametric_loss(self.params, tokens, *fit.all)
        if num.value(target) <= fit.e:
            raise UsageError(f"a loss of {num.value(target):.4g} is not above the {fit.e} no model of fit {self.fit} beats")
        optimum = _size_for(target, 0.0, fit)
        sizes = {
            "compute_optimal": optimum,
            "inference_aware": _size_for(target, served, fit),
            "as_given": self.params,
            "instead": self.compare_params,
        }
        base = _lifetime_flops(optimum if self.params is None else self.params, target, served, fit)[-1]
        options = {}
        for name, size in sizes.items():
            if size is not None:
                tokens, train, serve, whole = _lifetime_flops(size, target, served, fit)
                options[name] = {
                    "params": size, "tokens": tokens, "tokens_per_param": law.tokens_per_parameter(tokens, size), "training_flops": train,
                    "inference_flops": serve, "lifetime_flops": whole, "saving": law.relative_saving(whole, base),
                }
        return Quantities.of(
            "scaling-inference-aware/1", loss=target, served_tokens=served, options=options,
            notes=["Equal loss throughout; 6 N D to train, 2 N per token served.", f"{self.fit}: {fit.source}"],
        )


def _size_for(target: Quantity, served: Quantity, fit: Fit) -> Quantity:
    """Size at which training plus inference is cheapest for a loss; nothing served: the compute-optimal size."""
    loss, demand = num.value(target), num.value(served)
    least = law.least_params_for_loss(loss, fit.e, fit.a, fit.alpha)

    def balance(params: float) -> float:
        if law.loss_limit(params, fit.e, fit.a, fit.alpha) >= loss:
            return 1.0  # out of reach for this size, or too near to tell
        return float(law.lifetime_balance(params, law.tokens_at_loss(params, loss, *fit.all), demand, *fit.slopes))

    root = decreasing_root(balance, least * (1 + 1e-9), least * 1e6)
    return solved_value(root, target, "N*", "params", "root of lifetime_balance along the line of equal loss")


def _lifetime_flops(params: Quantity, target: Quantity, served: Quantity, fit: Fit) -> tuple[Quantity, Quantity, Quantity, Quantity]:
    """Tokens to reach a loss with one size, and FLOPs of training, of serving and of both. Raises UsageError out of reach."""
    limit = law.loss_limit(num.value(params), fit.e, fit.a, fit.alpha)
    if limit >= num.value(target):
        raise UsageError(
            f"{num.value(params):.4g} parameters cannot reach a loss of {num.value(target):.4g}, only "
            f"{limit:.4g}; take a larger model or a higher loss"
        )
    tokens = law.tokens_at_loss(params, target, *fit.all)
    train = label(counts.training_flops_rule(params, tokens), "C_train")
    serve = label(counts.forward_flops_rule(params, served), "C_inf")
    return tokens, train, serve, law.lifetime_flops(train, serve)


class Mixture(Question[Quantities]):
    """A mixture of experts: tokens a budget buys by active parameters, and tokens each expert sees."""

    verb = "scaling moe"
    flops: OptNumber = field("flop", "Training FLOPs (1e22, '10 ZFLOP').", default=None, symbol="C")
    active_params: OptNumber = field("params", "Parameters a token passes through (1B).", default=None, symbol="N")
    params: OptNumber = field("params", "All parameters: the dense model to compare with.", default=None, symbol="N", short="-p")
    experts: OptNumber = field("positive", "Routed experts of a layer.", default=None, symbol="E", metavar="COUNT")
    top_k: OptNumber = field("positive", "Experts a token visits.", default=None, symbol="k", metavar="COUNT")
    batch_tokens: OptNumber = field("tokens", "Tokens routed together (2048).", default=None, symbol="T")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        found: Point = {}
        budget = self.flops is not None and self.active_params is not None
        routed = self.experts is not None and self.top_k is not None and self.batch_tokens is not None
        if not budget and not routed:
            raise UsageError("give --flops and --active-params, or --experts, --top-k and --batch-tokens")
        if budget:
            found |= {
                "training_flops": self.flops, "active_params": self.active_params, "tokens": law.tokens_for_budget(self.flops, self.active_params),
                "compute_optimal_active_params": law.chinchilla_params(self.flops, TOKENS_PER_PARAM), "total_params": self.params,
                "dense_tokens": None if self.params is None else law.tokens_for_budget(self.flops, self.params),
            }
        if routed:
            if num.value(self.top_k) > num.value(self.experts):
                raise UsageError("--top-k exceeds --experts; a token cannot visit more experts than there are")
            found |= {
                "experts": self.experts, "top_k": self.top_k, "batch_tokens": self.batch_tokens,
                "expert_tokens": law.tokens_per_expert(self.batch_tokens, self.top_k, self.experts),
                "experts_visited": counts.active_experts(self.experts, self.top_k, self.batch_tokens),
            }
        return Quantities.of("scaling-moe/1", **found, notes=["A token trains its active parameters: 6 N_active FLOPs, not 6 N_total."])


class TrainingRun(Question[Quantities]):
    """Time and dollars of a training run from its MFU; or the MFU, or the devices, that a deadline takes."""

    verb = "scaling run"
    params: Number = field("params", "Parameters (70.6B; active ones for a mixture), or a model's name.", symbol="N", short="-p")
    tokens: Number = field("tokens", "Training tokens (15T).", symbol="D")
    devices: OptNumber = field("positive", "Devices; default 1. Omitted with --mfu and --time: as many as needed.", default=None, symbol="n", short="-n", metavar="COUNT")
    hw: OptText = field("name", "Chip: a name, alias or YAML path. Gives the peak and the price.", default=None)
    peak: OptNumber = field("flops_per_s", "Peak FLOP/s per device, instead of --hw ('990 TFLOP/s').", default=None, symbol="P")
    dtype: Text = field("free", "Which peak of --hw.", default="bf16", metavar="FORMAT")
    mfu: OptNumber = field("positive", "Model FLOPs utilization, 0 to 1.", default=None, symbol="MFU", most=1, metavar="SHARE")
    tokens_per_s: OptNumber = field("tokens_per_s", "Measured tokens/s per device, instead of --mfu.", default=None, symbol="R")
    time: OptNumber = field("seconds", "Duration ('91 days'), instead of --mfu.", default=None, symbol="t")
    price: OptNumber = field("usd_per_hour", "USD per device-hour; default: the chip's.", default=None, symbol="price", least=0)

    def check(self) -> None:
        if not self._solves_devices():
            exactly_one(self, "mfu", "tokens_per_s", "time")
        if self.peak is None and self.hw is None:
            raise UsageError("the peak FLOP/s is missing; give --hw or --peak")

    def _solves_devices(self) -> bool:
        return self.devices is None and self.mfu is not None and self.time is not None and self.tokens_per_s is None

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        """Raises ImpossibleValue for an MFU above one."""
        from rooflinecli.price.chip import Chip
        from rooflinecli.specs.hardware import load_hardware

        chip = None if self.hw is None else Chip(load_hardware(self.hw), lift)
        peak = chip.peak(self.dtype) if self.peak is None and chip is not None else self.peak
        price = chip.price if self.price is None and chip is not None else self.price
        flops, per_token = (counts.training_flops_rule(self.params, tokens) for tokens in (self.tokens, 1))
        mfu, seconds = self.mfu, self.time
        devices = lift("n", 1.0, "1", "--devices") if self.devices is None else self.devices
        if self._solves_devices():
            devices, seconds = law.devices_for_deadline(flops, seconds, peak, mfu), None
        elif self.tokens_per_s is not None:
            mfu = training.mfu_from_throughput(per_token, self.tokens_per_s, peak)
        elif seconds is not None:
            mfu = training.model_flops_utilization(flops, seconds, devices, peak)
        if num.value(mfu) > 1 + ROUNDING:
            raise ImpossibleValue(
                f"that takes {num.value(mfu):.1%} of peak, and an MFU above 100% is impossible; give more "
                "devices, a longer time or fewer tokens (training counts 6 N FLOPs per token)"
            )
        time = training.training_time(flops, devices, peak, mfu) if seconds is None else seconds
        hourly = None if price is None else cost.fleet_price(devices, price)
        return Quantities.of(
            "scaling-run/1", params=self.params, tokens=self.tokens, devices=devices, flops_per_token=per_token, training_flops=flops, mfu=mfu,
            time_s=time, time_days=law.days(time), device_hours=law.device_hours(devices, time),
            tokens_per_s=law.run_throughput(self.tokens, time),
            price_usd_per_hour=hourly, training_usd=None if hourly is None else cost.run_cost(time, hourly),
            flops_per_usd_at_peak=law.flops_per_usd(peak, price) if price is not None and num.value(price) > 0 else None,  # a free device has none
            notes=["6 N D without attention scores; for a mixture of experts N is the active parameters."],
        )


class Width(Question[Quantities]):
    """The model width for a parameter budget."""

    verb = "scaling width"
    params: Number = field("positive", "Parameter budget without embeddings (10M).", symbol="N", short="-p", metavar="COUNT")
    layers: Number = field("positive", "Layers.", symbol="L", metavar="COUNT")
    expansion: Number = field("positive", "d_ff / d_model.", default=4.0, symbol="E")
    multiple: Number = field("positive", "Round the width to a multiple of this.", default=64.0, symbol="m", metavar="COUNT")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        exact = law.width_for_params(self.params, self.layers, self.expansion)
        rounded = law.rounded_width(exact, self.multiple)
        return Quantities.of(
            "scaling-width/1", d_exact=exact, d_model=rounded, layers=self.layers,
            params=counts.dense_params_rule(self.layers, rounded, self.expansion, 0),
            notes=["(4 + 2E) L d^2 without embeddings; E is d_ff / d_model, E = 4 gives 12 L d^2."],
        )


class Addition(Question[Quantities]):
    """Data for a transformer that learns to add: tokens per example, tokens and examples."""

    verb = "scaling addition"
    digits: Number = field("positive", "Digits of each addend.", default=3.0, symbol="n", metavar="COUNT")
    params: Number = field("positive", "Parameters.", default=10e6, symbol="N", short="-p", metavar="COUNT")
    tokens_per_param: Number = field("positive", "Rule of thumb of Hoffmann et al.", default=TOKENS_PER_PARAM, symbol="r")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        length, tokens = law.addition_example_tokens(self.digits), law.chinchilla_tokens(self.params, self.tokens_per_param)
        return Quantities.of(
            "scaling-addition/1", tokens_per_example=length, params=self.params, tokens=tokens, examples=law.examples_for_tokens(tokens, length),
            training_flops=counts.training_flops_rule(self.params, tokens),
        )


class BatchSize(Question[Quantities]):
    """Steps against examples, the critical batch, and the batch that trains soonest."""

    verb = "scaling batch"
    examples_min: OptNumber = field("positive", "Examples to the target at small batches (E_min).", default=None, symbol="E_min", metavar="COUNT")
    steps_min: OptNumber = field("positive", "Steps to the target at huge batches (S_min).", default=None, symbol="S_min", metavar="COUNT")
    batch: OptNumber = field("positive", "A batch to judge.", default=None, symbol="B", metavar="COUNT")
    seconds_per_example: OptNumber = field("seconds", "Time per example (kappa).", default=None, symbol="kappa")
    seconds_per_step: OptNumber = field("seconds", "Fixed time per step (sigma).", default=None, symbol="sigma")
    loss: OptNumber = field("positive", "Instead: Kaplan's critical batch at this loss.", default=None, symbol="L")

    def check(self) -> None:
        if self.loss is None and (self.examples_min is None or self.steps_min is None):
            raise UsageError("give --examples-min and --steps-min, or --loss")
        if (self.seconds_per_example is None) != (self.seconds_per_step is None):
            raise UsageError("--seconds-per-example and --seconds-per-step go together; give both or neither")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        if self.loss is not None:
            return Quantities.of(
                "scaling-batch/1", loss=self.loss,
                critical_batch_tokens=law.kaplan_critical_batch(KAPLAN_BATCH[0], self.loss, KAPLAN_BATCH[1]),
                notes=["Kaplan et al. 2020, equation 1.4; fitted on WebText2"],
            )
        ends = self.examples_min, self.steps_min
        times = self.seconds_per_example, self.seconds_per_step
        critical = law.critical_batch_size(*ends)
        timed = times[0] is not None
        fastest = law.time_optimal_batch(*ends, *times) if timed else None
        batches: dict[str, Point] = {}
        for name, size in {"critical": critical, "time_optimal": fastest, "as_given": self.batch}.items():
            if size is not None:
                steps = law.steps_at_batch(size, self.steps_min, critical)
                examples = law.examples_at_batch(size, self.examples_min, critical)
                batches[name] = {"batch": size, "steps": steps, "examples": examples}
                if timed:
                    batches[name]["time_s"] = law.training_time_at_batch(examples, steps, *times)
        return Quantities.of(
            "scaling-batch/1", critical_batch=critical, time_optimal_batch=fastest,
            shortest_time_s=law.shortest_training_time(*ends, *times) if timed else None,
            batches=batches, notes=["(steps/steps_min - 1)(examples/examples_min - 1) = 1"],
        )


class NoiseScale(Question[Quantities]):
    """The gradient noise scale, an estimate of the critical batch, from gradient norms at two batch sizes."""

    verb = "scaling noise"
    small_batch: Number = field("positive", "The smaller batch.", symbol="b", metavar="COUNT")
    small_norm2: Number = field("positive", "Mean squared gradient norm there.", symbol="|G_b|^2")
    big_batch: Number = field("positive", "The larger batch.", symbol="B", metavar="COUNT")
    big_norm2: Number = field("positive", "Mean squared gradient norm there.", symbol="|G_B|^2")

    def check(self) -> None:
        if self.small_batch >= self.big_batch:
            raise UsageError("the second batch must be larger than the first; swap them")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        norms = self.small_batch, self.small_norm2, self.big_batch, self.big_norm2
        norm2, variance = law.gradient_norm_squared(*norms), law.gradient_variance(*norms)
        if num.value(norm2) <= 0 or num.value(variance) < 0:
            raise UsageError("these norms imply a negative noise scale, they are too noisy; average them over more batches")
        return Quantities.of(
            "scaling-noise/1", gradient_norm_squared=norm2, gradient_variance=variance,
            noise_scale_batch=law.noise_scale(variance, norm2),
        )


class LearningRate(Question[Quantities]):
    """A learning rate for another batch: square root, linear, and by the noise scale."""

    verb = "scaling lr"
    lr: Number = field("positive", "Learning rate tuned at --batch (3e-4).", symbol="eta")
    batch: Number = field("positive", "The batch it was tuned at.", symbol="B", metavar="COUNT")
    new_batch: Number = field("positive", "The batch to move to.", symbol="B'", metavar="COUNT")
    noise_scale: OptNumber = field("positive", "Gradient noise scale, for the third rule.", default=None, symbol="B_noise", least=0)

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        ceiling = None if self.noise_scale is None else law.learning_rate_ceiling(self.lr, self.noise_scale, self.batch)
        return Quantities.of(
            "scaling-lr/1", batch=self.batch, new_batch=self.new_batch, lr=self.lr,
            lr_sqrt=law.learning_rate_sqrt(self.lr, self.batch, self.new_batch),
            lr_linear=law.learning_rate_linear(self.lr, self.batch, self.new_batch), lr_max=ceiling,
            lr_noise_scale=None if ceiling is None else law.learning_rate_noise(ceiling, self.noise_scale, self.new_batch),
            notes=[
                "square root is usual for Adam, linear for SGD (with warm-up); "
                "eta_max / (1 + B_noise/B) turns from linear to flat at the noise scale"
            ],
        )


QUESTIONS = (
    Chinchilla, Loss, Kaplan, InferenceAware, Mixture, TrainingRun, Width, Addition, BatchSize, NoiseScale, LearningRate,
)
# fmt: on
