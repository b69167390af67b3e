"""A CSV with the heading time,prompt,output and, where wanted, session, prefix and think.

time: seconds. prefix: a name; requests that share it share `prefix_tokens` (or their whole prompt) at its head. think: seconds
after the turn before in the session ended, instead of a time.
"""

from __future__ import annotations

from pathlib import Path

from rooflinecli.simulate.traces.row import Read, Row, bad, guarded, seconds, table, tokens

SPAN = 16
_ALSO = {
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "prompt tokens"),
    "output": ("output", "output_tokens", "output tokens"),
}


def matches(head: str) -> bool:
    """By its heading."""
    names = {name.strip() for name in head.partition("\n")[0].lower().split(",")}
    return all(names & set(also) for also in _ALSO.values())


def rows(path: Path) -> Read:
    """A row without a time needs a think time, or a rate given with the trace."""
    for where, cells in table(path):
        yield guarded(where, lambda where=where, cells=cells: _row(where, cells))  # type: ignore[misc]


def _row(where: str, cells: dict[str, str]) -> Row:
    prompt = tokens(where, "prompt", _cell(cells, "prompt"))
    time, think = cells.get("time", "").strip(), cells.get("think", "").strip()
    prefix = cells.get("prefix", "").strip()
    shared = tokens(where, "prefix_tokens", cells["prefix_tokens"], 0) if cells.get("prefix_tokens") else prompt
    if shared > prompt:
        raise bad(where, f"prefix_tokens is {shared}, more than the prompt of {prompt}")
    return Row(
        seconds(where, "time", time) if time else None,
        prompt,
        tokens(where, "output", _cell(cells, "output")),
        cells.get("session", "").strip(),
        tuple(f"{prefix}/{i}" for i in range(shared // SPAN)) if prefix else (),
        SPAN if prefix else 0,
        seconds(where, "think", think) if think else None,
    )


def _cell(cells: dict[str, str], name: str) -> str | None:
    return next((cells[also] for also in _ALSO[name] if also in cells), None)
