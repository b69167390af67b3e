"""The answer of `roofline fit`: which file types hold a model on a device, and their rates."""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.core.record import Record


class FitModel(Record):
    """The model that is asked for."""

    name: str
    id: str
    parameters: int
    max_context: int | None


class FitDevice(Record):
    """The device; `reserve_bytes` is what the runtime and a desktop take of it."""

    name: str
    id: str
    capacity_bytes: float
    reserve_bytes: float


class FitLoad(Record):
    """One stream of this prompt and output."""

    prompt: Number
    output: Number
    batch: int
    engine: str


class FitRow(Record):
    """One file type: bytes of its tensors, bits per weight, whether it fits, the longest context, and rates at the prompt asked for."""

    file: str
    bytes: int
    bits_per_weight: float
    fits: bool
    max_context: int
    engine: str
    decode_tokens_per_s: float | None = None
    decode_interval_per_s: tuple[float, float] | None = None
    prefill_tokens_per_s: float | None = None
    prefill_interval_per_s: tuple[float, float] | None = None
    layers_on_host: int | None = None
    experts_on_host: int | None = None


class FitAnswer(Record):
    """File types, the largest that holds the prompt and the output among them."""

    schema: str
    model: FitModel
    hardware: FitDevice
    workload: FitLoad
    largest: str | None
    files: list[FitRow]
    notes: list[str]
