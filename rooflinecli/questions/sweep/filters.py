"""Which points of a chunk are printed: all, the feasible ones, those that meet every condition."""

from __future__ import annotations

import numpy as np

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.engine import legality
from rooflinecli.questions.sweep import columns
from rooflinecli.questions.sweep import conditions as where
from rooflinecli.questions.sweep.axes import Space
from rooflinecli.questions.sweep.evaluate_block import SweepBlock
from rooflinecli.specs.quantities import canonical
from rooflinecli.specs.request import PHASES


class Filter:
    """Raises UsageError for a condition on a phase that is not swept."""

    def __init__(self, space: Space, conditions: list[str], feasible_only: bool):
        self.conditions = [where.condition(text) for text in conditions]
        self.feasible_only, self.known = feasible_only, False
        for c in self.conditions:
            head = canonical(c.quantity).partition(".")[0]
            if head not in (*PHASES, "layout", "cost"):
                raise unknown("quantity", c.quantity, [*(f"{p}.time_s" for p in space.phases), "layout.devices"])
            if head not in (*space.phases, "layout", "cost"):
                raise UsageError(
                    f"--where {c.text!r}: this sweep has {', '.join(space.phases)}, layout and cost; add --phase to it"
                )

    def __call__(self, answer: SweepBlock, table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The rows of `table` that pass."""
        if not self.conditions and not self.feasible_only:
            return table
        self._know(answer)
        keep = answer.flat(legality.all_hold(answer.rules))  # a layout that does not exist meets no condition
        for c in self.conditions:
            with np.errstate(invalid="ignore"):
                keep = keep & answer.flat(c.holds(columns.pick(answer, c.quantity)))
        if self.feasible_only:
            keep = keep & table["feasible"]
        return {name: column[keep] if hasattr(column, "dtype") else column for name, column in table.items()}

    def _know(self, answer: SweepBlock) -> None:
        """Refuse a condition on a quantity that no answer has."""
        if answer.phases and not self.known:
            columns.select(answer, [c.quantity for c in self.conditions])
            self.known = True
