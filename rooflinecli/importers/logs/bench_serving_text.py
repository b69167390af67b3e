"""The result block that vLLM's and SGLang's serving benchmarks print: milliseconds, one block per run, under many other messages."""

from __future__ import annotations

import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import Json, MeasuredRow, Source, positive

TOOL = "Serving Benchmark Result (text)"
_TITLE = re.compile(r"=+ Serving Benchmark Result =+")
_FIELD = re.compile(r"^\W*([A-Z][^:|]*?):\s+([-\w.,]+)\s*$")
_FLAG = re.compile(r"--(model|max-concurrency|request-rate|backend)[= ]+['\"]?([^'\"\s\\]+)")
_COMMAND = re.compile(r"\bbench(?:mark)?_serving|\bbench serve\b")
_LATENCIES = ("Mean TTFT (ms)", "Median TTFT (ms)", "Mean TPOT (ms)", "Median TPOT (ms)")
_ASKED = re.compile(r"\b(model|max_concurrency|request_rate|backend)=(?:'([^']*)'|([^,)\s]+))")


def claims(source: Source) -> bool:
    return bool(_TITLE.search(source.plain)) and "Successful requests" in source.plain


def read(source: Source) -> list[MeasuredRow]:
    found: list[MeasuredRow] = []
    starts = [i for i, text in enumerate(source.lines) if _TITLE.search(text)]
    for start, following in zip(starts, [*starts[1:], len(source.lines)], strict=True):
        fields, end = _block(source.lines[start + 1 : following])
        if end is None:
            raise DataError(f"{source.at(start + 1)}: the block of results does not end; was the file cut short?")
        found += _run(source, start + 1, fields, _arguments(source.lines[:start]))
    return found


def _block(lines: list[str]) -> tuple[dict[str, str], int | None]:
    """The fields up to the line of equal signs that closes them."""
    fields: dict[str, str] = {}
    for i, text in enumerate(lines):
        if fields and re.search(r"={20,}", text):
            return fields, i
        match = _FIELD.match(text.strip())
        if match:
            fields.setdefault(match[1].strip(), match[2])
    return fields, None


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


def _run(source: Source, line: int, fields: dict[str, str], asked: dict[str, str]) -> list[MeasuredRow]:
    values: Json = {name: positive(text) for name, text in fields.items()}
    sizes = serving_common.lengths(
        values.get("Total input tokens"),
        values.get("Total generated tokens"),
        values.get("Successful requests"),
    )
    backend = fields.get("Backend", asked.get("backend"))
    cap = (
        values.get("Maximum request concurrency")
        or values.get("Max request concurrency")
        or values.get("Max reqeuest concurrency")  # as SGLang printed it until 2025
        or asked.get("max_concurrency")
    )
    rate = (
        fields.get("Traffic request rate") or fields.get("Request rate configured (RPS)") or asked.get("request_rate")
    )
    broken = serving_common.lumped(fields.get("Mean TPOT (ms)"), fields.get("Median TPOT (ms)"))
    return serving_common.readings(
        source,
        line,
        TOOL,
        {"model": asked.get("model"), "engine": "vllm" if backend in ("openai", "openai-chat") else backend, **sizes},
        ttft=serving_common.seconds(values, "Mean TTFT (ms)", "Median TTFT (ms)"),
        itl=None if broken else serving_common.seconds(values, "Mean TPOT (ms)", "Median TPOT (ms)"),
        throughput=values.get("Output token throughput (tok/s)"),
        notes=serving_common.unread(source, line, dict(fields), *_LATENCIES),
        **serving_common.load(cap, rate, values.get("Successful requests"), values.get("Benchmark duration (s)")),
    )
