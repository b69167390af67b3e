"""Inputs of benchmark clients, a JSON object a line: vLLM's custom dataset (prompt, output_tokens), GuideLLM's (prompt, prompt_tokens_count,
output_tokens_count), AIPerf's single and multi turn (text; session_id with turns of text and delay in ms).

Text that nobody counted counts four characters a token; an answer of unknown length has 128 tokens, as GuideLLM's default.
There are no instants, unless a line has a timestamp in ms: give --qps or --concurrency.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli.errors import DataError
from rooflinecli.simulate.traces.row import Read, Row, bad, estimated, guarded, lines, seconds, tokens

ANSWER = 128
_PROMPT = ("prompt_tokens_count", "prompt_tokens", "prompt_len", "input_tokens")
_OUTPUT = ("output_tokens_count", "output_tokens", "output_len", "expected_output_len", "max_tokens")
_TEXT = ("prompt", "text", "question")


def matches(head: str) -> bool:
    """By its keys."""
    return head.lstrip().startswith("{") and any(f'"{name}"' in head for name in (*_TEXT, *_PROMPT, "turns"))


def rows(path: Path) -> Read:
    """One request a line, or the turns of a session."""
    for where, found in lines(path):
        if isinstance(found, DataError):
            yield found
        elif isinstance(found.get("turns"), list):
            for i, turn in enumerate(found["turns"]):
                told = turn if isinstance(turn, dict) else {"text": turn}
                session = str(found.get("session_id", where))
                yield guarded(where, lambda w=where, t=told, s=session, i=i: _row(w, t, s, i))  # type: ignore[misc]
        else:
            yield guarded(where, lambda w=where, f=found: _row(w, f))  # type: ignore[misc]


def _row(where: str, found: dict[str, Any], session: str = "", turn: int = 0) -> Row:
    text = next((found[name] for name in _TEXT if isinstance(found.get(name), str)), None)
    prompt = next((tokens(where, name, found[name]) for name in _PROMPT if found.get(name) is not None), None)
    if prompt is None and text is None:
        raise bad(where, f"neither {' nor '.join(_TEXT[:2])} nor {_PROMPT[0]}")
    output = next((tokens(where, name, found[name]) for name in _OUTPUT if found.get(name) is not None), ANSWER)
    time, delay = found.get("timestamp"), found.get("delay")
    return Row(
        None if time is None else seconds(where, "timestamp", time) / 1e3,
        prompt if prompt is not None else estimated(str(text)),
        output,
        session or str(found.get("session_id", "")),
        think=(seconds(where, "delay", delay) / 1e3 if delay is not None else 0.0) if turn else None,
    )
