"""Requests measured by GuideLLM: benchmarks.json, by status (src/guidellm/benchmark of vllm-project/guidellm, old and new names).

Requests that are incomplete or errored failed. Benchmarks of a sweep follow one another as they did.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.traces.trace_row import Read, Row, bad, document, keys, read_rows, seconds, tokens


def matches(head: str) -> bool:
    """Whether the keys are those of this format."""
    return "benchmarks" in keys(head)


def rows(path: Path) -> Read:
    """Every request of every benchmark."""
    report = document(path)
    benchmarks = report.get("benchmarks")
    if not isinstance(benchmarks, list):
        raise DataError(f"{path}: benchmarks is not a list; give the file that GuideLLM wrote")
    return read_rows(_each(path, benchmarks), _row)


def _each(path: Path, benchmarks: list[object]) -> Iterator[tuple[str, object]]:
    for number, benchmark in enumerate(benchmarks, 1):
        states = benchmark.get("requests") if isinstance(benchmark, dict) else None
        if not isinstance(states, dict):
            where = f"{path}: benchmark {number}"
            yield where, bad(where, "it lists no requests by status")
            continue
        for state, requests in states.items():
            for place, request in enumerate(requests if isinstance(requests, list) else [], 1):
                yield f"{path}: benchmark {number}, {state} request {place}", request if state == "successful" else None


def _row(where: str, request: object) -> Row | None:
    if request is None:
        return None
    if not isinstance(request, dict):
        raise bad(where, "expected an object")
    return Row(
        seconds(where, "request_start_time", _first(request, "request_start_time", "start_time", "info.timings.request_start")),
        tokens(where, "prompt_tokens", _first(request, "prompt_tokens", "input_metrics.text_tokens")),
        tokens(where, "output_tokens", _first(request, "output_tokens", "output_metrics.text_tokens")),
    )  # fmt: skip


def _first(request: Json, *paths: str) -> object:
    """The first of several places that holds anything."""
    for path in paths:
        value: object = request
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None
