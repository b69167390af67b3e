"""`roofline scaling`: the size, tokens, batch, learning rate, time and dollars of a training run."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import decreasing_root, label, solved_value
from rooflinecli.core.errors import ImpossibleValue, UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Quantities
from rooflinecli.formulas import cost, textbook, training
from rooflinecli.formulas import scaling as law
from rooflinecli.questions.question import Question, calculators
from rooflinecli.specs.options import Group, Number, OptNumber, OptText, Text, field

Point = dict[str, Quantity]  # quantities of a row by name

KAPLAN_BATCH = (2e8, 0.21)  # constant, exponent: Kaplan et al. 2020, equation 1.4


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
        "training_flops": textbook.training_flops_rule(params, tokens),
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
    tokens_per_param: Number = field("positive", "Rule of thumb of Hoffmann et al.", default=law.TOKENS_PER_PARAM, symbol="r")

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
            "scaling-chinchilla/1", params=params, tokens=tokens, tokens_per_param=ratio, training_flops=textbook.training_flops_rule(params, tokens),
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
        flops, chosen = textbook.training_flops_rule(params, tokens), fits(self.fit)
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


class InferenceAware(Question[Quantities]):
    """The size with least training plus inference FLOPs, at the loss of --params (compute-optimal or at --tokens) or --loss."""

    verb = "scaling inference-aware"
    tokens_served: Number = field("tokens", "Tokens served over the model's life (2T).", symbol="D_inf", least=0)
    params: OptNumber = field("params", "Parameters (70B), or a model's name.", default=None, symbol="N", short="-p")
    tokens: OptNumber = field("tokens", "Training tokens (15T).", default=None, symbol="D")
    loss: OptNumber = field("positive", "Loss to reach, instead of --params.", default=None, symbol="L")
    compare_params: OptNumber = field("params", "Another size to compare (7B).", default=None, symbol="N", former=("instead",))
    fit: Text = field("free", "besiroglu, hoffmann, hoffmann-tex or sardana.", default="sardana", metavar="CHOICE")

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
                    "inference_flops": serve, "lifetime_flops": whole, "saving": label(1 - whole / base, "s", "1"),
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
    train = label(textbook.training_flops_rule(params, tokens), "C_train")
    serve = label(textbook.forward_flops_rule(params, served), "C_inf")
    return tokens, train, serve, law.lifetime_flops(train, serve)


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

    @property
    def solves_devices(self) -> bool:
        """Whether the devices are what is asked for."""
        return self.devices is None and self.mfu is not None and self.time is not None and self.tokens_per_s is None

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        """Raises ImpossibleValue for an MFU above one."""
        from rooflinecli.price.chip import Chip
        from rooflinecli.specs.hardware import load_hardware

        chip = None if self.hw is None else Chip(load_hardware(self.hw), lift)
        peak = chip.peak(self.dtype) if self.peak is None and chip is not None else self.peak
        price = chip.price if self.price is None and chip is not None else self.price
        flops, per_token = (textbook.training_flops_rule(self.params, tokens) for tokens in (self.tokens, 1))
        mfu, seconds = self.mfu, self.time
        devices = lift("n", 1.0, "1", "--devices") if self.devices is None else self.devices
        if self.solves_devices:
            devices, seconds = law.devices_for_deadline(flops, seconds, peak, mfu), None
        elif self.tokens_per_s is not None:
            mfu = textbook.mfu_from_throughput(per_token, self.tokens_per_s, peak)
        elif seconds is not None:
            mfu = training.model_flops_utilization(flops, seconds, devices, peak)
        if num.value(mfu) > 1 + ROUNDING:
            raise ImpossibleValue(
                f"that takes {num.value(mfu):.1%} of peak, and an MFU above 100% is impossible; give more "
                "devices, a longer time or fewer tokens (training counts 6 N FLOPs per token)"
            )
        time = textbook.training_time(flops, devices, peak, mfu) if seconds is None else seconds
        hourly = None if price is None else cost.fleet_price(devices, price)
        return Quantities.of(
            "scaling-run/1", params=self.params, tokens=self.tokens, devices=devices, flops_per_token=per_token, training_flops=flops, mfu=mfu,
            time_s=time, time_days=law.days(time), device_hours=law.device_hours(devices, time),
            tokens_per_s=label(self.tokens / time, "R", "tokens/s"),
            price_usd_per_hour=hourly, training_usd=None if hourly is None else cost.run_cost(time, hourly),
            flops_per_usd_at_peak=law.flops_per_usd(peak, price) if price is not None and num.value(price) > 0 else None,  # a free device has none
            notes=["6 N D leaves out attention scores, which the MFU of `estimate` counts: its share is higher by theirs. For a mixture of experts N is the active parameters."],
        )


class BatchSize(Question[Quantities]):
    """Steps against examples, the critical batch, and the batch that trains soonest."""

    verb = "scaling batch"
    examples_min: OptNumber = field("positive", "Examples to the target at small batches (E_min).", default=None, symbol="E_min", metavar="COUNT")
    steps_min: OptNumber = field("positive", "Steps to the target at huge batches (S_min).", default=None, symbol="S_min", metavar="COUNT")
    batch: OptNumber = field("positive", "Batch size to evaluate.", default=None, symbol="B", metavar="COUNT")
    seconds_per_example: OptNumber = field("seconds", "Time per example (kappa).", default=None, symbol="kappa")
    seconds_per_step: OptNumber = field("seconds", "Fixed time per step (sigma).", default=None, symbol="sigma")
    loss: OptNumber = field("positive", "Instead: Kaplan's critical batch at this loss.", default=None, symbol="L")

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


TABLE = calculators(__file__, (Compute,))
QUESTIONS = (
    Chinchilla, Loss, TABLE["Kaplan"], InferenceAware, TABLE["Mixture"], TrainingRun, TABLE["Width"], TABLE["Addition"], BatchSize,
    TABLE["NoiseScale"], TABLE["LearningRate"],
)
# fmt: on
