"""The answer of `roofline fleet`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import SPREAD, Record
from rooflinecli.questions.plan.answer_types import ServiceNumbers

SCHEMA = "roofline/fleet/1"


class PlacedService(Record):
    """A model on a group of devices: `numbers` are keys of the row itself.

    unused: devices that stay idle so that instances stay inside hosts; share: fraction of the model's traffic;
    held_requests_per_s: its rate at the bound.
    """

    name: str
    model: str
    group: str
    hardware: str
    devices: int
    numbers: ServiceNumbers = field(metadata=SPREAD)
    unused: int
    usd_per_hour: float | None
    held_requests_per_s: float
    qps: float
    share: float
    usd_per_device_hour: float | None
    command: str


class RefusedGroup(Record):
    """A group that cannot serve a model, and why."""

    group: str
    why: str


class ServedModel(Record):
    """A model: traffic requested and served. growth: largest factor of its own traffic; load: fraction of the fleet if alone."""

    name: str
    model: str
    qps: float
    limits_s: dict[str, float]
    carried_qps: float
    held_requests_per_s: float
    devices: int
    usd_per_hour: float | None
    growth: float | None
    load: float | None
    refused: list[RefusedGroup]


class UsedGroup(Record):
    """A group of devices. needed: how many would be enough, where the fleet does not carry all; price: where the price comes from."""

    name: str
    hardware: str
    devices: int
    used: int
    spare: int
    needed: int | None
    usd_per_device_hour: float | None
    price: str | None
    usd_per_hour: float | None


class FleetAnswer(Record):
    """Which model on which devices. growth: largest common factor of all traffic; within: optimality gap, 0 where exact."""

    schema: str = SCHEMA
    hold: str
    objective: str
    split: bool
    layouts: int
    feasible: bool
    growth: float
    bottleneck: str | None
    exact: bool
    within: float
    devices: int
    spare: int
    usd_per_hour: float | None
    groups: list[UsedGroup]
    models: list[ServedModel]
    rows: list[PlacedService]
    unpriced: list[str]
