"""Published training runs in no fit and in no limit of the envelope.

Their pages do not state which of two releases of the framework's software a run had, so every run is priced and its search ranked under both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.specs.published_runs import published
from rooflinecli.validate.published_training import compared
from rooflinecli.validate.stats import Table

SOFTWARE = ("megatron-2025", "nemo-2024")
_NOTE = (
    "Mixtral by NVIDIA's NeMo pages of 2025, as either of the two releases around them; off: predicted over measured, less one; in the interval: "
    "whether the measured step lies there; the other columns as above."
)


def runs() -> list[dict[str, Any]]:
    """Every run under every reading of its software."""
    rows = published("training_unseen")["rows"]
    return [{**row, "plan": {**row["plan"], "software": name}} for row in rows for name in SOFTWARE]


def table(searched: Callable[[dict[str, Any]], Any]) -> Table:
    """A line for every run and reading; `searched` holds a run against the search of its question."""
    return Table(
        "search: runs that nothing saw", [line for row in runs() for line in _line(row, searched(row))], [_NOTE]
    )


def _line(row: dict[str, Any], found: Any) -> list[dict[str, Any]]:
    held = compared(row)
    if found is None or held.error is None:
        return []
    low, high = (float(end) for end in held.answer.interval_s)
    return [
        {
            "group": f"{row['id']} as {row['plan']['software']}",
            "layouts": found.layouts,
            "off": float(held.error),
            "coverage": float(low <= row["step_s"] <= high),
            "gain": found.gain - 1,
            "gain_measured": found.measured - 1,
            "rank": found.place,
        }
    ]
