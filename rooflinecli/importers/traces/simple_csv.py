"""A CSV with the heading time,prompt,output and, where wanted, class, session, prefix and think.

time: seconds, or a date and a time of day. class: the kind of request, such as a tenant, that percentiles and limits may ask for.
prefix: a name; requests that share it share `prefix_tokens` (or their whole prompt) at its head. think: seconds after the turn
before in the session ended, instead of a time. What --requests-out writes is read back.
"""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.traces.trace_row import (
    SPAN,
    Read,
    Row,
    bad,
    heading,
    pause,
    prefix_block_keys,
    read_rows,
    seconds,
    table,
    timestamp,
    tokens,
)

_ALSO = {
    "time": ("time", "timestamp", "arrival", "arrival_s", "arrived_at", "arrival_time"),
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "prompt tokens", "input_length", "num_prefill_tokens"),
    "output": ("output", "output_tokens", "output tokens", "output_length", "num_decode_tokens"),
    "class": ("class", "tenant"),
    "session": ("session", "session_id"),
}


def matches(head: str) -> bool:
    """Whether the heading is that of this format."""
    return all(heading(head) & set(_ALSO[name]) for name in ("prompt", "output"))


def rows(path: Path) -> Read:
    """A row without a time needs a think time, or a rate given with the trace."""
    return read_rows(table(path), _row)


def _row(where: str, cells: dict[str, str]) -> Row:
    prompt = tokens(where, "prompt", _cell(cells, "prompt"))
    time, think = _cell(cells, "time"), cells.get("think", "").strip()
    prefix = cells.get("prefix", "").strip()
    shared = tokens(where, "prefix_tokens", cells["prefix_tokens"], 0) if cells.get("prefix_tokens") else prompt
    if shared > prompt:
        raise bad(where, f"prefix_tokens is {shared}, more than the prompt of {prompt}")
    return Row(
        _instant(where, time) if time else None,
        prompt,
        tokens(where, "output", _cell(cells, "output")),
        _cell(cells, "session"),
        prefix_block_keys(prefix, shared) if prefix else (),
        SPAN if prefix else 0,
        pause(where, "think", think) if think else None,
        _cell(cells, "class"),
    )


def _instant(where: str, written: str) -> float:
    """Seconds, or else a date and a time of day."""
    try:
        return seconds(where, "time", written)
    except DataError:
        if "-" not in written.lstrip("-") or ":" not in written:
            raise
    return timestamp(where, "time", written)


def _cell(cells: dict[str, str], name: str) -> str:
    return next((cells[also].strip() for also in _ALSO[name] if also in cells), "")
