"""nccl-tests and rccl-tests: a table of sizes with out-of-place and in-place times in microseconds."""

from __future__ import annotations

import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import Json, MeasuredRow, Source, positive

TOOL = "nccl-tests / rccl-tests"
OPS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "sendrecv": "permute",
}
_HEAD = re.compile(r"^\W*size\s+count\s+type")
_NAME = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoall|sendrecv)_perf\b")
_FACTOR = 1.02
_DEVICES = re.compile(r"\bnThread\s+(\d+)\s+nGpus\s+(\d+)\b")  # of one process
_RANK = re.compile(r"^\W*Rank\s+(\d+)\s.*\bdevice\s+\d+ +(?:\[\S+\] +)?(.*?)\s*$")


def claims(source: Source) -> bool:
    return bool(re.search(r"size\s+count\s+type", source.plain)) and "algbw" in source.plain


def read(source: Source) -> list[MeasuredRow]:
    found: list[MeasuredRow] = []
    name, ranks, inside, devices = None, dict[str, str](), False, 0
    for line, text in enumerate(source.lines, start=1):
        if match := _NAME.search(text):
            name = OPS[match[1]]
            ranks = ranks if "starting" not in text else {}
        if match := _DEVICES.search(text):
            devices = int(match[1]) * int(match[2])  # one may be that of each of several processes
        if match := _RANK.match(text):
            ranks[match[1]] = match[2]
        if _HEAD.match(text):
            inside = True
        elif inside and "Avg bus bandwidth" in text:
            inside, ranks = False, {}
        elif inside and (reading := _row(source, line, text, name, ranks, devices)):
            found.append(reading)
    if inside:
        raise DataError(
            f"{source.at(len(source.lines))}: the table ends before '# Avg bus bandwidth'; was the file cut short?"
        )
    return found


def _row(
    source: Source, line: int, text: str, name: str | None, ranks: dict[str, str], devices: int
) -> MeasuredRow | None:
    """size count type [redop root] time algbw busbw #wrong [time algbw busbw #wrong]; what moves is the larger of in and out."""
    cells = text.strip().lstrip("#").split()
    size = positive(cells[0]) if cells else None
    start = next((i for i, cell in enumerate(cells) if i > 2 and "." in cell and positive(cell)), None)
    if size is None or start is None or len(cells) < start + 3 or not cells[2].isalnum():
        return None
    start = start - 1 if _is_time(cells, start) else start
    time = positive(cells[start])
    if time is None:
        return None
    out, bus = (positive(cells[i]) for i in (start + 1, start + 2))
    if name is None and out and bus and bus > _FACTOR * out:
        name = "all-reduce"  # the only one whose bus carries more than the algorithm's bytes
    n = max((int(rank) + 1 for rank in ranks), default=devices)  # a copy of a log may leave ranks out
    probe: Json = {"op": name, "bytes": size, "n": n if n > 1 else None}
    if names := {name for name in ranks.values() if name}:
        probe["device"] = sorted(names)
    wrong = positive(cells[start + 3]) if len(cells) > start + 3 else None
    doubt = f"{wrong:g} results are wrong" if wrong else ""
    return MeasuredRow(source.at(line), TOOL, "collective", time * 1e-6, probe=probe, doubt=doubt)


def _is_time(cells: list[str], start: int) -> bool:
    """Whether the cell before the first fraction is the time: long times are printed without one."""
    before = cells[start - 1]
    return before.isdigit() and start - 1 > 4
