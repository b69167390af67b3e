"""Formats of recorded load: a row of formats.yaml says by what a file is recognized and where the figures of a request are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import at
from rooflinecli.importers.traces import benchmark_inputs
from rooflinecli.importers.traces.trace_row import (
    SPAN,
    Read,
    Row,
    bad,
    document,
    heading,
    keys,
    lines,
    pause,
    prefix_block_keys,
    read_rows,
    seconds,
    table,
    timestamp,
    tokens,
)
from rooflinecli.specs import snapshots

_ALSO = {
    "time": ("time", "timestamp", "arrival", "arrival_s", "arrived_at", "arrival_time"),
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "prompt tokens", "input_length", "num_prefill_tokens"),
    "output": ("output", "output_tokens", "output tokens", "output_length", "num_decode_tokens"),
    "class": ("class", "tenant"),
    "session": ("session", "session_id"),
}


class TraceFormat(NamedTuple):
    """Whether a file's beginning is of a format, and its rows."""

    matches: Callable[[str], bool]
    rows: Callable[[Path], Read]


def _format(row: Json) -> TraceFormat:
    if "code" in row:
        return _CODE[row["code"]]
    columns, names, without = set(row.get("columns", ())), set(row.get("keys", ())), row.get("without")
    records = _RECORDS.get(row.get("records", ""), table if columns else lines)
    if columns:
        return TraceFormat(lambda head: columns <= heading(head), lambda path: read_rows(records(path), _maker(row)))
    return TraceFormat(
        lambda head: names <= (found := keys(head)) and without not in found,
        lambda path: read_rows(records(path), _maker(row)),
    )


def _maker(row: Json) -> Callable[[str, Json], Row | None]:
    """What makes a request of each record of a file; None for one that failed."""
    heads: dict[str, str] = {}  # of the first of a session, by every later one
    per, lowered = float(row.get("per", 1.0)), "columns" in row

    def make(where: str, record: Json) -> Row | None:
        def stated(name: str) -> tuple[str, Any]:
            """The figure's name in the file, and the figure."""
            paths: list[str] = row.get(name) or [name]
            found = ((path, at(record, path.lower() if lowered else path)) for path in paths)
            path, value = next(((p, v) for p, v in found if v is not None and v != ""), (paths[0], None))
            return path.removesuffix(".value").rpartition(".")[2], value

        if any(at(record, path) for path in row.get("failed", ())):
            return None
        named, answer = stated("output")
        if (answer is None and "absent" in row) or (
            not (count := tokens(where, named, answer, int("zero" not in row)))
        ):
            return None
        time, think = stated("time"), stated("think")[1] if "think" in row else None
        session = str(stated("session")[1] or "")
        if "parent" in row:
            own = str(record.get(row["id"]))
            heads[own] = session = heads.get(str(record.get(row["parent"], -1)), own)
        hashes = record.get(row.get("hashes", "")) or ()
        if not isinstance(hashes, (list, tuple)) or not all(isinstance(h, (int, str)) for h in hashes):
            raise bad(where, f"{row['hashes']} is not a list of numbers")
        instant: float | None = None
        if "date" in row:
            instant = timestamp(where, time[0], str(time[1] or ""))
        elif time[1] is not None or "untimed" not in row:
            instant = seconds(where, *time, per)
        return Row(
            instant,
            tokens(where, *stated("prompt")),
            count,
            session,
            tuple(hashes),
            row["span"] if hashes else 0,
            None if think is None else pause(where, row["think"][0], think, per),
            str(stated("label")[1] or "").strip() if "label" in row else "",
            tokens(where, row["images"][0], stated("images")[1] or "0", 0) if "images" in row else 0,
        )

    return make


def _guidellm_requests(path: Path) -> Iterator[tuple[str, object]]:
    """Benchmarks of a sweep follow one another as they did; requests that are incomplete or errored failed."""
    benchmarks = document(path).get("benchmarks")
    if not isinstance(benchmarks, list):
        raise DataError(f"{path}: benchmarks is not a list; give the file that GuideLLM wrote")
    for number, benchmark in enumerate(benchmarks, 1):
        where = f"{path}: benchmark {number}"
        states = benchmark.get("requests") if isinstance(benchmark, dict) else None
        if not isinstance(states, dict):
            yield where, bad(where, "it lists no requests by status")
            continue
        for state, requests in states.items():
            for place, request in enumerate(requests if isinstance(requests, list) else [], 1):
                at_request = f"{where}, {state} request {place}"
                if state == "successful" and not isinstance(request, dict):
                    request = bad(at_request, "expected an object")
                yield at_request, request if state == "successful" else {"status": state}


def _vllm_requests(path: Path) -> Iterator[tuple[str, object]]:
    report = document(path)
    found = {name: report.get(name) or [] for name in ("input_lens", "output_lens", "start_times", "errors")}
    count = len(found["input_lens"])
    if count != len(found["output_lens"]) or len(found["start_times"]) not in (0, count):
        raise DataError(
            f"{path}: input_lens, output_lens and start_times are not equally long; give the file as vLLM wrote it"
        )
    for i in range(count):
        yield f"{path}: request {i + 1}", {name: of[i] for name, of in found.items() if i < len(of)}


_RECORDS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    "guidellm_requests": _guidellm_requests,
    "vllm_requests": _vllm_requests,
}


def _simple_csv(where: str, cells: dict[str, str]) -> Row:
    """A CSV with the heading time,prompt,output and, where wanted, class, session, prefix and think.

    time: seconds, or a date and a time of day; a row without one needs a think time, or a rate given with the trace. class: the kind of
    request, such as a tenant, that percentiles and limits may ask for. prefix: a name; requests that share it share `prefix_tokens` (or
    their whole prompt) at its head. think: seconds after the turn before in the session ended, instead of a time. What --requests-out
    writes is read back.
    """
    given = {name: next((cells[a].strip() for a in also if a in cells), "") for name, also in _ALSO.items()}
    prompt, time = tokens(where, "prompt", given["prompt"]), given["time"]
    think, prefix = cells.get("think", "").strip(), cells.get("prefix", "").strip()
    shared = tokens(where, "prefix_tokens", cells["prefix_tokens"], 0) if cells.get("prefix_tokens") else prompt
    if shared > prompt:
        raise bad(where, f"prefix_tokens is {shared}, more than the prompt of {prompt}")
    dated = "-" in time.lstrip("-") and ":" in time
    return Row(
        (timestamp if dated else seconds)(where, "time", time) if time else None,
        prompt,
        tokens(where, "output", given["output"]),
        given["session"],
        prefix_block_keys(prefix, shared) if prefix else (),
        SPAN if prefix else 0,
        pause(where, "think", think) if think else None,
        given["class"],
    )


_CODE = {
    "benchmark_inputs": TraceFormat(benchmark_inputs.matches, benchmark_inputs.rows),
    "sharegpt": TraceFormat(benchmark_inputs.is_sharegpt, benchmark_inputs.sharegpt_rows),
    "simple_csv": TraceFormat(
        lambda head: all(heading(head) & set(_ALSO[name]) for name in ("prompt", "output")),
        lambda path: read_rows(table(path), _simple_csv),
    ),
}
FORMATS = {name: _format(row) for name, row in snapshots.table(Path(__file__).with_name("formats.yaml")).items()}
