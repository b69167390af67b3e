"""`roofline shard "X[I_x, J] W[J_y, K]" --mesh x=4,y=2 --sizes I=1k,J=4k,K=4k --hw tpu-v5e` as a record."""

from __future__ import annotations

from dataclasses import field as key

from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import SPREAD, Record
from rooflinecli.questions.collective.question import ChipName
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Text, field


class SentArray(Record):
    """One collective of a sharded matmul."""

    op: str
    array: str
    axes: str
    devices: Quantity
    bytes: Quantity
    sent_bytes: Quantity
    floor_s: Quantity
    expected_s: Quantity


class ShardedMatmul(Record):
    """One sharding of a matmul: its case, collectives and times."""

    case: int
    case_name: str
    collectives: list[SentArray]
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


class SlicedMatmul(Record):
    """The same matmul with the whole operand sliced first, so that partial results are added up."""

    slice: str
    cheaper: bool
    collectives: list[SentArray]
    communication_bytes: Quantity
    communication_s: Quantity
    compute_s: Quantity
    expected_s: Quantity
    floor_s: Quantity


class RankedSharding(Record):
    """A way to split the matmul over the whole mesh."""

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
    """A sharded matmul, and the shardings of it over the whole mesh, the least communication first."""

    schema: str = "roofline/shard/1"
    matmul: str
    mesh: dict[str, float]
    hardware: ChipName
    dtype: str
    sharding: ShardedMatmul = key(metadata=SPREAD)
    instead: SlicedMatmul | None
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
        from rooflinecli.questions.shard import notation
        from rooflinecli.questions.shard.answer import shard
        from rooflinecli.specs.hardware import load_hardware

        axes = notation.mesh(self.mesh)
        arrays, sizes = notation.arrays(self.matmul, axes), notation.assignments(self.sizes, "--sizes")
        return shard(arrays, axes, sizes, load_hardware(self.hw), self.dtype, lift)
# fmt: on
