"""The answer of `roofline search`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field
from typing import Generic, TypeVar

from rooflinecli.core.record import OPTIONAL, Record, former, former_keys
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.questions.sensitivity.answer_types import Elasticity, Tornado
from rooflinecli.questions.simulate.question import Numbers

SCHEMA = "roofline/search/2"
Scores = dict[str, float]  # quantity -> value


class TrainingLayout(Record):
    """Parallel sizes and memory techniques of a training run. shard: replicas of a shard group (HSDP), None for all of them."""

    devices: int | None = field(default=None, metadata=OPTIONAL)
    shard: int | None
    tp: int
    pp: int
    cp: int
    dp: int
    ep: int
    micro_batch: int
    virtual_stages: int
    zero: int
    recompute: str
    sequence_parallel: bool
    placement: str | None = field(default=None, metadata=OPTIONAL)

    @property
    def ranks(self) -> int:
        """Devices, as the product of the parallel sizes."""
        return self.tp * self.pp * self.cp * self.dp


class InstanceSizes(Record):
    """Parallel sizes of a serving instance."""

    tp: int
    pp: int
    dp: int
    ep: int

    @property
    def ranks(self) -> int:
        """Devices, as the product of the parallel sizes."""
        return self.tp * self.pp * self.dp

    def at_batch(self, batch: float) -> InstanceLayout:
        """The instance with `batch` running sequences in each of its replicas."""
        return InstanceLayout(tp=self.tp, pp=self.pp, dp=self.dp, ep=self.ep, devices=self.ranks, batch=batch)

    def flags(self) -> str:
        """The `roofline estimate` options of the sizes."""
        ep = f" --ep {self.ep}" if self.ep > 1 else ""
        return f"-n {self.ranks} --tp {self.tp} --pp {self.pp} --dp {self.dp}{ep}"


class InstanceLayout(InstanceSizes):
    """A serving instance: parallel sizes, devices, and running sequences of each of its replicas."""

    devices: int
    batch: float

    @property
    def command(self) -> str:
        """The `roofline estimate` options of the instance under its load."""
        return f"{self.flags()} --concurrency {self.batch:g}"


L = TypeVar("L", TrainingLayout, InstanceLayout)


class RankedRow(Record, Generic[L]):
    """A layout, its objectives at the expected value and at the bound that ranks, and the commands that print its numbers.

    limits_at_bound: what was compared with the limits, at the same bound.     chip and hardware: in a search over several; why: how it trails the best; best_of_chip: kept however far down it ranks.
    """

    chip: str | None = field(default=None, metadata=OPTIONAL)
    hardware: str | None = field(default=None, metadata=OPTIONAL)
    layout: L
    score: Scores
    score_at_bound: Scores = field(metadata=former("held"))
    limits_at_bound: Scores | None = field(default=None, metadata=OPTIONAL)
    command: str
    estimate: str = ""
    why: str | None = field(default=None, metadata=OPTIONAL)
    best_of_chip: bool | None = field(default=None, metadata=OPTIONAL)
    rank: int | None = field(default=None, metadata=OPTIONAL)


class TrainingRow(RankedRow[TrainingLayout]):
    """A training layout with its step."""

    time_s: float
    floor_s: float
    interval_s: tuple[float, float]
    tokens_per_s: float
    mfu: float
    hfu: float
    bubble_fraction: float
    breakdown_s: Scores
    communication_s: Scores
    memory: Residency
    bottleneck: str | None = field(metadata=former("bound"))
    extrapolations: list[str] = field(metadata=former("unsupported"))
    usd_per_million_training_tokens: float | None


class ServingRow(RankedRow[InstanceLayout]):
    """Serving instances: what all of them offer, by quantity, and the memory of a device."""

    serve: Scores
    memory: Scores = field(metadata=former_keys(headroom_fraction="headroom"))
    simulate: Numbers | None = field(default=None, metadata=OPTIONAL)


class NearestMiss(Record):
    """The layout that comes closest to being feasible, and what it lacks."""

    layout: TrainingLayout | InstanceLayout
    command: str
    lacks: str
    estimate: str = ""
    chip: str | None = field(default=None, metadata=OPTIONAL)


class Rejected(Record):
    """How many layouts a constraint rejects."""

    constraint: str
    layouts: int


class ChipOutcome(Record):
    """One chip of several: whether a layout is feasible on it, and why it could not be searched, '' where it was."""

    chip: str
    feasible: bool
    why: str


class ChipSearch(ChipOutcome):
    """A chip that was searched, with its own counts."""

    hardware: str
    layouts: int
    fit: int
    meet: int
    rejected: list[Rejected]
    nearest_miss: NearestMiss | None


R = TypeVar("R", TrainingRow, ServingRow)


class LayoutSearch(Record, Generic[R]):
    """What was searched, how many layouts were legal, fit in memory and satisfy the constraints, and the best of them."""

    schema: str = SCHEMA
    model: str
    hardware: str
    phase: str
    pareto: bool
    objective: list[str]
    bound: str = field(metadata=former("hold"))
    where: list[str]
    layouts: int
    fit: int
    meet: int
    rejected: list[Rejected]
    results: list[R]
    feasible: bool
    nearest_miss: NearestMiss | None
    chips: list[ChipOutcome] | None = field(default=None, metadata=OPTIONAL)
    unpriced: list[str] | None = field(default=None, metadata=OPTIONAL)
    sensitivity: list[Elasticity] | None = field(default=None, metadata=OPTIONAL)
    tornado: Tornado | None = field(default=None, metadata=OPTIONAL)


class WithinUncertainty(Record):
    """Layouts within model uncertainty of the best: how many, the simplest of them, and the measurement that would resolve it."""

    layouts: int
    simplest: TrainingLayout
    command: str
    separates: str


class TrainingSearch(LayoutSearch[TrainingRow]):
    """A search over training layouts on the device counts given."""

    devices: list[int]
    within_uncertainty: WithinUncertainty | None = field(metadata=former("tied"))


class Pool(Record):
    """One of two disaggregated pools: its instance, how many of them, requests per second of each, and the latency of its phase, expected and at the bound."""

    layout: InstanceSizes
    batch: float
    devices: float
    rate: float
    rate_at_bound: float
    ttft_s: float | None = field(default=None, metadata=OPTIONAL)
    itl_s: float | None = field(default=None, metadata=OPTIONAL)
    latency_at_bound_s: float
    instances: float
    chip: str
    estimate: str


class Pools(Record):
    """Disaggregated prefill and decode pools that together carry a rate."""

    prefill: Pool
    decode: Pool
    devices: float
    requests_per_s: float
    usd_per_hour: float | None
    usd_per_million_input_tokens: float | None = field(default=None, metadata=OPTIONAL)
    usd_per_million_output_tokens: float | None = field(default=None, metadata=OPTIONAL)
    usd_per_million_tokens: float | None = field(default=None, metadata=OPTIONAL)
    joules_per_token: float | None = field(default=None, metadata=OPTIONAL)
    summary: str = field(metadata=former("apart"))


class ServingSearch(LayoutSearch[ServingRow]):
    """A search over serving instances. devices: the most to use; qps: the rate to carry; pools: the best of `pool_rows`."""

    devices: float | None
    qps: float | None
    pools: Pools | None
    pool_rows: list[Pools]


SearchAnswer = TrainingSearch | ServingSearch
