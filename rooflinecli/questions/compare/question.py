"""`roofline compare MODEL --hw a,b,c` as a record."""

from __future__ import annotations

from dataclasses import field as key

from rooflinecli.core.record import OPTIONAL, Record, former, former_keys
from rooflinecli.questions.question import Question, Several
from rooflinecli.questions.search.question import Prices
from rooflinecli.questions.sensitivity.answer_types import Tornado
from rooflinecli.specs.options import LOAD, EstimateOptions, OptText, Switch, Text, Texts, field

INSIDE = "inside the interval"

ISO = ("same-devices", "same-cost", "same-memory")


class GapExplanation(Record):
    """A change that would close a gap alone, and its size: in shipped errors (80%), or as a fraction of a setting."""

    what: str
    asks: float


class MeasuredGap(Record):
    """A measured time and its estimate; `gap` is measured / expected - 1."""

    row: str
    quantity: str
    software: str
    measured_s: float
    floor_s: float
    expected_s: float
    interval_s: tuple[float, float] | None
    gap: float
    verdict: str
    explained_by: list[GapExplanation]
    phase: str | None = key(default=None, metadata=OPTIONAL)


class MeasuredAnswer(Record):
    """Every row with its estimate, and the rows that could not be compared."""

    schema: str = "roofline/measured/1"
    rows: list[MeasuredGap]
    aside: list[dict[str, float | str | None]]
    notes: list[str]


SCHEMA = "roofline/compare/3"


class ComparedChip(Record):
    """One chip: the quantity that ranks (expected, at the bound, 80% interval) and others, or why it is infeasible.

    layout: devices and parallel sizes; sequences: those that all replicas serve at once, None where a rate says how many come; relative: value at the bound that ranks, over that of the best; overlaps_previous: whether its interval reaches that of the row above.
    """

    chip: str
    name: str
    feasible: bool
    infeasible_reason: str = key(metadata=former("why"))
    rank: int | None = None
    layout: dict[str, int] | None = key(default=None, metadata=former("plan"))
    value: float | None = None
    value_at_bound: float | None = key(default=None, metadata=former("held"))
    interval: list[float] | None = None
    quantities: dict[str, float | str | None] = key(
        default_factory=dict, metadata=former_keys(**{"memory.headroom_fraction": "memory.headroom"})
    )
    bottleneck: str | None = key(default=None, metadata=former("bound"))
    usd_per_hour: float | None = None
    memory_bytes: float | None = None
    command: str | None = None
    sequences: float | None = None
    relative: float | None = None
    overlaps_previous: bool = False


class CompareAnswer(Record):
    """The chips ranked by one quantity at one bound, those that cannot run it last. iso: what is equal, iso_text in words."""

    schema: str = SCHEMA
    model: dict[str, str]
    iso: str = key(metadata=former("at"))
    iso_text: str = key(metadata=former("basis"))
    rank: str
    bound: str = key(metadata=former("hold"))
    unit: str
    better: str
    slo_s: dict[str, float]
    unpriced: list[str]
    rows: list[ComparedChip]
    feasible: bool
    tornado: Tornado | None = key(default=None, metadata=OPTIONAL)

    @property
    def ranked(self) -> list[ComparedChip]:
        """The rows with a rank, best first."""
        return [row for row in self.rows if row.rank]


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
    hw: Texts = field("free", "Chips, with commas or repeated; the first is the reference of --iso.", panel=LOAD, metavar="NAMES", several=True, also=("hardware",), kw_only=False)  # type: ignore[assignment]
    slo: OptText = field("free", "Serving: TTFT and ITL limits, such as ttft=1s,itl=40ms.", default=None, metavar="LIMITS", listed=True, panel=LOAD)
    iso: Text = field("choice", "What is equal: devices, cost (USD per hour) or memory", default="same-devices", choices=ISO, former=("at",))
    rank_by: OptText = field("free", "Quantity to rank by, as named in the JSON of `roofline estimate`; omitted: the time of --phase, else of decode.", default=None, metavar="QUANTITY", former=("rank",))
    measured: Texts = field("file", "Results of a benchmark or a training log: each row next to the estimate on the one --hw, and what would explain the gap.", default=None, several=True)
    sensitivity: Switch = field("switch", "Also: which hardware value or constant would change the order, the break-even price, and which measurement would decide.", default=False)
    # fmt: on

    @property
    def chips(self) -> list[str]:
        """Names of the chips, in the order written."""
        return [name.strip() for item in self.hw for name in item.split(",") if name.strip()]

    def answer(self) -> CompareAnswer:
        from rooflinecli.questions.compare.answer import compare

        return compare(self)
