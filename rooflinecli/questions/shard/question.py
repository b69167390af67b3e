"""`roofline shard "X[I_x, J] W[J_y, K]" --mesh x=4,y=2 --sizes I=1k,J=4k,K=4k --hw tpu-v5e` and `roofline partitioning MODEL --hw HW -n N` as
records.
"""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Quantities, Record
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, Text, field


# fmt: off
class Shard(Question[Quantities]):
    """Which of the four sharding cases a matmul is, the collective it needs, its bytes and time, and the alternatives."""

    verb = "shard"
    examples = ('roofline shard "X[I_x, J] W[J_y, K]" --mesh x=4,y=2 --sizes I=1k,J=4k,K=16k --hw tpu-v5e',)
    matmul: Text = field("free", 'Two arrays, split dimensions marked: "X[I_x, J] W[J_y, K]"; "-> Y[I, K_x]" asks for a result.', positional=True)
    mesh: Text = field("free", "Mesh axes, outermost first: x=4,y=2.", metavar="AXES")
    sizes: Text = field("free", "Dimensions: I=1k,J=4k,K=16k.", metavar="AXES")
    hw: Text = field("name", "A chip or system (`roofline hardware`).")
    dtype: Text = field("free", "Number format.", default="bf16", metavar="FORMAT")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
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
