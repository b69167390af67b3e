"""Titled tables of quantities by column: the answers of `validate` and `calibrate`."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Record, former_keys

_FORMER = former_keys(
    error_before="before", error_after="after", coverage_before="covered_before", coverage_after="covered"
)


class ReportTable(Record):
    """Rows of column -> number or text, and remarks below them."""

    title: str
    rows: list[dict[str, float | str | None]] = field(metadata=_FORMER)
    notes: list[str] | None = field(default=None, metadata=OPTIONAL)
