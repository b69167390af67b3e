"""`roofline validate`: predictions against published and measured rows, as tables of errors."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.errors import unknown
from rooflinecli.validate import (
    aiconfigurator_tables,
    collectives,
    kernels,
    local_machines,
    search_vs_tuned,
    serving_tables,
    training_tables,
)
from rooflinecli.validate.stats import Table

EVERYTHING = "all"
SUBJECTS: dict[str, Callable[[], list[Table]]] = {
    "kernels": kernels.tables,
    "training": training_tables.tables,
    "search": search_vs_tuned.tables,
    "inference": serving_tables.tables,
    "collectives": collectives.tables,
    "desk": local_machines.tables,
}


def tables_of(subject: str, simulated: bool = False, full: bool = False) -> list[Table]:
    """Tables of a subject with the points behind them; `full` searches for every tuned run.

    Raises UsageError for an unknown subject or a missing extra.
    """
    if subject != EVERYTHING and subject not in SUBJECTS:
        raise unknown("subject", subject, (*SUBJECTS, EVERYTHING))
    if subject == "kernels":
        aiconfigurator_tables.systems()  # raises where the wheel is missing
    found: list[Table] = []
    for name, build in SUBJECTS.items():
        if subject not in (name, EVERYTHING):
            continue
        if name == "kernels" and not aiconfigurator_tables.installed():
            found.append(Table("kernels", [], [aiconfigurator_tables.MISSING]))
        else:
            found += search_vs_tuned.tables(full) if name == "search" else build()
    if simulated:
        from rooflinecli.validate import percentiles, simulated_runs

        found += [*simulated_runs.tables(), *percentiles.tables()]
    return found
