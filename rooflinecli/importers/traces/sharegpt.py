"""Conversations as ShareGPT's JSON has them: a list of {id, conversations: [{from, value}, ...]}, or one a line;
lengths are counted at four characters a token.

Each question is a turn whose prompt includes the previous turns; turns of a conversation follow one another and share
their prefix. There are no instants: give --qps or --concurrency.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.traces.trace_row import (
    SPAN,
    Read,
    Row,
    bad,
    beginning,
    document,
    estimated,
    keys,
    lines,
    prefix_block_keys,
)

_ASKS = ("human", "user", "system")


def matches(head: str) -> bool:
    """Whether the keys are those of this format."""
    return bool({"conversations", "conversation"} & keys(head))


def rows(path: Path) -> Read:
    """Turns in the order of the file; a conversation that is none is one malformed row, placed by its number."""
    found = document(path) if beginning(path).lstrip().startswith("[") else [each for _, each in lines(path)]
    for number, item in enumerate(found, 1):
        where = f"{path}: conversation {number}"
        if isinstance(item, DataError):
            yield item
            continue
        turns = item.get("conversations", item.get("conversation")) if isinstance(item, dict) else None
        if not isinstance(turns, list) or not all(
            isinstance(turn, dict) and isinstance(_text(turn), str) for turn in turns
        ):
            yield bad(where, "expected conversations: [{from, value}, ...]")
            continue
        yield from _turns(str(item.get("id", number)), turns)


def _turns(session: str, turns: list[Json]) -> Read:
    context, first = 0, True
    for turn, following in zip(turns, [*turns[1:], {}], strict=False):
        context += estimated(_text(turn))
        if _who(turn) in _ASKS and following and _who(following) not in _ASKS:
            answer = estimated(_text(following))
            yield Row(None, context, answer, session, prefix_block_keys(session, context), SPAN, None if first else 0.0)
            first = False


def _who(turn: Json) -> str:
    return str(turn.get("from", turn.get("role", "")))


def _text(turn: Json) -> Any:
    return turn.get("value", turn.get("content"))
