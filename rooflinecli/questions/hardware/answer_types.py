"""The answer of `roofline hardware`: chips with their figures in SI, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, SPREAD, Record


class ChipMemory(Record):
    """Memory of a device."""

    kind: str
    capacity_bytes: float
    bandwidth_bytes_per_s: float


class NetworkLevel(Record):
    """A network level; the bandwidth is one way, per device or per link of a torus."""

    name: str
    kind: str
    size: int | None
    per: str
    bandwidth_bytes_per_s: float
    latency_s: float | None
    axes: int | None = field(default=None, metadata=OPTIONAL)
    shape: list[int] | None = field(default=None, metadata=OPTIONAL)
    wrap: str | None = field(default=None, metadata=OPTIONAL)


class SystemTotals(Record):
    """All devices that one network level joins: a server, a rack, a pod. The bisection counts one direction."""

    level: str
    devices: int
    hosts: float | None
    dtype: str
    peak_flops_per_s: float
    capacity_bytes: float
    bandwidth_bytes_per_s: float
    bisection_bytes_per_s: float


class ListedPrice(Record):
    """The price in a chip's file."""

    usd_per_hour: float
    provider: str
    date: str
    basis: str


class Chip(Record):
    """A chip as the list and the comparison show it; `unverified` names the figures that nothing confirms."""

    schema: str
    name: str
    title: str
    aliases: list[str]
    vendor: str
    kind: str
    year: int | None
    file: str
    memory: ChipMemory
    peak_flops_per_s: dict[str, float]
    ridge_flop_per_byte: dict[str, float]
    network: list[NetworkLevel]
    systems: list[SystemTotals]
    devices_per_host: int | None
    host_link_bytes_per_s: float | None
    power_w: float | None
    price: ListedPrice | None
    unverified: list[str]
    notes: list[str]


class Chips(Record):
    """Chips that were listed or compared; `dtype` is the one that the list was filtered by."""

    chips: list[Chip]
    dtype: str | None = None


class ChipFigure(Record):
    """A figure with the place where it was written and what it comes from."""

    quantity: str
    value: float
    unit: str
    written: str
    basis: str
    note: str
    verified: bool
    source: str
    citation: str
    at: str


class ConstantRow(Record):
    """Efficiency constants of an operation class, those that were written down."""

    class_: str
    constants: dict[str, float]
    error: float
    source: str
    note: str
    citation: str
    at: str


class ChipSheet(Record):
    """A chip with every figure, its efficiency constants and its sources."""

    chip: Chip = field(metadata=SPREAD)
    figures: list[ChipFigure]
    efficiency: list[ConstantRow]
    sources: dict[str, str]
