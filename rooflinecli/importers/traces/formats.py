"""Formats of recorded load: by what a file is recognized, and how its rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.traces import benchmark_inputs, sharegpt
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

MOONCAKE_SPAN = 512  # tokens of a block whose hash Mooncake records
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


def _aiperf(where: str, record: Json) -> Row | None:
    """A line of AIPerf's profile_export.jsonl (docs/tutorials/working-with-profile-exports of ai-dynamo/aiperf).

    metadata.request_start_ns is when a request was sent, metrics.input_sequence_length and output_sequence_length its tokens. A record
    with an error, or without lengths, is a request that failed.
    """
    about, metrics = record.get("metadata"), record.get("metrics")
    if not isinstance(about, dict):
        raise bad(where, "metadata is no object")
    if record.get("error") or not isinstance(metrics, dict) or "output_sequence_length" not in metrics:
        return None
    sent = about.get("request_start_ns")
    stated = {name: m.get("value") if isinstance(m, dict) else m for name, m in metrics.items()}
    return Row(
        seconds(where, "request_start_ns", sent / 1e9 if isinstance(sent, (int, float)) else sent),
        tokens(where, "input_sequence_length", stated.get("input_sequence_length")),
        tokens(where, "output_sequence_length", stated.get("output_sequence_length")),
        str(about.get("x_correlation_id") or ""),
    )


def _azure(where: str, cells: dict[str, str]) -> Row:
    """Azure's traces of 2023 and 2024 (github Azure/AzurePublicDataset, CC-BY): TIMESTAMP,ContextTokens,GeneratedTokens; that of
    multimodal models of 2025 has NumImages too. Instants have up to seven decimals; those of 2024 carry a zone."""
    return Row(
        timestamp(where, "TIMESTAMP", cells.get("timestamp", "")),
        tokens(where, "ContextTokens", cells.get("contexttokens")),
        tokens(where, "GeneratedTokens", cells.get("generatedtokens")),
        images=tokens(where, "NumImages", cells.get("numimages") or "0", 0),
    )


def _bailian(path: Path) -> Read:
    """Alibaba's Bailian (github alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0; KVCache in the Wild, USENIX ATC '25), a JSON object a
    line: chat_id, parent_chat_id, timestamp in seconds, input_length, output_length, type, turn, hash_ids.

    hash_ids name the prompt's blocks of 16 tokens. Classes are the types: text, search, image, file. Every turn has its instant; those
    that lead to one first turn are a session.
    """
    heads: dict[str, str] = {}

    def row(where: str, record: Json) -> Row:
        chat, parent = str(record.get("chat_id")), str(record.get("parent_chat_id", -1))
        heads[chat] = session = heads.get(parent, chat)
        hashes = _hashes(where, record)
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


def _mooncake(where: str, record: Json) -> Row:
    """Mooncake's JSONL (github kvcache-ai/Mooncake, Apache-2.0), which Dynamo and AIPerf replay: timestamp in ms, input_length,
    output_length, hash_ids.

    hash_ids name the prompt's blocks of 512 tokens, each with all before it, so that equal ids are a shared prefix. `session_id` and
    `delay` (ms after the turn before) make sessions, as AIPerf writes them.
    """
    hashes = _hashes(where, record)
    delay, time = record.get("delay"), record.get("timestamp")
    return Row(
        None if time is None else seconds(where, "timestamp", time) / 1e3,
        tokens(where, "input_length", record.get("input_length")),
        tokens(where, "output_length", record.get("output_length")),
        str(record.get("session_id", "")),
        hashes,
        MOONCAKE_SPAN if hashes else 0,
        None if delay is None else pause(where, "delay", delay) / 1e3,
    )


def _hashes(where: str, record: Json) -> tuple[int | str, ...]:
    """Keys of a prompt's blocks. Raises DataError."""
    hashes = record.get("hash_ids") or ()
    if not isinstance(hashes, (list, tuple)) or not all(isinstance(h, (int, str)) for h in hashes):
        raise bad(where, "hash_ids is not a list of numbers")
    return tuple(hashes)


def _burstgpt(where: str, cells: dict[str, str]) -> Row | None:
    """BurstGPT (github HPMLL/BurstGPT, CC-BY): Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type; files since release 2
    have Session ID and Elapsed time too.

    Instants are seconds since the first midnight. A request whose response has no tokens failed, according to the release; its load is
    unknown. Classes are those of the log: conversations, or the API.
    """
    answer = tokens(where, "Response tokens", cells.get("response tokens"), 0)
    if not answer:
        return None
    return Row(
        seconds(where, "Timestamp", cells.get("timestamp")),
        tokens(where, "Request tokens", cells.get("request tokens")),
        answer,
        cells.get("session id", ""),
        label=cells.get("log type", "").strip(),
    )


def _guidellm(path: Path) -> Read:
    """Requests measured by GuideLLM: benchmarks.json, by status (src/guidellm/benchmark of vllm-project/guidellm, old and new names).

    Requests that are incomplete or errored failed. Benchmarks of a sweep follow one another as they did.
    """
    benchmarks = document(path).get("benchmarks")
    if not isinstance(benchmarks, list):
        raise DataError(f"{path}: benchmarks is not a list; give the file that GuideLLM wrote")

    def each() -> Iterator[tuple[str, object]]:
        for number, benchmark in enumerate(benchmarks, 1):
            states, where = (
                benchmark.get("requests") if isinstance(benchmark, dict) else None,
                f"{path}: benchmark {number}",
            )
            if not isinstance(states, dict):
                yield where, bad(where, "it lists no requests by status")
                continue
            for state, requests in states.items():
                for place, request in enumerate(requests if isinstance(requests, list) else [], 1):
                    yield f"{where}, {state} request {place}", request if state == "successful" else None

    return read_rows(each(), _guidellm_request)


def _guidellm_request(where: str, request: object) -> Row | None:
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
    return Row(
        _instant(where, time) if time else None,
        prompt,
        tokens(where, "output", given["output"]),
        given["session"],
        prefix_block_keys(prefix, shared) if prefix else (),
        SPAN if prefix else 0,
        pause(where, "think", think) if think else None,
        given["class"],
    )


def _instant(where: str, written: str) -> float:
    """Seconds, or else a date and a time of day."""
    try:
        return seconds(where, "time", written)
    except DataError:
        if "-" not in written.lstrip("-") or ":" not in written:
            raise
    return timestamp(where, "time", written)


def _vllm(path: Path) -> Read:
    """Output of `vllm bench serve --save-result --save-detailed` (vllm/benchmarks/serve.py): input_lens, output_lens, errors, start_times.

    Older versions have no start_times: give --qps or --concurrency. An entry with an error, or without output, is a request that failed.
    """
    report = document(path)
    prompts, outputs, starts = (report.get(name) or [] for name in ("input_lens", "output_lens", "start_times"))
    if not len(prompts) == len(outputs) or (starts and len(starts) != len(prompts)):
        raise DataError(
            f"{path}: input_lens, output_lens and start_times are not equally long; give the file as vLLM wrote it"
        )
    errors = report.get("errors") or []

    def row(where: str, i: int) -> Row | None:
        if not outputs[i] or (i < len(errors) and errors[i]):
            return None
        start = starts[i] if starts else None
        return Row(
            None if start is None else seconds(where, "start_times", start),
            tokens(where, "input_lens", prompts[i]),
            tokens(where, "output_lens", outputs[i]),
        )

    return read_rows(((f"{path}: request {i + 1}", i) for i in range(len(prompts))), row)


def _objects(*names: str, without: str = "") -> Callable[[str], bool]:
    """Whether the first object has keys, and lacks another."""
    return lambda head: set(names) <= (found := keys(head)) and without not in found


def _columns(*names: str) -> Callable[[str], bool]:
    """Whether the heading has columns."""
    return lambda head: set(names) <= heading(head)


def _each(
    read: Callable[[Path], Iterator[tuple[str, Any]]], make: Callable[[str, Any], Row | None]
) -> Callable[[Path], Read]:
    """The row that is made of each line of a file."""
    return lambda path: read_rows(read(path), make)


# tried in this order
FORMATS = {
    "aiperf": TraceFormat(_objects("metadata", "metrics"), _each(lines, _aiperf)),
    "azure": TraceFormat(_columns("timestamp", "contexttokens", "generatedtokens"), _each(table, _azure)),
    "bailian": TraceFormat(_objects("chat_id", "input_length", "output_length"), _bailian),
    "benchmark-inputs": TraceFormat(benchmark_inputs.matches, benchmark_inputs.rows),
    "burstgpt": TraceFormat(_columns("timestamp", "request tokens", "response tokens"), _each(table, _burstgpt)),
    "guidellm": TraceFormat(_objects("benchmarks"), _guidellm),
    "mooncake": TraceFormat(_objects("input_length", "output_length", without="chat_id"), _each(lines, _mooncake)),
    "sharegpt": TraceFormat(sharegpt.matches, sharegpt.rows),
    "simple-csv": TraceFormat(
        lambda head: all(heading(head) & set(_ALSO[name]) for name in ("prompt", "output")), _each(table, _simple_csv)
    ),
    "vllm": TraceFormat(_objects("input_lens"), _vllm),
}
