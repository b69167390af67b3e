"""Azure LLM inference traces of 2023 and 2024 (github Azure/AzurePublicDataset, CC-BY): TIMESTAMP,ContextTokens,GeneratedTokens; that of
multimodal models of 2025 has NumImages too."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.importers.traces.trace_row import Read, Row, heading, read_rows, table, timestamp, tokens


def matches(head: str) -> bool:
    """Whether the heading is that of this format."""
    return {"timestamp", "contexttokens", "generatedtokens"} <= heading(head)


def rows(path: Path) -> Read:
    """Instants have up to seven decimals; those of 2024 carry a zone."""
    return read_rows(table(path), _row)


def _row(where: str, cells: dict[str, str]) -> Row:
    return Row(
        timestamp(where, "TIMESTAMP", cells.get("timestamp", "")),
        tokens(where, "ContextTokens", cells.get("contexttokens")),
        tokens(where, "GeneratedTokens", cells.get("generatedtokens")),
        images=tokens(where, "NumImages", cells.get("numimages") or "0", 0),
    )
