"""`roofline scaling`: questions about the size, tokens, batch, time and dollars of a training run."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PlainLift
from rooflinecli.questions.calculator import Calculator, Values
from rooflinecli.specs.options import Group, Number, OptNumber, OptText, Text, field


def exactly_one(question: Any, *names: str) -> None:
    """Raise UsageError unless exactly one of these fields was given."""
    flags = [question.fields()[name].flag for name in names]
    if sum(question.is_given(question.fields()[name]) for name in names) != 1:
        raise UsageError(f"give exactly one of {', '.join(flags[:-1])} and {flags[-1]}")


# fmt: off
class Compute(Group):
    """Parameters, tokens and FLOPs of a run, of which one decides the others."""

    params: OptNumber = field("params", "Parameters (70B), or a model's name.", default=None, symbol="N", short="-p")
    tokens: OptNumber = field("tokens", "Training tokens (15T).", default=None, symbol="D")
    flops: OptNumber = field("flop", "Training FLOPs (1e22, '10 ZFLOP').", default=None, symbol="C")


class Fits(Group):
    """Published fits of the parametric loss."""

    fit: Text = field("free", "besiroglu (corrected), hoffmann, hoffmann-tex, sardana, or all.", default="all", metavar="CHOICE")


class Chinchilla(Fits, Compute, Calculator):
    """Compute-optimal size and tokens from one of --params, --tokens, --flops."""

    verb = "scaling chinchilla"
    tokens_per_param: Number = field("positive", "Rule of thumb of Hoffmann et al.", default=20.0, symbol="r")

    def check(self) -> None:
        exactly_one(self, "params", "tokens", "flops")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.answer import chinchilla

        return chinchilla(self.params, self.tokens, self.flops, self.tokens_per_param, self.fit)


class Loss(Fits, Calculator):
    """Parametric loss of a run by each published fit, beside the optimum for its compute."""

    verb = "scaling loss"
    params: Number = field("params", "Parameters (70B), or a model's name.", symbol="N", short="-p")
    tokens: Number = field("tokens", "Training tokens (1.4T).", symbol="D")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.answer import loss

        return loss(self.params, self.tokens, self.fit)


class Kaplan(Compute, Calculator):
    """The three power laws of Kaplan et al.: loss by parameters, tokens, compute."""

    verb = "scaling kaplan"
    pflop_s_days: OptNumber = field("positive", "Compute in PFLOP/s-days, instead of --flops.", default=None, symbol="C")

    def check(self) -> None:
        if self.flops is not None and self.pflop_s_days is not None:
            raise UsageError("--flops and --pflop-s-days are mutually exclusive; give one of them")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.formulas.scaling import pflop_s_days_to_flops
        from rooflinecli.questions.scaling.answer import kaplan

        flops = self.flops if self.pflop_s_days is None else pflop_s_days_to_flops(self.pflop_s_days)
        return kaplan(self.params, self.tokens, flops)


class InferenceAware(Calculator):
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

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.answer import inference_aware

        return inference_aware(self.tokens_served, self.params, self.tokens, self.loss, self.fit, self.compare_params)


class Mixture(Calculator):
    """A mixture of experts: tokens a budget buys by active parameters, and tokens each expert sees."""

    verb = "scaling moe"
    flops: OptNumber = field("flop", "Training FLOPs (1e22, '10 ZFLOP').", default=None, symbol="C")
    active_params: OptNumber = field("params", "Parameters a token passes through (1B).", default=None, symbol="N")
    params: OptNumber = field("params", "All parameters: the dense model to compare with.", default=None, symbol="N", short="-p")
    experts: OptNumber = field("positive", "Routed experts of a layer.", default=None, symbol="E", metavar="COUNT")
    top_k: OptNumber = field("positive", "Experts a token visits.", default=None, symbol="k", metavar="COUNT")
    batch_tokens: OptNumber = field("tokens", "Tokens routed together (2048).", default=None, symbol="T")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.training_run import mixture

        return mixture(self.flops, self.active_params, self.params, self.experts, self.top_k, self.batch_tokens)


class TrainingRun(Calculator):
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
    def wanted(self) -> bool:
        """Whether the devices are what is asked for."""
        return self.devices is None and self.mfu is not None and self.time is not None and self.tokens_per_s is None

    def check(self) -> None:
        if not self.wanted:
            exactly_one(self, "mfu", "tokens_per_s", "time")
        if self.peak is None and self.hw is None:
            raise UsageError("the peak FLOP/s is missing; give --hw or --peak")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.price.chip import Chip
        from rooflinecli.questions.scaling.training_run import run
        from rooflinecli.specs.hardware import load_hardware

        chip = None if self.hw is None else Chip(load_hardware(self.hw), lift)
        price = chip.price if self.price is None and chip is not None else self.price
        peak = chip.peak(self.dtype) if self.peak is None and chip is not None else self.peak
        devices = None if self.wanted else lift("n", 1.0, "1", "--devices") if self.devices is None else self.devices
        return run(self.params, self.tokens, devices, peak, self.mfu, self.tokens_per_s, price, self.time)


class Width(Calculator):
    """The model width for a parameter budget."""

    verb = "scaling width"
    params: Number = field("positive", "Parameter budget without embeddings (10M).", symbol="N", short="-p", metavar="COUNT")
    layers: Number = field("positive", "Layers.", symbol="L", metavar="COUNT")
    expansion: Number = field("positive", "d_ff / d_model.", default=4.0, symbol="E")
    multiple: Number = field("positive", "Round the width to a multiple of this.", default=64.0, symbol="m", metavar="COUNT")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.training_run import width

        return width(self.params, self.layers, self.expansion, self.multiple)


class Addition(Calculator):
    """Data for a transformer that learns to add: tokens per example, tokens and examples."""

    verb = "scaling addition"
    digits: Number = field("positive", "Digits of each addend.", default=3.0, symbol="n", metavar="COUNT")
    params: Number = field("positive", "Parameters.", default=10e6, symbol="N", short="-p", metavar="COUNT")
    tokens_per_param: Number = field("positive", "Rule of thumb of Hoffmann et al.", default=20.0, symbol="r")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.training_run import addition

        return addition(self.digits, self.params, self.tokens_per_param)


class BatchSize(Calculator):
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

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling import training_run

        if self.loss is not None:
            return training_run.kaplan_batch(self.loss)
        return training_run.batch_size(self.examples_min, self.steps_min, self.batch, self.seconds_per_example, self.seconds_per_step)


class NoiseScale(Calculator):
    """The gradient noise scale, an estimate of the critical batch, from gradient norms at two batch sizes."""

    verb = "scaling noise"
    small_batch: Number = field("positive", "The smaller batch.", symbol="b", metavar="COUNT")
    small_norm2: Number = field("positive", "Mean squared gradient norm there.", symbol="|G_b|^2")
    big_batch: Number = field("positive", "The larger batch.", symbol="B", metavar="COUNT")
    big_norm2: Number = field("positive", "Mean squared gradient norm there.", symbol="|G_B|^2")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.training_run import measured_noise_scale

        return measured_noise_scale(self.small_batch, self.small_norm2, self.big_batch, self.big_norm2)


class LearningRate(Calculator):
    """A learning rate for another batch: square root, linear, and by the noise scale."""

    verb = "scaling lr"
    lr: Number = field("positive", "Learning rate tuned at --batch (3e-4).", symbol="eta")
    batch: Number = field("positive", "The batch it was tuned at.", symbol="B", metavar="COUNT")
    new_batch: Number = field("positive", "The batch to move to.", symbol="B'", metavar="COUNT")
    noise_scale: OptNumber = field("positive", "Gradient noise scale, for the third rule.", default=None, symbol="B_noise", least=0)

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.scaling.training_run import learning_rate

        return learning_rate(self.lr, self.batch, self.new_batch, self.noise_scale)
# fmt: on


QUESTIONS = (
    Chinchilla, Loss, Kaplan, InferenceAware, Mixture, TrainingRun, Width, Addition, BatchSize, NoiseScale, LearningRate,
)  # fmt: skip
