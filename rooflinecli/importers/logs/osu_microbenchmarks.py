"""OSU micro-benchmarks: bandwidth in MB/s or latency in microseconds by message size; collectives too."""

from __future__ import annotations

import re

from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "OSU micro-benchmarks"
_TITLE = re.compile(r"# OSU (?:MPI|UPC|NCCL)\S* (.*?) (?:Test|Benchmark|Latency)", re.IGNORECASE)
_OPS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "bandwidth": "permute",
    "": "permute",
    "latency": "permute",
}
_ROW = re.compile(r"^\W*(\d+)\s+([\d.]+)(?:\s+(?:[\d.]+|(Fail)|Pass))*\s*\W*$")  # OSU 7 validates with -c
# of two directions, of one-sided operations, of several pairs, and of what runs behind other work: no estimate has them
_OTHERS = (
    "bi-directional",
    "bidirectional",
    "mpi_put",
    "mpi_get",
    "mpi_acc",
    "multiple",
    "multi latency",
    "non-blocking",
    "nonblocking",
)


def claims(source: Source) -> bool:
    return bool(re.search(r"# OSU \S+", source.plain)) and bool(re.search(r"# Size\s", source.plain))


def read(source: Source) -> list[MeasuredRow]:
    found = []
    op, rate = None, False
    for line, text in enumerate(source.lines, start=1):
        if "# OSU " in text:
            op = _op(text)
        elif "# Size" in text:
            rate = "Bandwidth" in text
        elif op and (match := _ROW.match(text)):
            size, value = positive(match[1]), positive(match[2])
            if size and value:
                seconds = size / (value * 1e6) if rate else value * 1e-6
                probe = {"op": op, "bytes": size, "n": 2 if op == "permute" else None, "streamed": rate}
                if op in ("all-gather", "all-to-all"):
                    probe["each"] = True  # the size is that of the part sent to, or gathered from, one rank
                doubt = "its validation failed" if match[3] else ""
                found.append(MeasuredRow(source.at(line), TOOL, "collective", seconds, probe=probe, doubt=doubt))
        elif text.lstrip().startswith("```"):
            op = None  # other lines are messages between rows
    return found


def _op(title: str) -> str | None:
    """The operation of a title; None for one of _OTHERS."""
    words = title.lower()
    if any(other in words for other in _OTHERS):
        return None
    return next(
        (
            op
            for name, op in _OPS.items()
            if name and name in words.replace("-", "").replace(" ", "_").replace("__", "_")
        ),
        None,
    )
