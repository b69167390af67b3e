"""`roofline fleet FILE` as a record."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions.fleet.answer_types import FleetAnswer
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptText, Switch, Text, field
from rooflinecli.specs.request import HOLDS


class FleetPlan(Question[FleetAnswer]):
    """Which model on which chips with what layout and how many replicas; what is left over, and how far traffic may grow.

    The least cost (or fewest devices) at which every model has its rate inside its limits, exactly; where the fleet does not carry
    all of it, the largest equal fraction of every model's traffic. Exit code 1 when it does not fit.
    """

    verb = "fleet"
    examples = ("roofline fleet examples/fleet.yaml --objective devices --allow-split",)
    # fmt: off
    file: Text = field("file", "YAML: groups of devices and models with their traffic (docs/plan.md).", positional=True, metavar="FILE", kw_only=False)
    bound: OptText = field("choice", "Bound of the interval that rates and limits are held to, instead of the file's", default=None, choices=HOLDS, former=("hold",))
    objective: OptText = field("choice", "What is minimized, cost where every price is known", default=None, choices=("cost", "devices"))
    allow_split: Switch = field("switch", "Let a model run on several groups wherever that is less, not only where it must.", default=False, former=("split",))
    # fmt: on

    def answer(self, over: Spread | None = None) -> FleetAnswer:
        from rooflinecli.questions.fleet.answer import fleet

        return fleet(Path(self.file), self.bound, self.objective, self.allow_split, over)
