"""Mooncake's JSONL (github kvcache-ai/Mooncake, Apache-2.0), which Dynamo and AIPerf replay: timestamp in ms, input_length, output_length, hash_ids.

hash_ids name the prompt's blocks of 512 tokens, each with all before it, so that equal ids are a shared prefix. `session_id` and
`delay` (ms after the turn before) make sessions, as AIPerf writes them.
"""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.record import Json
from rooflinecli.importers.traces.trace_row import Read, Row, bad, keys, lines, pause, read_rows, seconds, tokens

SPAN = 512


def matches(head: str) -> bool:
    """Whether the keys are those of this format."""
    names = keys(head)
    return {"input_length", "output_length"} <= names and "chat_id" not in names


def rows(path: Path) -> Read:
    """One object a line."""
    return read_rows(lines(path), _row)


def _row(where: str, record: Json) -> Row:
    hashes = hashes_of(where, record)
    delay, time = record.get("delay"), record.get("timestamp")
    return Row(
        None if time is None else seconds(where, "timestamp", time) / 1e3,
        tokens(where, "input_length", record.get("input_length")),
        tokens(where, "output_length", record.get("output_length")),
        str(record.get("session_id", "")),
        hashes,
        SPAN if hashes else 0,
        None if delay is None else pause(where, "delay", delay) / 1e3,
    )


def hashes_of(where: str, record: Json) -> tuple[int | str, ...]:
    """Keys of a prompt's blocks. Raises DataError."""
    hashes = record.get("hash_ids") or ()
    if not isinstance(hashes, (list, tuple)) or not all(isinstance(h, (int, str)) for h in hashes):
        raise bad(where, "hash_ids is not a list of numbers")
    return tuple(hashes)
