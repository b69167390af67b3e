"""The answer of `roofline plan`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, SPREAD, Record
from rooflinecli.questions.search.answer_types import InstanceLayout, TrainingLayout

SCHEMA = "roofline/plan/1"


class TriedCount(Record):
    """A device count that was searched: legal layouts, time and cost of the run at the bound, None where nothing fits."""

    devices: int
    legal: int
    run_s: float | None
    training_usd: float | None


class PlannedChip(Record):
    """A chip of a plan: its rank, or why it is infeasible."""

    rank: int | None = None
    chip: str
    feasible: bool = True
    hardware: str
    why: str = ""
    tried: list[TriedCount] | None = field(default=None, metadata=OPTIONAL)

    @property
    def order(self) -> tuple[float, ...]:
        """What is better smaller among feasible chips."""
        return ()


class SizedChip(PlannedChip):
    """A chip with its device count. held_s, held_usd: time and cost at the bound; price: where the price comes from."""

    devices: int
    held_s: float
    held_usd: float | None
    usd_per_device_hour: float | None
    price: str | None
    command: str

    @property
    def order(self) -> tuple[float, ...]:
        if not self.feasible:
            return ()
        return (1.0, self.held_s) if self.held_usd is None else (0.0, self.held_usd, self.held_s)


class TrainingChip(SizedChip):
    """The training run on one chip."""

    layout: TrainingLayout
    time_s: float
    interval_s: list[float]
    mfu: float
    run_s: float
    run_interval_s: list[float]
    device_hours: float
    device_hours_interval: list[float]
    training_usd: float | None
    training_usd_interval: list[float] | None
    energy_j: float | None


class ServiceNumbers(Record):
    """So many instances of one layout: latencies and the price of tokens are those of one, rates those of all, with 80% intervals."""

    instances: int
    layout: InstanceLayout
    batch_in_all: float
    ttft_s: float
    interval_ttft_s: list[float]
    itl_s: float
    interval_itl_s: list[float]
    requests_per_s: float
    requests_per_s_interval: list[float]
    usd_per_million_input_tokens: float | None = None
    usd_per_million_output_tokens: float | None
    usd_per_million_output_tokens_interval: list[float] | None
    usd_per_million_tokens: float | None = None


class ServingChip(SizedChip):
    """The service on one chip: `numbers` are keys of the row itself. bill_usd: cost over the time that it is paid for."""

    numbers: ServiceNumbers = field(metadata=SPREAD)
    usd_per_hour: float | None
    bill_usd: float | None


class PlanAnswer(Record):
    """The chips, best first, and what was asked of them."""

    schema: str = SCHEMA
    model: str
    phase: str
    budget_usd: float | None
    hold: str
    way: str
    where: list[str]
    layouts: int
    rows: list[PlannedChip]
    unpriced: list[str]
    feasible: bool

    @property
    def sized(self) -> list[SizedChip]:
        """The feasible rows, best first."""
        return [row for row in self.rows if isinstance(row, SizedChip) and row.feasible]


class TrainingPlan(PlanAnswer):
    """A training run to plan for."""

    tokens: float | None
    deadline_s: float | None


class ServingPlan(PlanAnswer):
    """A service to plan for. period_s: how long it is paid for."""

    qps: float
    limits_s: dict[str, float]
    period_s: float | None
