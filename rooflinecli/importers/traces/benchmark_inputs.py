"""Inputs of benchmark clients, a JSON object a line: vLLM's custom dataset (prompt, output_tokens), GuideLLM's (prompt, prompt_tokens_count,
output_tokens_count), AIPerf's single and multi turn (text; session_id with turns of text and delay in ms), chats (messages), and OpenAI's
batches (body). AIPerf's inputs.json (data, a list of sessions with payloads) is the same in one document.

Text without a token count has four characters a token; an output of unknown length has 128 tokens. A turn of AIPerf's includes
the previous turns; a payload or a list of messages contains them. There are no arrival times, unless a line has a timestamp in ms:
give --qps or --concurrency.

Conversations as ShareGPT's JSON has them: a list of {id, conversations: [{from, value}, ...]}, or one a line. Each question is a turn whose
prompt includes the previous turns; turns of a conversation follow one another and share their prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.traces.trace_row import (
    ANSWER,
    SPAN,
    Read,
    Row,
    bad,
    beginning,
    chat_text,
    document,
    estimated,
    keys,
    lines,
    pause,
    prefix_block_keys,
    read_rows,
    seconds,
    tokens,
)  # fmt: skip

_ASKS = ("human", "user", "system")
_PROMPT = ("prompt_tokens_count", "prompt_tokens", "prompt_len", "input_tokens", "input_length")
_OUTPUT = (
    "output_tokens_count", "output_tokens", "output_len", "output_length", "expected_output_len", "max_tokens", "max_completion_tokens",
)  # fmt: skip
_TEXT = ("prompt", "text", "text_input", "question")
_ELSEWHERE = {"conversations", "conversation", "metrics", "benchmarks", "hash_ids", "chat_id", "ttfts"}


def matches(head: str) -> bool:
    """Whether the keys are those of this format."""
    names = keys(head)
    line = names & {*_TEXT, *_PROMPT, "texts", "turns", "messages", "body"} and not head.lstrip().startswith("[")
    return bool(
        _is_document(head) or (line and not names & _ELSEWHERE and not {"input_length", "output_length"} <= names)
    )


def rows(path: Path) -> Read:
    """One request a line, or the turns of a session."""
    return read_rows(_payloads(path) if _is_document(beginning(path)) else _turns(lines(path)), _row)


def _is_document(head: str) -> bool:
    return "data" in keys(head) and '"payloads"' in head


def _payloads(path: Path) -> Iterator[tuple[str, object]]:
    """The sessions of AIPerf's inputs.json."""
    data = document(path).get("data")
    for number, session in enumerate(data if isinstance(data, list) else [], 1):
        where = f"{path}: session {number}"
        payloads = session.get("payloads") if isinstance(session, dict) else None
        if not isinstance(payloads, list) or not all(isinstance(p, dict) for p in payloads):
            yield where, bad(where, "expected payloads: [{messages}, ...]")
            continue
        name = str(session.get("session_id", number))
        for turn, payload in enumerate(payloads):
            yield where, {**payload, "session_id": name, "turn": turn}


def _turns(objects: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Lines as they are; sessions of turns one by one, each with the tokens of its context."""
    for where, each in objects:
        if isinstance(each, DataError) or not isinstance(each.get("turns"), list):
            yield where, each
            continue
        session, context = str(each.get("session_id", where)), 0
        for turn, spoken in enumerate(each["turns"]):
            request = spoken if isinstance(spoken, dict) else {"text": spoken}
            yield where, {**request, "session_id": session, "turn": turn, "context_tokens": context}
            context += estimated(_text(request) or "") + _answer("", request, ANSWER)


def _row(where: str, line: Json) -> Row:
    body = line.get("body")
    request = {**line, **body} if isinstance(body, dict) else line
    text = _text(request)
    prompt = next((tokens(where, name, request[name]) for name in _PROMPT if request.get(name) is not None), None)
    if prompt is None and text is None:
        raise bad(where, f"neither {' nor '.join(_TEXT[:2])} nor messages nor {_PROMPT[0]}")
    asked = prompt if prompt is not None else request.get("context_tokens", 0) + estimated(str(text))
    session, turn = str(request.get("session_id", "")), request.get("turn", 0)
    time, delay = request.get("timestamp"), request.get("delay")
    hashes = prefix_block_keys(session, asked) if session else ()
    return Row(
        None if time is None else seconds(where, "timestamp", time) / 1e3,
        asked,
        _answer(where, request, ANSWER),
        session,
        hashes,
        SPAN if hashes else 0,
        pause(where, "delay", delay) / 1e3 if delay is not None and (turn or time is None) else 0.0 if turn else None,
    )


def _text(request: Json) -> str | None:
    whole = next((request[name] for name in _TEXT if isinstance(request.get(name), str)), None)
    several = request.get("texts")
    if whole is None and isinstance(several, list):
        whole = "".join(text for text in several if isinstance(text, str))
    return whole if whole is not None else chat_text(request.get("messages"))


def _answer(where: str, request: Json, unknown: int) -> int:
    return next((tokens(where, name, request[name]) for name in _OUTPUT if request.get(name) is not None), unknown)


def is_sharegpt(head: str) -> bool:
    """Whether the keys are those of ShareGPT's conversations."""
    return bool({"conversations", "conversation"} & keys(head))


def sharegpt_rows(path: Path) -> Read:
    """Turns in the order of the file; a conversation that is none is one malformed row, placed by its number."""
    found = document(path) if beginning(path).lstrip().startswith("[") else [each for _, each in lines(path)]
    for number, item in enumerate(found, 1):
        where = f"{path}: conversation {number}"
        if isinstance(item, DataError):
            yield item
            continue
        turns = item.get("conversations", item.get("conversation")) if isinstance(item, dict) else None
        if not isinstance(turns, list) or not all(
            isinstance(turn, dict) and isinstance(_spoken(turn), str) for turn in turns
        ):
            yield bad(where, "expected conversations: [{from, value}, ...]")
            continue
        yield from _conversation(str(item.get("id", number)), turns)


def _conversation(session: str, turns: list[Json]) -> Read:
    context, first = 0, True
    for turn, following in zip(turns, [*turns[1:], {}], strict=False):
        context += estimated(_spoken(turn))
        if _who(turn) in _ASKS and following and _who(following) not in _ASKS:
            answer = estimated(_spoken(following))
            yield Row(None, context, answer, session, prefix_block_keys(session, context), SPAN, None if first else 0.0)
            first = False


def _who(turn: Json) -> str:
    return str(turn.get("from", turn.get("role", "")))


def _spoken(turn: Json) -> Any:
    return turn.get("value", turn.get("content"))
