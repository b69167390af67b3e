"""`roofline sweep MODEL --hw HW --batch 1..512` as a record: one estimate, any of whose options may be a range."""

from __future__ import annotations

from dataclasses import field as key
from typing import TYPE_CHECKING

from rooflinecli.core.record import HIDDEN, Record
from rooflinecli.questions.question import Question, Several
from rooflinecli.questions.search.question import FIXED
from rooflinecli.specs.options import EstimateOptions, OptText, Switch, Texts, field

if TYPE_CHECKING:
    from rooflinecli.questions.sweep.axes import Space
    from rooflinecli.questions.sweep.run import Choice, SweepBlock


class SweepAnswer(Record):
    """What was swept, and for each point a value by column; `blocks` of the `space` are what a picture draws."""

    schema: str = "roofline/sweep/2"
    axes: dict[str, list[object]]
    phases: list[str]
    columns: list[str]
    first: int
    stop: int
    of: int
    points: list[dict[str, object]]
    space: Space | None = key(default=None, metadata=HIDDEN)
    blocks: list[tuple[Choice, SweepBlock]] = key(default_factory=list, metadata=HIDDEN)


class Sweep(EstimateOptions, Several, Question[SweepAnswer]):
    """Every number of `estimate` over ranges: `1..512`, `1..512/8` (step), `1..512x2` (factor), lists `1k,4k,32k`.

    Sizes of the layout left out are chosen point by point as `estimate` does; above 500 points they are 1, ZeRO is 1 and nothing is
    recomputed. Points that do not fit stay, with feasible = false and the reason. Exit code 1 when no point is feasible.
    """

    verb = "sweep"
    examples = (
        "roofline sweep llama70b --hw h100,h200 --tp 8 --batch 1..512x2",
        "roofline sweep llama-3-8b --hw h100 --set memory.bandwidth=x1,x2",
    )
    ranged = frozenset(EstimateOptions.fields()) - {"phase"}
    without = FIXED
    helps = {
        "model": "One or several models, comma-separated.",
        "hw": "One or several chips, comma-separated.",
        "phase": "prefill, decode, train; omitted: train where only training options are given, else prefill and decode.",
        "n": "Devices; with it dp is what tp, pp and cp leave.",
    }
    # fmt: off
    figures: Texts = field("free", "A hardware figure: memory.bandwidth='2..5/0.5 TB/s', peak.bf16=x1,x2, efficiency.matmul.compute=0.6,0.8.", default=None, several=True, metavar="FIGURE=VALUES", long="set")
    columns: OptText = field("free", "Columns by JSON path, group or pattern: decode.time_s,decode.memory,'cost.*'.", default=None, metavar="LIST")
    feasible_only: Switch = field("switch", "Leave out points that do not fit or cannot be laid out.", default=False)
    where: Texts = field("free", "Keep points that satisfy, e.g. 'decode.time_s <= 40 ms'; repeat.", default=None, several=True, metavar="CONDITION")
    sensitivity: Switch = field("switch", "For a single point: elasticity of time to each hardware value and constant.", default=False)
    part: OptText = field("free", "i/n: the i-th of n equal parts; the parts concatenate to the whole.", default=None, metavar="I/N", long="shard")
    # fmt: on

    def answer(self) -> SweepAnswer:
        """All points at once. Raises UsageError for more than fit on a page, which `SweepStudy.tables` streams."""
        from rooflinecli.questions.sweep.run import SweepStudy

        return SweepStudy(self).gathered()

    @property
    def wanted(self) -> list[str] | None:
        """The columns asked for, None for the usual ones."""
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]
