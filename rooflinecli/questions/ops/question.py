"""`roofline ops MODEL --hw HW` as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.questions.question import Question
from rooflinecli.specs.options import EstimateOptions, OptWhole, Text, field

if TYPE_CHECKING:
    from rooflinecli.questions.ops.answer import OpsAnswer


class Ops(EstimateOptions, Question["OpsAnswer"]):
    """Each operation of a phase: shape, FLOPs, bytes, intensity, bottleneck, floor, expected time and its share.

    The shares of a phase add up to its time in `roofline estimate`. Figures are of one device, over all launches of one
    prefill, decode step or training step. Exit code 1 when the layout does not fit.
    """

    verb = "ops"
    examples = (
        "roofline ops llama-3-8b --hw h100 -n 1 --phase decode --sort time --top 10",
        "roofline ops llama70b --hw h100 -n 8 --phase prefill --plot roofline.svg",
    )
    without = frozenset(("price", "region", "electricity", "host_factor", "pue", "utilization", "tokens"))
    # fmt: off
    sort: Text = field("choice", "Order of the rows; order: as they run", default="order", choices=("order", "time", "flops", "bytes", "intensity"))
    top: OptWhole = field("whole", "Rows shown of each phase, the longest first.", default=None)
    # fmt: on

    def answer(self) -> OpsAnswer:
        from rooflinecli.engine import build_request
        from rooflinecli.questions.ops.answer import operations

        return operations(build_request.request(self.options()), self.sort, self.top, self.options())
