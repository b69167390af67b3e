"""`roofline partitioning MODEL --hw HW -n N` as a record."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PlainLift
from rooflinecli.questions.calculator import Calculator, Values
from rooflinecli.specs.options import Number, Text, field


# fmt: off
class Partitioning(Calculator):
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

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.layouts.answer import layouts
        from rooflinecli.specs.hardware import load_hardware
        from rooflinecli.specs.model import load_model

        if lift.traced:
            raise UsageError("--explain: a partitioning is not explained; `roofline kernel` and `roofline collective` explain its parts", "explain")
        return layouts(load_model(self.model), load_hardware(self.hw), int(self.n), self.batch, self.tokens, self.context, self.dtype)
# fmt: on
