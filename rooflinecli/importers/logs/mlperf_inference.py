"""mlperf_log_summary.txt of MLPerf Inference's LoadGen: rates per second, latencies in nanoseconds; no model, chip or lengths in it."""

from __future__ import annotations

import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import serving_common
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "MLPerf Inference summary"
_FIELD = re.compile(r"^\s*([A-Za-z0-9.][^:]*?)\s*:\s*(\S.*?)\s*$")


def claims(source: Source) -> bool:
    return "MLPerf Results Summary" in source.head and "Scenario" in source.head


def read(source: Source) -> list[MeasuredRow]:
    fields: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, text in enumerate(source.lines, start=1):
        match = _FIELD.match(text)
        if match:
            fields.setdefault(match[1], match[2])
            lines.setdefault(match[1], line)
    if "Test Parameters Used" not in source.plain:
        raise DataError(f"{source.at(len(source.lines))}: ends before 'Test Parameters Used'; was the file cut short?")
    if fields.get("Result is") != "VALID":
        raise DataError(
            f"{source.at(lines.get('Result is', 1))}: Result is {fields.get('Result is', 'not stated')}; only valid runs are read"
        )
    values = {name: positive(text) for name, text in fields.items()}
    tokens = next(
        (
            n
            for n in ("Tokens per second", "Completed tokens per second", "Tokens per second (inferred)")
            if values.get(n)
        ),
        None,
    )
    samples = next((n for n in ("Samples per second", "Completed samples per second") if values.get(n)), None)
    if tokens is None or samples is None:
        raise DataError(f"{source.at(lines.get('Scenario', 1))}: no tokens per second, so not a language model's run")
    rate, served = values[tokens], values[samples]
    output = max(round(rate / served), 1) if rate and served else None
    if fields.get("Scenario") == "Offline":
        return serving_common.readings(source, lines[tokens], TOOL, {"output": output}, throughput=rate)
    return serving_common.readings(
        source,
        lines[tokens],
        TOOL,
        {"output": output},
        ttft=serving_common.seconds(values, "Mean First Token latency (ns)", scale=1e-9),
        itl=serving_common.seconds(
            values, "Mean Time to Output Token (ns)", "Mean Time per Output Token (ns)", scale=1e-9
        ),
        throughput=rate,
        rate=served,
    )
