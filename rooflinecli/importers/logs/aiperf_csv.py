"""AIPerf and genai-perf CSV: a table of latencies, an empty line, a table of single values; the load is not in the file."""

from __future__ import annotations

import csv
import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs.aiperf import SCALE
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "AIPerf / genai-perf CSV"
_UNIT = re.compile(r"^(.*?) \((\w+)\)$")
_LATENCIES = {"Time to First Token": "ttft", "Time To First Token": "ttft", "Inter Token Latency": "itl"}
_LENGTHS = {"Input Sequence Length": "prompt", "Output Sequence Length": "output"}


def claims(source: Source) -> bool:
    return bool(re.search(r"^Metric,(Avg|avg),", source.head, re.MULTILINE)) and "First Token" in source.head


def read(source: Source) -> list[MeasuredRow]:
    found, options, width = [], {}, 0
    for line, cells in enumerate(csv.reader(source.lines), start=1):
        if not cells:
            width = 0
        elif cells[0] in ("Metric", "Endpoint"):
            width = len(cells)
        elif width:
            if len(cells) != width:
                raise DataError(f"{source.at(line)}: {len(cells)} cells under {width} columns; was the file cut short?")
            match = _UNIT.match(cells[0])
            name, unit = (match[1], match[2]) if match else (cells[0], "")
            value = positive(cells[1])
            if name in _LATENCIES and value and unit in SCALE:
                found.append((line, _LATENCIES[name], value * SCALE[unit]))
            elif name in _LENGTHS and value:
                options[_LENGTHS[name]] = max(round(value), 1)
    notes = ("the load is not in the file",)
    return [
        MeasuredRow(source.at(line), TOOL, what, value, options=options, notes=notes) for line, what, value in found
    ]
