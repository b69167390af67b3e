"""BurstGPT (github HPMLL/BurstGPT, CC-BY): Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type; files since release 2
have Session ID and Elapsed time too.

A request whose response has no tokens failed, according to the release; its load is unknown. Classes are
those of the log: conversations, or the API.
"""

from __future__ import annotations

from pathlib import Path

from rooflinecli.importers.traces.trace_row import Read, Row, heading, read_rows, seconds, table, tokens


def matches(head: str) -> bool:
    """Whether the heading is that of this format."""
    return {"timestamp", "request tokens", "response tokens"} <= heading(head)


def rows(path: Path) -> Read:
    """Instants are seconds since the first midnight."""
    return read_rows(table(path), _row)


def _row(where: str, cells: dict[str, str]) -> Row | None:
    answer = tokens(where, "Response tokens", cells.get("response tokens"), 0)
    if not answer:
        return None
    return Row(
        seconds(where, "Timestamp", cells.get("timestamp")),
        tokens(where, "Request tokens", cells.get("request tokens")),
        answer,
        cells.get("session id", ""),
        label=cells.get("log type", "").strip(),
    )
