"""Alibaba's Bailian (github alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0; KVCache in the Wild, USENIX ATC '25), a JSON object a line:
chat_id, parent_chat_id, timestamp in seconds, input_length, output_length, type, turn, hash_ids.

hash_ids name the prompt's blocks of 16 tokens. Classes are the types: text, search, image, file.
"""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.record import Json
from rooflinecli.importers.traces.mooncake import hashes_of
from rooflinecli.importers.traces.trace_row import SPAN, Read, Row, keys, lines, read_rows, seconds, tokens


def matches(head: str) -> bool:
    """Whether the keys are those of this format."""
    return {"chat_id", "input_length", "output_length"} <= keys(head)


def rows(path: Path) -> Read:
    """Every turn has its instant; those that lead to one first turn are a session."""
    heads: dict[str, str] = {}

    def row(where: str, record: Json) -> Row:
        chat, parent = str(record.get("chat_id")), str(record.get("parent_chat_id", -1))
        heads[chat] = session = heads.get(parent, chat)
        hashes = hashes_of(where, record)
        return Row(
            seconds(where, "timestamp", record.get("timestamp")),
            tokens(where, "input_length", record.get("input_length")),
            tokens(where, "output_length", record.get("output_length")),
            session,
            hashes,
            SPAN if hashes else 0,
            label=str(record.get("type", "")),
        )

    return read_rows(lines(path), row)
