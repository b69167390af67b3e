"""The answer of `roofline shard`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import SPREAD, Record
from rooflinecli.questions.collective.answer_types import ChipName


class SentArray(Record):
    """One collective of a sharded matmul."""

    op: str
    array: str
    axes: str
    devices: Number
    bytes: Number
    sent_bytes: Number
    floor_s: Number
    expected_s: Number


class ShardedMatmul(Record):
    """One sharding of a matmul: its case, collectives and times."""

    case: int
    case_name: str
    collectives: list[SentArray]
    communication_bytes: Number
    communication_s: Number
    communication_floor_s: Number
    compute_s: Number
    compute_floor_s: Number
    floor_s: Number
    expected_s: Number
    time_s: Number
    communication_over_compute: Number
    flops_per_device: Number
    held_bytes: Number
    replication: dict[str, Number]
    result: str


class SlicedMatmul(Record):
    """The same matmul with the whole operand sliced first, so that partial results are added up."""

    slice: str
    cheaper: bool
    collectives: list[SentArray]
    communication_bytes: Number
    communication_s: Number
    compute_s: Number
    expected_s: Number
    floor_s: Number


class RankedSharding(Record):
    """A way to split the matmul over the whole mesh."""

    sharding: str
    matmul: str
    case: int
    time_s: Number
    floor_s: Number
    communication_bytes: Number
    communication_s: Number
    compute_s: Number
    held_bytes: Number


class ShardAnswer(Record):
    """A sharded matmul, and the shardings of it over the whole mesh, the least communication first."""

    schema: str = "roofline/shard/1"
    matmul: str
    mesh: dict[str, float]
    hardware: ChipName
    dtype: str
    sharding: ShardedMatmul = field(metadata=SPREAD)
    instead: SlicedMatmul | None
    ranking: list[RankedSharding]
