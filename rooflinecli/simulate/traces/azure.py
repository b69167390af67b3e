"""Azure LLM inference traces of 2023 and 2024 (github Azure/AzurePublicDataset, CC-BY): TIMESTAMP,ContextTokens,GeneratedTokens."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rooflinecli.simulate.traces.row import Read, Row, bad, guarded, table, tokens


def matches(head: str) -> bool:
    """By its heading."""
    return {"timestamp", "contexttokens", "generatedtokens"} <= set(head.partition("\n")[0].strip().lower().split(","))


def rows(path: Path) -> Read:
    """Instants have up to seven decimals; those of 2024 carry a zone."""
    for where, cells in table(path):
        yield guarded(
            where,
            lambda where=where, cells=cells: Row(  # type: ignore[misc]
                _instant(where, cells.get("timestamp", "")),
                tokens(where, "ContextTokens", cells.get("contexttokens")),
                tokens(where, "GeneratedTokens", cells.get("generatedtokens")),
            ),
        )


def _instant(where: str, text: str) -> float:
    """Seconds since 1970 of `2023-11-16 18:15:46.6805900` or `2024-05-10 00:00:00.009930+00:00`."""
    moment, dot, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :]
    try:
        when = datetime.fromisoformat(moment + zone)
    except ValueError:
        raise bad(where, f"TIMESTAMP is {text[:40]!r}, expected for example 2023-11-16 18:15:46.68") from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return when.timestamp() + (float(f"0.{digits}") if dot and digits else 0.0)
