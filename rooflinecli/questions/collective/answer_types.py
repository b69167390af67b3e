"""The answer of `roofline collective`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import Record, former


class ChipName(Record):
    """A chip by the name people know and by its name in the registry."""

    name: str
    id: str


class NetworkLevelAnswer(Record):
    """The contribution of one network level, from the inside out."""

    name: str
    kind: str
    volume_bytes: Number
    bandwidth_bytes_per_s: Number
    latency_s: Number
    floor_s: Number
    expected_s: Number
    algorithm: str


class CollectiveAnswer(Record):
    """Bytes that each device sends, times with their 80% interval, and bus bandwidth as nccl-tests define it."""

    op: str
    hardware: ChipName
    bytes: Number
    devices: Number
    volume_bytes: Number
    floor_s: Number
    expected_s: Number
    time_s: Number
    interval_s: tuple[Number, Number]
    bus_bandwidth_bytes_per_s: Number
    latency_s: Number
    bottleneck: str = field(metadata=former("bound"))
    algorithm: str
    levels: list[NetworkLevelAnswer]
