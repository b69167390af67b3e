"""The object that `roofline estimate` answers with, typed: the JSON contract `roofline/estimate/2`, field by field.

SI throughout, the unit in the key; docs/schema/estimate.json is generated from these classes.
"""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Record, former
from rooflinecli.engine.phase_answer import LayoutAnswer, PhaseAnswer

SCHEMA = "roofline/estimate/2"


class ParameterCounts(Record):
    """Exact counts; `active` is what a token passes through, the input embedding included."""

    total: int
    active: int
    embedding: int
    active_without_embedding: int


class ModelAnswer(Record):
    """The model, its parameters and what its weights come to."""

    name: str
    id: str
    layers: int
    parameters: ParameterCounts
    weights_bytes: float


class HardwareAnswer(Record):
    """One device: dense peak in the format computed in, memory bandwidth and capacity, the ridge of its roofline.

    power_basis: where the power under load comes from: measured, never measured (a share of TDP), or TDP.
    """

    name: str
    id: str
    peak_flops_per_s: float
    bandwidth_bytes_per_s: float
    capacity_bytes: float
    ridge_flops_per_byte: float
    power_basis: str | None = field(default=None, metadata=OPTIONAL)


class Workload(Record):
    """The workload, defaults filled in: sequences per replica in serving, the global batch in training, lengths in tokens. `max_num_seqs`:
    requests that the engine runs at once, where it would not run as many as the cache holds.

    weight_dtype is the format in which the weights are stored, matmul_dtype the peak at which matmuls over them run. `prompt` is all that a request brings: text with the tokens of its images (`image_tokens` each), or the source of a pair.
    """

    dtype: str
    weight_dtype: str
    matmul_dtype: str
    kv_dtype: str
    attention_flops: str
    efficiency: str
    batch: float | None = field(default=None, metadata=OPTIONAL)
    prompt: float | None = field(default=None, metadata=OPTIONAL)
    images: float | None = field(default=None, metadata=OPTIONAL)
    image_size: str | None = field(default=None, metadata=OPTIONAL | former("image"))
    image_tokens: float | None = field(default=None, metadata=OPTIONAL)
    video_frames: int | None = field(default=None, metadata=OPTIONAL)
    diffusion_steps: float | None = field(default=None, metadata=OPTIONAL | former("steps"))
    guidance: bool | None = field(default=None, metadata=OPTIONAL)
    output: float | None = field(default=None, metadata=OPTIONAL)
    qps: float | None = field(default=None, metadata=OPTIONAL)
    concurrency: float | str | None = field(default=None, metadata=OPTIONAL)
    request_lengths: str | None = field(default=None, metadata=OPTIONAL)
    max_num_seqs: float | None = field(default=None, metadata=OPTIONAL)
    train_batch: float | None = field(default=None, metadata=OPTIONAL)
    seq: float | None = field(default=None, metadata=OPTIONAL)
    doc_lengths: str | None = field(default=None, metadata=OPTIONAL | former("lengths"))
    gradient_bytes: float | None = field(default=None, metadata=OPTIONAL)
    optimizer_bytes: float | None = field(default=None, metadata=OPTIONAL)
    tokens: float | None = field(default=None, metadata=OPTIONAL)


class Cost(Record):
    """Dollars; None where no price is known, or the phase was not asked for.

    Input and output tokens at their prices add up to what the server costs; `usd_per_million_tokens` is of both together. `elapsed_usd`
    is of a run with its failures, checkpoints and restarts, `training_usd` of its steps alone.
    """

    usd_per_million_input_tokens: float | None = None
    usd_per_million_output_tokens: float | None = None
    usd_per_million_tokens: float | None = None
    usd_per_million_training_tokens: float | None = None
    training_usd: float | None = None
    elapsed_usd: float | None = None
    usd_per_device_hour: float | None = None


class PriceAnswer(Record):
    """The offer behind the dollars: who offered it, of which kind, where and when, and 10 to 90% of `offers` rows of that chip and kind
    where no provider is named. age_s is its age today."""

    usd_per_device_hour: float
    usd_per_device_hour_interval: tuple[float, float]
    offers: int
    provider: str
    kind: str
    instance: str
    region: str
    date: str
    age_s: float | None
    source: str
    file: str


OVERLOADED = ".load"  # ends the constraint of a phase whose request rate is not sustained


class Violation(Record):
    """A violated memory limit: bytes needed and available per device, and the nearest feasible layout."""

    constraint: str
    needed: float | None = None
    available: float | None = None
    nearest: LayoutAnswer | None = None
    message: str


class Explanation(Record):
    """A single assumption that moves a phase's time toward the measured one: what the step would take with it, the share
    of the measured time that stays unexplained, and how large a change it asks for (0 none, 1 everything)."""

    assumption: str
    time_s: float
    mfu: float
    gap: float
    change: float


class TriedChange(Record):
    """A change of the question and what the expected time of a phase becomes with it; fractions of today's time and rate. A larger batch
    saves none of its step's time (a negative fraction)."""

    phase: str
    flags: str
    time_s: float
    saved_fraction: float
    rate_gain_fraction: float


class EstimateAnswer(Record):
    """The whole answer; `plan` is that of the first phase, `notes` what a reader should know before leaning on it."""

    schema: str = SCHEMA
    model: ModelAnswer
    hardware: HardwareAnswer
    layout: LayoutAnswer = field(metadata=former("plan"))
    workload: Workload
    phases: dict[str, PhaseAnswer]
    cost: Cost
    price: PriceAnswer | None = field(default=None, metadata=OPTIONAL)
    feasible: bool
    violations: list[Violation]
    notes: list[str] | None = field(default=None, metadata=OPTIONAL)
    gap_explanations: list[Explanation] | None = field(default=None, metadata=OPTIONAL | former("explained_by"))
    changes_to_try: list[TriedChange] | None = field(default=None, metadata=OPTIONAL)

    @property
    def timed(self) -> dict[str, PhaseAnswer]:
        """The phases that have a time: a load of requests of one token decodes nothing."""
        return {name: found for name, found in self.phases.items() if "time_s" in found}

    @property
    def under_load(self) -> bool:
        """Whether requests arrive and are served, rather than one batch being run."""
        return self.workload.concurrency is not None or self.workload.qps is not None
