"""Instants as logs write them: a date and a time of day."""

from __future__ import annotations

from datetime import UTC, datetime

from rooflinecli.importers.traces.trace_row import bad


def parse_timestamp(where: str, name: str, text: str) -> float:
    """Seconds since 1970 of `2023-11-16 18:15:46.6805900`, `2024-05-10 00:00:00.009930+00:00` or `2024-05-10T00:00:00Z`. Raises DataError."""
    whole, dot, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :]
    try:
        when = datetime.fromisoformat(whole + zone)
    except ValueError:
        raise bad(where, f"{name} is {text[:40]!r}, expected for example 2023-11-16 18:15:46.68") from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return when.timestamp() + (float(f"0.{digits}") if dot and digits else 0.0)
