"""The answer of `roofline compare`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Record, former, former_keys
from rooflinecli.questions.sensitivity.answer_types import Tornado

SCHEMA = "roofline/compare/2"


class ModelName(Record):
    """The model that is compared."""

    name: str


class ComparedLayout(Record):
    """Devices and parallel sizes on one chip."""

    devices: int
    tp: int
    pp: int
    dp: int


class ComparedChip(Record):
    """One chip: the quantity that ranks (expected, at the bound, 80% interval) and others, or why it is infeasible.

    relative: value over that of the best; overlaps_previous: whether its interval reaches that of the row above.
    """

    chip: str
    name: str
    feasible: bool
    infeasible_reason: str = field(metadata=former("why"))
    rank: int | None = None
    layout: ComparedLayout | None = field(default=None, metadata=former("plan"))
    value: float | None = None
    value_at_bound: float | None = field(default=None, metadata=former("held"))
    interval: list[float] | None = None
    quantities: dict[str, float | str | None] = field(
        default_factory=dict, metadata=former_keys(**{"memory.headroom_fraction": "memory.headroom"})
    )
    bottleneck: str | None = field(default=None, metadata=former("bound"))
    usd_per_hour: float | None = None
    memory_bytes: float | None = None
    command: str | None = None
    relative: float | None = None
    overlaps_previous: bool = False


class CompareAnswer(Record):
    """The chips ranked by one quantity at one bound, those that cannot run it last. iso: what is equal, iso_text in words."""

    schema: str = SCHEMA
    model: ModelName
    iso: str = field(metadata=former("at"))
    iso_text: str = field(metadata=former("basis"))
    rank: str
    bound: str = field(metadata=former("hold"))
    unit: str
    better: str
    slo_s: dict[str, float]
    unpriced: list[str]
    rows: list[ComparedChip]
    feasible: bool
    tornado: Tornado | None = field(default=None, metadata=OPTIONAL)

    @property
    def ranked(self) -> list[ComparedChip]:
        """The rows with a rank, best first."""
        return [row for row in self.rows if row.rank]
