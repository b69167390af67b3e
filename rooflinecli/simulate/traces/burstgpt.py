"""BurstGPT (github HPMLL/BurstGPT, CC-BY): Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type, newer files with Session ID.

A request that failed has no response tokens, which is a malformed row here: nothing was generated.
"""

from __future__ import annotations

from pathlib import Path

from rooflinecli.simulate.traces.row import Read, Row, guarded, seconds, table, tokens


def matches(head: str) -> bool:
    """By its heading."""
    return {"timestamp", "request tokens", "response tokens"} <= {
        name.strip() for name in head.partition("\n")[0].lower().split(",")
    }


def rows(path: Path) -> Read:
    """Instants are seconds since the first midnight."""
    for where, cells in table(path):
        yield guarded(
            where,
            lambda where=where, cells=cells: Row(  # type: ignore[misc]
                seconds(where, "Timestamp", cells.get("timestamp")),
                tokens(where, "Request tokens", cells.get("request tokens")),
                tokens(where, "Response tokens", cells.get("response tokens")),
                cells.get("session id", ""),
            ),
        )
