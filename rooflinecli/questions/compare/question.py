"""`roofline compare MODEL --hw a,b,c` as a record."""

from __future__ import annotations

from rooflinecli.questions.compare.answer_types import CompareAnswer
from rooflinecli.questions.compare.normalization import ISO
from rooflinecli.questions.question import Question, Several
from rooflinecli.questions.search.question import Prices
from rooflinecli.specs.options import LOAD, EstimateOptions, OptText, Switch, Text, Texts, field


class Compare(Prices, EstimateOptions, Several, Question[CompareAnswer]):  # type: ignore[misc]  # a price for each chip
    """One layout on several chips side by side, ranked; a chip that cannot hold it is shown with the reason.

    Exit code 1 when no chip can.
    """

    verb = "compare"
    examples = (
        "roofline compare llama70b --hw h100,h200,mi300x -n 8 --batch 64",
        "roofline compare llama70b --hw h100,mi300x --price mi300x=3 --slo itl=40ms",
        "roofline compare llama-3.1-8b --hw h100 -n 1 --measured bench.json",
    )
    helps = {
        "n": "Devices of the first chip; omitted: the smallest power of two that fits.",
        "phase": "train, prefill, decode; omitted: those of --rank-by.",
    }
    # fmt: off
    hw: Texts = field("free", "Chips, with commas or repeated; the first is the measure of --iso.", panel=LOAD, metavar="NAMES", several=True, also=("hardware",), kw_only=False)  # type: ignore[assignment]
    slo: OptText = field("free", "Serving: TTFT and ITL limits, such as ttft=1s,itl=40ms.", default=None, metavar="LIMITS", panel=LOAD)
    iso: Text = field("choice", "What is equal: devices, cost (USD per hour) or memory", default="same-devices", choices=ISO, former=("at",))
    rank_by: OptText = field("free", "Quantity to rank by, as named in the JSON of `roofline estimate`; omitted: the time of --phase, else of decode.", default=None, metavar="QUANTITY", former=("rank",))
    measured: Texts = field("file", "Results of a benchmark or a training log: each row beside the estimate on the one --hw, and what would explain the gap.", default=None, several=True)
    sensitivity: Switch = field("switch", "Also: which hardware figure or constant would change the order, the break-even price, what would resolve it.", default=False)
    # fmt: on

    @property
    def chips(self) -> list[str]:
        """Names of the chips, in the order written."""
        return [name.strip() for item in self.hw for name in item.split(",") if name.strip()]

    def answer(self) -> CompareAnswer:
        from rooflinecli.questions.compare.answer import compare

        return compare(self.options(), self.chips, self.iso, self.rank_by, self.slo, self.sensitivity)
