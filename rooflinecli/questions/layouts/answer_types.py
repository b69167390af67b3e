"""The answer of `roofline partitioning`: SI throughout, the unit in the key."""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.core.record import Record


class FeedForwardPartitioning(Record):
    """A partitioning of the feed-forward block: times of a device, one after the other."""

    layout: str
    sent_bytes: Number
    communication_s: Number
    floor_s: Number
    weights_read_bytes: Number
    memory_s: Number
    time_s: Number


class AttentionPartitioning(Record):
    """A partitioning of attention."""

    attention: str
    cache_bytes: Number
    sent_bytes: Number
    communication_s: Number
    memory_s: Number
    floor_s: Number
    time_s: Number


class PartitioningAnswer(Record):
    """Partitionings of a layer over the devices, fastest first."""

    schema: str = "roofline/partitioning/1"
    model: str
    hardware: str
    devices: int
    tokens: Number
    context: Number
    weights_bytes: Number
    feedforward: list[FeedForwardPartitioning]
    attention: list[AttentionPartitioning]
