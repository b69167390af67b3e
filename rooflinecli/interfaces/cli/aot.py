"""`roofline aot script.py:function --args "f32[128,256]" ... --hw HW`: a compiled function on the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.interfaces.cli.from_question import Delivery, Plotted, command, show
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptNumber, Text, Texts, field

if TYPE_CHECKING:
    from rooflinecli.measure.aot import AotAnswer


class AheadOfTime(Question["AotAnswer"]):
    """Lower and compile a JAX function ahead of time, and put it on the roofline of any chip; nothing is run on arrays.

    FLOPs and bytes come from its jaxpr, next to XLA's own analysis and what that miscounts: loop bodies counted once,
    unused matmuls, elementwise work. Exit code 1 when it does not fit into the chip's memory.
    """

    verb = "aot"
    # fmt: off
    target: Text = field("free", "script.py:function, jitted or not.", positional=True)
    more: Texts = field("free", "Further arguments, as after --args.", default=None, positional=True, several=True, metavar="SHAPE...")
    args: Texts = field("free", "Arguments as shapes: f32[128,256], bf16[8,1024], (f32[8], i32[]), {w: f32[8,8]}, 0.5.", default=None, several=True, metavar="SHAPES")
    hw: Text = field("name", "A chip (`roofline hardware`); it need not be the one that compiles.")
    trips: OptNumber = field("number", "Trips of a loop whose end is not known before it runs.", default=None, least=1, metavar="COUNT")
    # fmt: on

    def answer(self) -> AotAnswer:
        from rooflinecli.measure.aot import analyse
        from rooflinecli.measure.function_signature import arguments, load
        from rooflinecli.specs.hardware import load_hardware

        chip, shapes = load_hardware(self.hw), arguments([*self.args, *self.more])
        return analyse(load(self.target), shapes, chip, self.target, self.trips)

    def check(self) -> None:
        if self.more and len(self.args) > 1:
            raise UsageError(
                "give shapes after one --args, or repeat --args for each; not both, since their order would be lost"
            )


class PlottedDelivery(Plotted, Delivery):
    """A table, and the roofline as a picture."""

    without = frozenset({"schema"})


def run(question: AheadOfTime, how: PlottedDelivery) -> int:
    """Compile and print; the exit code is 1 where the function does not fit into memory."""
    from importlib.util import find_spec

    if find_spec("jax") is None:
        raise UsageError(f"aot compiles with jax; install it with: {install('measure')}")
    answer = question.answer()
    show(answer, "ops.compiled", how, table="rows")
    return 0 if answer.feasible else 1


app = command(AheadOfTime, run, PlottedDelivery)
