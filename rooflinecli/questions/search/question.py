"""`roofline search MODEL --hw HW` as a record."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.errors import UsageError
from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions.question import Question, Several
from rooflinecli.questions.search.answer_types import SearchAnswer
from rooflinecli.specs.options import (
    LAYOUT,
    LOAD,
    EstimateOptions,
    Group,
    OptNumber,
    OptText,
    Switch,
    Texts,
    Whole,
    field,
)

RESTRICTED = {
    "tp": "tensor parallel sizes: 8 or 4,8 or 1..8x2",
    "pp": "pipeline stages",
    "dp": "data parallel replicas",
    "cp": "context parallel sizes",
    "ep": "expert parallel sizes",
    "zero": "ZeRO stages, e.g. 1,3",
    "micro_batch_size": "micro-batch sizes",
    "virtual_stages": "interleaved stages per device",
    "recompute": "recomputation, e.g. none,selective",
    "sequence_parallel": "to yes or no",
    "placement": "orders of the axes; by default all six where hosts have tiers between them",
}
FIXED = frozenset(
    {"layers_per_stage", "recompute_modules", "recompute_num_layers"}
)  # which one layout has, and no search


class Limits(Group):
    """Limits of a service and the rate it carries."""

    # fmt: off
    ttft: OptNumber = field("time", "Serving: TTFT at most, e.g. '300 ms'.", default=None, panel=LOAD)
    itl: OptNumber = field("time", "Serving: ITL at most, e.g. '40 ms'.", default=None, panel=LOAD)
    slo: OptText = field("free", "Serving: --ttft and --itl in one, such as ttft=1s,itl=40ms.", default=None, metavar="LIMITS", panel=LOAD)
    qps: OptNumber = field("positive", "Serving: requests per second to carry; finds the fewest devices.", default=None, metavar="RATE", panel=LOAD, former=("request-rate", "rps"))
    # fmt: on


class Prices(Group):
    """Prices by chip."""

    # fmt: off
    price: Texts = field("free", "USD per device-hour, instead of the file's: 2.50, or h100=2.50,mi300x=3 for chips by name; repeat.", default=None, metavar="MONEY", panel=LOAD, several=True)
    # fmt: on


class Search(Prices, Limits, EstimateOptions, Several, Question[SearchAnswer]):  # type: ignore[misc]  # a price for each chip
    """Every legal layout, priced exactly: the winner, what is next and why, what was rejected and by what.

    Training tries all splits over TP, PP, CP, DP, EP with every ZeRO stage, micro-batch, virtual stage, recomputation and
    sequence parallelism. Ranked by the pessimistic bound of the interval (--bound); what no published run supports widens it.
    Serving tries instance layouts and batches, together and with disaggregated prefill and decode pools.
    Exit code 1 when nothing is feasible; the nearest miss is shown.
    """

    verb = "search"
    examples = (
        "roofline search llama-3-405b --hw h100 -n 2048 --batch 2048 --top 3",
        "roofline search llama70b --hw h100 -n 16 --phase decode --qps 5 --itl '40 ms'",
        "roofline search llama70b --hw h100,h200 --phase decode --qps 50 --slo itl=40ms",
    )
    ranged = frozenset({*RESTRICTED, "n", "batch", "hw"})
    without = FIXED | {"concurrency"}
    helps = {
        "hw": "A name or alias (`roofline hardware`), or a YAML path; several with commas are searched side by side.",
        "phase": "train, or decode for serving (prefill is searched with it); omitted: decode where a serving option is given, else train.",
        "n": "Devices: one count or several (training); the most to use (serving).",
        "batch": "Global batch (4M-tokens works too); serving: batches to try (1..1024).",
        **{name: f"Restrict {what}." for name, what in RESTRICTED.items()},
    }
    # fmt: off
    objective: OptText = field("free", "throughput, latency, cost, energy, devices, any quantity, or two for a Pareto front.", default=None, metavar="LIST")
    where: Texts = field("free", "What must hold, e.g. 'train.mfu >= 0.4' or 'serve.itl_s <= 40 ms'; repeat. Memory always.", default=None, metavar="CONDITION", several=True)
    top: Whole = field("whole", "How many layouts to show, the best of each split of the devices.", default=5)
    precedent_only: Switch = field("switch", "Training: only layouts like published runs.", default=False, panel=LAYOUT, former=("practised",))
    all_layouts: Switch = field("switch", "Training: every layout a row, not the best of each split.", default=False, panel=LAYOUT, former=("all",))
    sensitivity: Switch = field("switch", "Also: how the winner's time moves with each figure and constant, which of them would change the winner, what would resolve it.", default=False)
    simulate_top: Whole = field("whole", "Serving at a rate: simulate this many of the best layouts.", default=0, least=0, former=("simulate",))
    # fmt: on

    @property
    def training(self) -> bool:
        """Whether training layouts are searched rather than serving instances: by --phase, else unless serving is implied."""
        if self.phase:
            return "train" in self.phase
        from rooflinecli.engine import build_request

        limits = any(
            self.is_given(field) for field in (Search.ttft, Search.itl, Search.qps, Search.slo, Search.simulate_top)
        )
        return not limits and build_request.implied(self.options()) != "serve"

    def check(self) -> None:
        super().check()
        if not self.training:
            training = next((f for f in (Search.precedent_only, Search.all_layouts) if self.is_given(f)), None)
            if training is not None:
                raise UsageError(f"{training.flag} applies to training; remove it, or add --phase train", training.name)
        elif len(self.phase or ()) > 1:
            raise UsageError("--phase train cannot be combined with prefill or decode; run two searches", "phase")
        else:
            for field in (Search.ttft, Search.itl, Search.qps, Search.slo):
                if self.is_given(field):
                    given = f"{field.flag} {self.text_of(field)}"
                    raise UsageError(f"{given}: applies to serving; remove it, or add --phase decode", field.name)
        if self.simulate_top and (self.training or self.qps is None):
            raise UsageError("--simulate-top requires a request rate; add --phase decode --qps RATE", "simulate-top")

    def answer(self, tell: Callable[[int, int], None] | None = None, over: Spread | None = None) -> SearchAnswer:
        from rooflinecli.questions.search.answer import answer

        return answer(self, tell, over)
