"""`roofline plan MODEL --tokens 15T --deadline 30d --hw h100,b200` as a record."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions.plan.answer_types import PlanAnswer
from rooflinecli.questions.question import Question, Several
from rooflinecli.questions.search.question import FIXED, RESTRICTED, Prices
from rooflinecli.specs.options import LOAD, EstimateOptions, OptNumber, OptText, Texts, field


class Plan(Prices, EstimateOptions, Several, Question[PlanAnswer]):  # type: ignore[misc]  # a price for each chip
    """How many devices, of which chip, for how long, at what cost: every chip's answer side by side, the cheapest first.

    Training: the fewest devices of each chip that see --tokens by --deadline, or the shortest run that --budget pays for, each with
    the best layout by search. Serving: the fewest that carry --qps inside --slo. All at the pessimistic bound of the interval (--bound).
    Exit code 1 when no chip can.
    """

    verb = "plan"
    examples = (
        "roofline plan llama-3-70b --tokens 15T --deadline 30d --hw h100,b200,tpu-v6e",
        "roofline plan llama-3-70b --tokens 15T --budget '10 M USD' --hw h100,mi300x --price mi300x=2.50",
        "roofline plan llama-3-70b --phase decode --qps 50 --slo ttft=1s,itl=40ms --hw h100,b200",
    )
    ranged = frozenset({*RESTRICTED, "batch"})
    without = FIXED | {"concurrency"}
    helps = {
        "phase": "train, or decode for a service at --qps; omitted: decode where --qps, --slo or another serving option is given, else train.",
        "n": "The most devices to have of a chip.",
        "batch": "Global batch (4M-tokens (4 x 2^20) works too); serving: batches to try (1..1024).",
        **dict.fromkeys(RESTRICTED, "Restrict the layouts that are searched, e.g. to 8 or 4,8."),
        "recompute": "Restrict recomputation, e.g. to none,selective.",
        "sequence_parallel": "Restrict to yes or no.",
    }
    # fmt: off
    hw: Texts = field("free", "Chips, with commas or repeated.", panel=LOAD, metavar="NAMES", several=True, also=("hardware",), kw_only=False)  # type: ignore[assignment]
    deadline: OptNumber = field("time", "When the run has to be done, such as 30d; a service: how long it is paid for.", default=None, panel=LOAD)
    budget: OptText = field("free", "The most to pay in all, such as '2 M USD'; alone: the shortest run that it pays for.", default=None, metavar="MONEY", panel=LOAD)
    qps: OptNumber = field("positive", "Serving: requests per second to carry.", default=None, metavar="RATE", panel=LOAD, former=("request-rate", "rps"))
    slo: OptText = field("free", "Serving: TTFT and ITL limits, such as ttft=1s,itl=40ms.", default=None, metavar="LIMITS", panel=LOAD)
    where: Texts = field("free", "What must also hold, e.g. 'train.memory.headroom >= 10 %'; repeat.", default=None, metavar="CONDITION", several=True)
    # fmt: on

    def answer(self, tell: Callable[[str], None] | None = None, over: Spread | None = None) -> PlanAnswer:
        from rooflinecli.questions.plan.answer import plan
        from rooflinecli.specs.request import HOLDS

        options = self.options() | {"hw": ",".join(self.hw)}
        bound = options.pop("hold", None) or HOLDS[0]
        deadline, qps = self.text_of(Plan.deadline), self.text_of(Plan.qps)
        return plan(options, deadline, self.budget, bound, list(self.where), qps, self.slo, over, tell)
