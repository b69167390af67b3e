"""Answers of `roofline scaling`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record


class TrainedPoint(Record):
    """Size, tokens and FLOPs of a run, and the loss of one fit there."""

    params: Number
    tokens: Number
    tokens_per_param: Number
    training_flops: Number
    loss: Number


class ChinchillaAnswer(Record):
    """The compute-optimal point by the rule of thumb, and by each fit."""

    schema: str = "roofline/scaling-chinchilla/1"
    params: Number
    tokens: Number
    tokens_per_param: Number
    training_flops: Number
    fits: dict[str, TrainedPoint]
    notes: list[str]


class FittedLoss(Record):
    """The loss of a run by one fit, its limit for the size, and the irreducible part."""

    loss: Number
    loss_limit: Number
    irreducible: Number


class LossAnswer(Record):
    """The loss of a run by each fit, and the optimum at its compute."""

    schema: str = "roofline/scaling-loss/1"
    params: Number
    tokens: Number
    tokens_per_param: Number
    training_flops: Number
    fits: dict[str, FittedLoss]
    optimum_at_this_compute: dict[str, TrainedPoint]
    notes: list[str]


class KaplanAnswer(Record):
    """The loss by each law that has an input."""

    schema: str = "roofline/scaling-kaplan/1"
    params: Number = field(default=None, metadata=OPTIONAL)
    loss_by_params: Number = field(default=None, metadata=OPTIONAL)
    tokens: Number = field(default=None, metadata=OPTIONAL)
    loss_by_tokens: Number = field(default=None, metadata=OPTIONAL)
    training_flops: Number = field(default=None, metadata=OPTIONAL)
    pflop_s_days: Number = field(default=None, metadata=OPTIONAL)
    loss_by_compute: Number = field(default=None, metadata=OPTIONAL)
    notes: list[str]


class Lifetime(Record):
    """A size at the common loss: FLOPs of training and serving it, and the saving against the base."""

    params: Number
    tokens: Number
    tokens_per_param: Number
    training_flops: Number
    inference_flops: Number
    lifetime_flops: Number
    saving: Number


class InferenceAwareAnswer(Record):
    """Sizes of equal loss by name."""

    schema: str = "roofline/scaling-inference-aware/1"
    loss: Number
    served_tokens: Number
    options: dict[str, Lifetime]
    notes: list[str]


class MixtureAnswer(Record):
    """Tokens of a budget, and tokens of an expert."""

    schema: str = "roofline/scaling-moe/1"
    training_flops: Number = field(default=None, metadata=OPTIONAL)
    active_params: Number = field(default=None, metadata=OPTIONAL)
    tokens: Number = field(default=None, metadata=OPTIONAL)
    compute_optimal_active_params: Number = field(default=None, metadata=OPTIONAL)
    total_params: Number = field(default=None, metadata=OPTIONAL)
    dense_tokens: Number = field(default=None, metadata=OPTIONAL)
    experts: Number = field(default=None, metadata=OPTIONAL)
    top_k: Number = field(default=None, metadata=OPTIONAL)
    batch_tokens: Number = field(default=None, metadata=OPTIONAL)
    expert_tokens: Number = field(default=None, metadata=OPTIONAL)
    experts_visited: Number = field(default=None, metadata=OPTIONAL)
    notes: list[str]


class TrainingRunAnswer(Record):
    """Devices, time, MFU and dollars of a run."""

    schema: str = "roofline/scaling-run/1"
    params: Number
    tokens: Number
    devices: Number
    flops_per_token: Number
    training_flops: Number
    mfu: Number
    time_s: Number
    time_days: Number
    device_hours: Number
    tokens_per_s: Number
    price_usd_per_hour: Number = field(default=None, metadata=OPTIONAL)
    training_usd: Number = field(default=None, metadata=OPTIONAL)
    flops_per_usd_at_peak: Number = field(default=None, metadata=OPTIONAL)
    notes: list[str]


class WidthAnswer(Record):
    """The width, exact and rounded, and its parameters."""

    schema: str = "roofline/scaling-width/1"
    d_exact: Number
    d_model: Number
    layers: Number
    params: Number
    notes: list[str]


class AdditionAnswer(Record):
    """Data for a transformer that learns to add."""

    schema: str = "roofline/scaling-addition/1"
    tokens_per_example: Number
    params: Number
    tokens: Number
    examples: Number
    training_flops: Number


class BatchPoint(Record):
    """Steps and examples to the target at a batch."""

    batch: Number
    steps: Number
    examples: Number
    time_s: Number = field(default=None, metadata=OPTIONAL)


class BatchSizeAnswer(Record):
    """The critical and the fastest batch, and batches by name."""

    schema: str = "roofline/scaling-batch/1"
    critical_batch: Number
    time_optimal_batch: Number = field(default=None, metadata=OPTIONAL)
    shortest_time_s: Number = field(default=None, metadata=OPTIONAL)
    batches: dict[str, BatchPoint]
    notes: list[str]


class KaplanBatchAnswer(Record):
    """The critical batch at a loss."""

    schema: str = "roofline/scaling-batch/1"
    loss: Number
    critical_batch_tokens: Number
    notes: list[str]


class NoiseScaleAnswer(Record):
    """The gradient noise scale, as a batch."""

    schema: str = "roofline/scaling-noise/1"
    gradient_norm_squared: Number
    gradient_variance: Number
    noise_scale_batch: Number


class LearningRateAnswer(Record):
    """The learning rate at the new batch by each rule."""

    schema: str = "roofline/scaling-lr/1"
    batch: Number
    new_batch: Number
    lr: Number
    lr_sqrt: Number
    lr_linear: Number
    lr_max: Number = field(default=None, metadata=OPTIONAL)
    lr_noise_scale: Number = field(default=None, metadata=OPTIONAL)
    notes: list[str]
