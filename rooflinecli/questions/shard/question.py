"""`roofline shard "X[I_x, J] W[J_y, K]" --mesh x=4,y=2 --sizes I=1k,J=4k,K=4k --hw tpu-v5e` and `roofline partitioning MODEL --hw HW -n N` as
records.
"""

from __future__ import annotations

from dataclasses import field as key

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import SPREAD, Record
from rooflinecli.questions.collective.question import ChipName
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, Text, field


class ShardingCollective(Record):
    """A collective of a sharded matmul: the array it is on, over which mesh axes, its bytes, and those that a device sends."""

    op: str
    array: str
    axes: str
    devices: float
    bytes: Quantity
    sent_bytes: Quantity
    floor_s: Quantity
    expected_s: Quantity


class Sharding(Record):
    """Which of the four cases a sharded matmul is, what it sends, and how long its collectives and its local matmul take, one after the other."""

    case: int
    case_name: str
    collectives: list[ShardingCollective]
    communication_bytes: Quantity
    communication_s: Quantity
    communication_floor_s: Quantity
    compute_s: Quantity
    compute_floor_s: Quantity
    floor_s: Quantity
    expected_s: Quantity
    time_s: Quantity
    communication_over_compute: Quantity
    flops_per_device: Quantity
    held_bytes: Quantity
    replication: dict[str, Quantity]
    result: str


class SlicedSharding(Record):
    """The other way of case 2: the whole operand is sliced, and partial results are added up; cheaper: whether fewer bytes are sent."""

    slice: str
    cheaper: bool
    collectives: list[ShardingCollective]
    communication_bytes: Quantity
    communication_s: Quantity
    compute_s: Quantity
    expected_s: Quantity
    floor_s: Quantity


class RankedSharding(Record):
    """A way to split a matmul over the whole mesh."""

    sharding: str
    matmul: str
    case: int
    time_s: Quantity
    floor_s: Quantity
    communication_bytes: Quantity
    communication_s: Quantity
    compute_s: Quantity
    held_bytes: Quantity


class ShardAnswer(Record):
    """A sharded matmul as written, what it could be instead, and the ways to split it over the whole mesh, fastest first."""

    schema: str = "roofline/shard/1"
    matmul: str
    mesh: dict[str, float]
    hardware: ChipName
    dtype: str
    sharding: Sharding = key(metadata=SPREAD)
    instead: SlicedSharding | None
    ranking: list[RankedSharding]


# fmt: off
class Shard(Question[ShardAnswer]):
    """Which of the four sharding cases a matmul is, the collective it needs, its bytes and time, and the alternatives."""

    verb = "shard"
    examples = ('roofline shard "X[I_x, J] W[J_y, K]" --mesh x=4,y=2 --sizes I=1k,J=4k,K=16k --hw tpu-v5e',)
    matmul: Text = field("free", 'Two arrays, split dimensions marked: "X[I_x, J] W[J_y, K]"; "-> Y[I, K_x]" asks for a result.', positional=True)
    mesh: Text = field("free", "Mesh axes, outermost first: x=4,y=2.", metavar="AXES")
    sizes: Text = field("free", "Dimensions: I=1k,J=4k,K=16k.", metavar="AXES")
    hw: Text = field("name", "A chip or system (`roofline hardware`).")
    dtype: Text = field("free", "Number format.", default="bf16", metavar="FORMAT")

    def answer(self, lift: PlainLift = PLAIN) -> ShardAnswer:
        from rooflinecli.questions.shard import answer as notation
        from rooflinecli.questions.shard.answer import shard
        from rooflinecli.specs.hardware import load_hardware

        axes = notation.mesh(self.mesh)
        arrays, sizes = notation.arrays(self.matmul, axes), notation.assignments(self.sizes, "--sizes")
        return shard(arrays, axes, sizes, load_hardware(self.hw), self.dtype, lift)
# fmt: on


class Partitioned(Record):
    """A partitioning: what a device sends and how long its communication and its memory take, one after the other."""

    layout: str
    sent_bytes: Quantity
    communication_s: Quantity
    floor_s: Quantity
    weights_read_bytes: Quantity
    memory_s: Quantity
    time_s: Quantity


class PartitionedAttention(Record):
    """The same of attention over a cache."""

    attention: str
    cache_bytes: Quantity
    sent_bytes: Quantity
    communication_s: Quantity
    memory_s: Quantity
    floor_s: Quantity
    time_s: Quantity


class PartitioningAnswer(Record):
    """Partitionings of a layer over the devices, fastest first."""

    schema: str = "roofline/partitioning/1"
    model: str
    hardware: str
    devices: int
    tokens: Quantity
    context: Quantity
    weights_bytes: Quantity
    feedforward: list[Partitioned]
    attention: list[PartitionedAttention]


# fmt: off
class Partitioning(Question[PartitioningAnswer]):
    """1D and 2D weight-stationary and weight-gathered partitionings of a layer, and attention by head or sequence, ranked."""

    verb = "partitioning"
    examples = ("roofline partitioning llama70b --hw tpu-v5e -n 16 --batch 64",)
    model: Text = field("name", "A name or alias (`roofline models`), or a YAML path.", positional=True)
    hw: Text = field("name", "A chip or system (`roofline hardware`).")
    n: Number = field("count", "Devices the layer is split over: a power of two.", short="-n", also=("devices",))
    batch: Number = field("count", "Sequences.", default=64.0)
    tokens: Number = field("length", "Tokens of each sequence in the pass: 1 in decode, the prompt in prefill.", default=1.0)
    context: Number = field("length", "Tokens in the cache.", default=2048.0)
    dtype: Text = field("free", "Number format.", default="bf16", metavar="FORMAT")

    def answer(self, lift: PlainLift = PLAIN) -> PartitioningAnswer:
        from rooflinecli.questions.shard.answer import layouts
        from rooflinecli.specs.hardware import load_hardware
        from rooflinecli.specs.model import load_model

        if lift.traced:
            raise UsageError("--explain: a partitioning is not explained; `roofline kernel` and `roofline collective` explain its parts", "explain")
        return layouts(load_model(self.model), load_hardware(self.hw), int(self.n), self.batch, self.tokens, self.context, self.dtype)
# fmt: on
