"""Serving benchmarks that print their result as `name: value`: the block of vLLM's and SGLang's clients, trtllm-bench, MLPerf Inference."""

from __future__ import annotations

import re

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.logs.log_reader import LogReader
from rooflinecli.importers.logs.serving_run import ServingRun, engine_of, lengths, lumped, seconds, unread
from rooflinecli.importers.source import MeasuredRow, Source, positive

_TITLE = re.compile(r"=+ Serving Benchmark Result =+")
_FIELD = re.compile(r"^\W*([A-Z][^:|]*?):\s+([-\w.,]+)\s*(?:[←·#].*)?$")
_FLAG = re.compile(r"--(model|max-concurrency|request-rate|backend|dataset-name|dataset-path)[= ]+['\"]?([^'\"\s\\]+)")
_COMMAND = re.compile(r"\bbench(?:mark)?_serving|\bbench serve\b")
_ASKED = re.compile(
    r"\b(model|max_concurrency|request_rate|backend|dataset_name|dataset_path)=(?:'([^']*)'|([^,)\s]+))"
)
_IMAGES = re.compile(
    r"vision|image|video|audio|vqa|mmmu|multi-?modal|-mm\b", re.IGNORECASE
)  # in the name of a data set
_CAPS = ("Maximum request concurrency", "Max request concurrency", "Max reqeuest concurrency")  # SGLang's until 2025
_TRT_REPORT = re.compile(r"^= (ENGINE DETAILS|PYTORCH BACKEND|_AUTODEPLOY)")
_TRT_FIELD = re.compile(r"^([A-Z][^:]*?):\s+(\S.*?)\s*$")
_TRT_DTYPES = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "int4", "W8A16": "int8"}
_MLPERF_FIELD = re.compile(r"^\s*([A-Za-z0-9.][^:]*?)\s*:\s*(\S.*?)\s*$")


def _blocks(source: Source, tool: str) -> list[MeasuredRow]:
    """Milliseconds, one block per run, under many other messages."""
    found: list[MeasuredRow] = []
    starts = [i for i, text in enumerate(source.lines) if _TITLE.search(text)]
    for start, following in zip(starts, [*starts[1:], len(source.lines)], strict=True):
        fields, whole = _block(source.lines[start + 1 : following])
        if not whole:
            raise DataError(f"{source.at(start + 1)}: the block of results does not end; was the file cut short?")
        fields = {**_load_before(source.lines[:start]), **fields}
        found += _block_run(source, start + 1, fields, _arguments(source.lines[:start])).rows(source, start + 1, tool)
    return found


def _block(lines: list[str]) -> tuple[dict[str, str], bool]:
    """The fields up to the line of equal signs that closes them, or to the end of a listing in a document; whether there is one."""
    fields: dict[str, str] = {}
    for text in lines:
        latency = any(name.startswith(("Mean ITL", "Median ITL", "Median TPOT")) for name in fields)
        if fields and (re.search(r"={20,}", text) or (latency and text.lstrip().startswith("```"))):
            return fields, True
        if match := _FIELD.match(text.strip()):
            fields.setdefault(match[1].strip(), match[2])
    return fields, False


def _load_before(before: list[str]) -> dict[str, str]:
    """The load that a client prints when it starts, up to the block before."""
    found: dict[str, str] = {}
    for text in reversed(before):
        if re.search(r"={20,}", text):
            break
        if (match := _FIELD.match(text.strip())) and match[1] in (*_CAPS, "Traffic request rate"):
            found.setdefault(match[1], match[2])
    return found


def _arguments(before: list[str]) -> dict[str, str]:
    """The options of the last command printed before a block: its parsed arguments, or the command line, over several lines."""
    for i in range(len(before) - 1, -1, -1):
        if "Namespace(" in before[i]:
            return {name: quoted or bare for name, quoted, bare in _ASKED.findall(before[i])}
        if _COMMAND.search(before[i]):
            end = next((j for j in range(i, len(before)) if not before[j].rstrip().endswith("\\")), i)
            flags = _FLAG.findall(" ".join(before[i : end + 1]))
            if flags:  # else it is prose
                return {name.replace("-", "_"): value for name, value in flags if "$" not in value}
    return {}


def _block_run(source: Source, line: int, fields: dict[str, str], asked: dict[str, str]) -> ServingRun:
    values: Json = {name: positive(text) for name, text in fields.items()}
    requests = values.get("Successful requests")
    sizes = lengths(values.get("Total input tokens"), values.get("Total generated tokens"), requests)
    engine = engine_of(fields.get("Backend", asked.get("backend")))
    first, each = ("Mean TTFT (ms)", "Median TTFT (ms)"), ("Mean TPOT (ms)", "Median TPOT (ms)")
    broken = lumped(*(fields.get(name) for name in each))
    stated = (fields.get(name) for name in ("Traffic request rate", "Request rate configured (RPS)"))
    return ServingRun(
        {"model": asked.get("model"), "engine": engine, **sizes},
        seconds(values, *first),
        None if broken else seconds(values, *each),
        values.get("Output token throughput (tok/s)"),
        next((cap for name in _CAPS if (cap := values.get(name))), asked.get("max_concurrency")),
        next((rate for rate in stated if rate), asked.get("request_rate")),
        requests,
        values.get("Benchmark duration (s)"),
        notes=unread(source, line, dict(fields), *first, *each),
        images=bool(
            values.get("Total input vision tokens")
            or any(_IMAGES.search(asked.get(name, "")) for name in ("dataset_name", "dataset_path"))
        ),
    )


def _trtllm(source: Source, tool: str) -> list[MeasuredRow]:
    """The report of `trtllm-bench throughput` and `latency`: milliseconds, layout and formats stated."""
    found: list[MeasuredRow] = []
    starts = [i for i, text in enumerate(source.lines) if _TRT_REPORT.match(text)] or [0]
    for start, following in zip(starts, [*starts[1:], len(source.lines)], strict=True):
        block = source.lines[start:following]
        fields = {m[1].strip(): m[2] for m in map(_TRT_FIELD.match, block) if m}
        at = next((i for i, text in enumerate(block) if "PERFORMANCE OVERVIEW" in text), None)
        if at is None:
            raise DataError(
                f"{source.at(start + len(block))}: the report ends before its PERFORMANCE OVERVIEW; was it cut short?"
            )
        values: Json = {name: positive(text.rstrip("%")) for name, text in fields.items()}
        rate = values.get("Total Output Throughput (tokens/sec)") or values.get("Token Throughput (tokens/sec)")
        itl = seconds(values, "Average time-per-output-token [TPOT] (ms)")
        if rate is None and itl is None:
            raise DataError(
                f"{source.at(start + at + 1)}: no throughput in this report; placeholders are no measurements"
            )
        tp, pp, served = (values.get(name) for name in ("TP Size", "PP Size", "Request Throughput (req/sec)"))
        each = next((value for name, value in values.items() if name.startswith("Per GPU Output Throughput")), None)
        both, whole, taken = (
            values.get(name)
            for name in ("Total Token Throughput (tokens/sec)", "Average request latency (ms)", "Total Latency (ms)")
        )
        if served and rate and both:  # where the report is only its overview
            values.setdefault("Average Input Length (tokens)", round((both - rate) / served))
            values.setdefault("Average Output Length (tokens)", round(rate / served))
        if served and whole and taken:
            values.setdefault("Number of concurrent requests", served * whole * 1e-3)
            values.setdefault("Number of requests", round(served * taken * 1e-3))
        plain = "bf16" if fields.get("Dtype") == "bfloat16" else None
        run = ServingRun(
            {
                "model": fields.get("Model"),
                "engine": "trtllm",
                "tp": tp,
                "pp": pp,
                "n": tp * (pp or 1.0) if tp else round(rate / each) if rate and each else None,
                "prompt": values.get("Average Input Length (tokens)"),
                "output": values.get("Average Output Length (tokens)"),
                "dtype": _TRT_DTYPES.get(fields.get("Quantization", ""), plain),
                "kv-dtype": "fp8" if fields.get("KV Cache Dtype") == "FP8" else None,
            },
            seconds(values, "Average time-to-first-token [TTFT] (ms)"),
            itl,
            rate,
            values.get("Number of concurrent requests"),
            requests=values.get("Number of requests"),
        )
        found += run.rows(source, start + at + 1, tool)
    return found


def _mlperf(source: Source, tool: str) -> list[MeasuredRow]:
    """The summary of MLPerf Inference (LoadGen's mlperf_log_summary.txt): nanoseconds. A server run is an open loop at its completed rate."""
    fields: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, text in enumerate(source.lines, start=1):
        if match := _MLPERF_FIELD.match(text):
            fields.setdefault(match[1], match[2])
            lines.setdefault(match[1], line)
    if "Test Parameters Used" not in source.plain:
        raise DataError(f"{source.at(len(source.lines))}: ends before 'Test Parameters Used'; was the file cut short?")
    if fields.get("Result is") != "VALID":
        stated = fields.get("Result is", "not stated")
        raise DataError(f"{source.at(lines.get('Result is', 1))}: Result is {stated}; only valid runs are read")
    values = {name: positive(text) for name, text in fields.items()}
    names = ("Tokens per second", "Completed tokens per second", "Tokens per second (inferred)")
    tokens = next((name for name in names if values.get(name)), None)
    served = values.get("Samples per second") or values.get("Completed samples per second")
    if tokens is None or not served:
        raise DataError(f"{source.at(lines.get('Scenario', 1))}: no tokens per second, so not a language model's run")
    run = ServingRun(lengths(None, values[tokens], served), throughput=values[tokens])
    if fields.get("Scenario") != "Offline":
        run.rate = served
        run.ttft = seconds(values, "Mean First Token latency (ns)", scale=1e-9)
        run.itl = seconds(values, "Mean Time to Output Token (ns)", "Mean Time per Output Token (ns)", scale=1e-9)
    return run.rows(source, lines[tokens], tool)


READERS = (
    LogReader(
        "Serving Benchmark Result (text)",
        re.compile(r"(?s)=+ Serving Benchmark Result =+(?=.*Successful requests)"),
        _blocks,
    ),
    LogReader("trtllm-bench", re.compile(r"= PERFORMANCE OVERVIEW|(?s:= ENGINE DETAILS(?=.*TP Size:))"), _trtllm),
    LogReader(
        "MLPerf Inference summary", re.compile(r"\A(?s:.{0,200000}?)MLPerf Results Summary(?s:(?=.*Scenario))"), _mlperf
    ),
)
