"""`roofline validate`: predictions against published and measured rows, as tables of errors."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import unknown
from rooflinecli.validate import aiconfigurator_tables, tables
from rooflinecli.validate.stats import Table

SCHEMA = "roofline/validate/1"
EVERYTHING = "all"


def validate(subject: str = EVERYTHING) -> dict[str, Any]:
    """Tables of errors for a subject, as plain data. Raises UsageError for an unknown subject or a missing extra."""
    return data(subject, tables_of(subject))


def data(subject: str, found: list[Table]) -> dict[str, Any]:
    """Tables as the object that is printed."""
    return {
        "schema": SCHEMA,
        "subject": subject,
        "tables": [{"title": t.title, "rows": t.rows, "notes": t.notes} for t in found],
    }


def tables_of(subject: str, simulated: bool = False, full: bool = False) -> list[Table]:
    """Tables of a subject with the points behind them; `full` searches for every tuned run.

    Raises UsageError for an unknown subject or a missing extra.
    """
    if subject != EVERYTHING and subject not in tables.SUBJECTS:
        raise unknown("subject", subject, (*tables.SUBJECTS, EVERYTHING))
    if subject == "kernels":
        aiconfigurator_tables.systems()
    found: list[Table] = []
    for name, build in tables.SUBJECTS.items():
        if name == "kernels" and subject == EVERYTHING and not aiconfigurator_tables.installed():
            found.append(Table("kernels", [], [aiconfigurator_tables.MISSING]))
        elif subject in (name, EVERYTHING):
            found += build(full) if name == "search" else build()
    if simulated:
        from rooflinecli.validate import percentiles, simulated_runs

        found += [*simulated_runs.tables(), *percentiles.tables()]
    return found
