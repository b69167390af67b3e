"""`roofline shard "X[I_x, J] W[J_y, K]" --mesh x=4,y=2 --sizes I=1k,J=4k,K=4k --hw tpu-v5e` as a record."""

from __future__ import annotations

from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.record import Quantities
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Text, field


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
