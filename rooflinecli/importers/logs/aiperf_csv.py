"""AIPerf and genai-perf CSV: a table of latencies, an empty line, a table of single values; the load is not in the file."""

from __future__ import annotations

import re

from rooflinecli.importers.logs.log_reader import LogReader, csv_rows
from rooflinecli.importers.logs.serving_json import AIPERF_SCALE
from rooflinecli.importers.source import MeasuredRow, Source, positive

_LATENCIES = {"Time to First Token": "ttft", "Time To First Token": "ttft", "Inter Token Latency": "itl"}
_LENGTHS = {"Input Sequence Length": "prompt", "Output Sequence Length": "output"}


def _rows(source: Source, tool: str) -> list[MeasuredRow]:
    found, options = [], dict[str, object]()
    for line, row in csv_rows(source, "Metric,"):
        name, _, unit = row["Metric"].rstrip(")").partition(" (")
        value = positive(row.get("avg", row.get("Avg", "")))
        if name in _LATENCIES and value and unit in AIPERF_SCALE:
            found.append((line, _LATENCIES[name], value * AIPERF_SCALE[unit]))
        elif name in _LENGTHS and value:
            options[_LENGTHS[name]] = max(round(value), 1)
    notes = ("the load is not in the file",)
    return [
        MeasuredRow(source.at(line), tool, what, value, options=options, notes=notes) for line, what, value in found
    ]


READERS = (LogReader("AIPerf / genai-perf CSV", re.compile(r"(?ms)^Metric,[Aa]vg,(?=.*First Token)"), _rows),)
