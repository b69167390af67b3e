"""`roofline fleet FILE` as a record."""

from __future__ import annotations

from dataclasses import field as key
from pathlib import Path

from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.record import OPTIONAL, SPREAD, Record, former
from rooflinecli.questions.plan.question import ServiceNumbers
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptText, Switch, Text, field
from rooflinecli.specs.request import BOUNDS

SCHEMA = "roofline/fleet/2"


class PlacedService(Record):
    """A model on a group of devices: `numbers` are keys of the row itself.

    unused: devices that stay idle so that instances stay inside hosts; share: fraction of the model's traffic;
    requests_per_s_at_bound: its capacity at the bound.
    """

    name: str
    model: str
    group: str
    hardware: str
    devices: int
    numbers: ServiceNumbers = key(metadata=SPREAD)
    unused: int
    usd_per_hour: float | None
    requests_per_s_at_bound: float = key(metadata=former("held_requests_per_s"))
    qps: float
    share: float
    usd_per_device_hour: float | None
    command: str


class RefusedGroup(Record):
    """A group that cannot serve a model, and why."""

    group: str
    infeasible_reason: str = key(metadata=former("why"))


class ServedModel(Record):
    """A model: traffic requested and served. growth: largest factor of its own traffic; load: fraction of the fleet if alone."""

    name: str
    model: str
    qps: float
    limits_s: dict[str, float]
    served_qps: float = key(metadata=former("carried_qps"))
    requests_per_s_at_bound: float = key(metadata=former("held_requests_per_s"))
    devices: int
    usd_per_hour: float | None
    growth: float | None
    load: float | None
    refused: list[RefusedGroup]


class UsedGroup(Record):
    """A group of devices. off: further ones that its caps on power leave off; needed: how many would be enough, where the fleet does not carry all; price: where the price comes from."""

    name: str
    hardware: str
    devices: int
    used: int
    spare: int
    off: int | None = key(metadata=OPTIONAL)
    needed: int | None
    usd_per_device_hour: float | None
    price: str | None
    usd_per_hour: float | None


class FleetAnswer(Record):
    """Which model on which devices. growth: largest common factor of all traffic; optimality_gap: 0 where exact."""

    schema: str = SCHEMA
    bound: str = key(metadata=former("hold"))
    objective: str
    split: bool
    layouts: int
    feasible: bool
    growth: float
    bottleneck: str | None
    exact: bool
    optimality_gap: float = key(metadata=former("within"))
    devices: int
    spare: int
    usd_per_hour: float | None
    groups: list[UsedGroup]
    models: list[ServedModel]
    rows: list[PlacedService]
    unpriced: list[str]


class FleetPlan(Question[FleetAnswer]):
    """Which model on which chips with what layout and how many replicas; what is left over, and how far traffic may grow.

    The least cost (or fewest devices) at which every model has its rate inside its limits, exactly; where the fleet does not carry
    all of it, the largest equal fraction of every model's traffic. Exit code 1 when it does not fit.
    """

    verb = "fleet"
    examples = ("roofline fleet examples/fleet.yaml --objective devices --allow-split",)
    # fmt: off
    file: Text = field("file", "YAML: groups of devices and models with their traffic (docs/plan.md).", positional=True, metavar="FILE", kw_only=False)
    bound: OptText = field("choice", "Bound of the interval at which rates and limits must hold, instead of the file's", default=None, choices=BOUNDS, former=("hold",))
    objective: OptText = field("choice", "Objective to minimize; default: cost if every price is known, else devices", default=None, choices=("cost", "devices"))
    allow_split: Switch = field("switch", "Let a model run on several groups wherever that is less, not only where it must.", default=False, former=("split",))
    # fmt: on

    def answer(self, workers: Workers | None = None) -> FleetAnswer:
        from rooflinecli.questions.fleet.answer import fleet

        return fleet(Path(self.file), self.bound, self.objective, self.allow_split, workers)
