"""Micro-benchmarks of hardware: collectives by nccl-tests, OSU and perftest, all_reduce_bench; matmuls by mamf-finder and the CUTLASS profiler; `roofline measure`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import LogReader, MeasuredRow, Source, csv_rows, patterns, positive
from rooflinecli.specs.snapshots import packaged

_P = patterns("hardware_probes")
_NAMES = packaged(__file__)
_NCCL_NAME = re.compile(_NAMES["nccl_program"])
_NCCL_FACTOR = 1.02
_CUTLASS = "Problem,Provider,OperationKind"
_MEASURE = "roofline-measure/1"


def _nccl(source: Source, tool: str) -> list[MeasuredRow]:
    """nccl-tests and rccl-tests: microseconds out of place. The line that names the program may follow its table."""
    found: list[MeasuredRow] = []
    name, ranks, in_table, devices, first, width = None, dict[str, tuple[str, ...]](), False, 0, 0, 0
    torn: list[str] = []
    for line, text in enumerate(source.lines, start=1):
        if match := _NCCL_NAME.search(text):
            name = _NAMES["nccl"].get(match[1], match[1])
            if "concluded" in text:
                found[first:] = [_nccl_named(row, name) for row in found[first:]]
                name = None
            ranks = ranks if "starting" not in text else {}
        if match := _P.nccl_devices.search(text):
            devices = int(match[1]) * int(match[2])  # one may be that of each of several processes
        if match := _P.nccl_rank.match(text):
            ranks[match[1]] = match.groups()[1:]
        if _P.nccl_head.match(text):
            columns = text.split()
            width = len(columns) - columns.index("time") if "time" in columns else 8
            in_table, first = True, len(found)
        elif in_table and ("Avg bus bandwidth" in text or text.lstrip().startswith("```")):
            in_table, ranks = False, {}
            if table := found[first:]:  # bandwidths of small sizes have two digits
                op = name or max(table, key=lambda row: row.probe["bytes"]).probe["op"]
                found[first:] = [_nccl_named(row, op) for row in table]
                notes = (f"lines {', '.join(torn)} of its table are no whole rows and not read",) if torn else ()
                found[first] = replace(found[first], notes=notes)
            torn = []
        elif in_table and (row := _nccl_row(source.at(line), tool, text, width, ranks, devices)):
            found.append(row)
        elif in_table and _P.nccl_row.match(text):
            torn.append(str(line))
    if in_table:
        why = f"{source.at(len(source.lines))}: the table ends before '# Avg bus bandwidth'; was the file cut short?"
        raise DataError(why)
    return found


def _nccl_named(row: MeasuredRow, op: str | None) -> MeasuredRow:
    unread = "" if op is None or op in _NAMES["nccl"].values() else f"{row.tool}: no estimate has a {op} by itself"
    return replace(row, probe={**row.probe, "op": op}, unread=unread)


def _nccl_row(
    where: str, tool: str, text: str, width: int, ranks: dict[str, tuple[str, ...]], devices: int
) -> MeasuredRow | None:
    """size count type [redop] [root], then `width` cells: time algbw busbw #wrong, out of place and in place; what moves is the larger
    of in and out. The collective as its columns tell it: the root of one, whether it reduces, and how much more the bus carries.
    `ranks` has the host, the index and the name of each rank's device."""
    cells = text.strip().lstrip("#").split()
    size, start = positive(cells[0]) if cells else None, len(cells) - width
    if size is None or start < 3 or width < 3 or not cells[2].isalnum():
        return None
    time, out, bus = map(positive, cells[start : start + 3])
    if time is None:
        return None
    sums, rooted = (any(test(cell) for cell in cells[3:start]) for test in (_NAMES["sums"].__contains__, str.isdigit))
    op = ("reduce" if sums else "broadcast") if rooted else None
    if op is None and out and bus and (sums or bus > _NCCL_FACTOR * out):
        op = "reduce-scatter" if _NCCL_FACTOR * bus < out else "all-reduce"
    n = max((int(rank) + 1 for rank in ranks), default=devices)  # a copy of a log may leave ranks out
    probe: Json = {"op": op, "bytes": size, "n": n if n > 1 else None}
    if names := {name for _, _, name in ranks.values() if name}:
        probe["device"] = sorted(names)
    wrong = positive(cells[start + 3]) if len(cells) > start + 3 else None
    doubt = f"{wrong:g} results are wrong" if wrong else ""
    if len(ranks) > 1 and len(set(ranks.values())) == 1:
        doubt = f"all {len(ranks)} ranks are on one device, so no link is measured"
    return MeasuredRow(where, tool, "collective", time * 1e-6, probe=probe, doubt=doubt)


@dataclass(frozen=True)
class LineProbes:
    """A benchmark that prints a result on each line: a row of `lines` in the table says what begins them, what ends them, and what one has."""

    TOOL: str
    row: Json

    def claims(self, source: Source) -> bool:
        return re.search(self.row["marker"], source.plain) is not None

    def read(self, source: Source) -> list[MeasuredRow]:
        found, said = list[MeasuredRow](), Json()
        for line, text in enumerate(source.lines, start=1):
            heads = [(match, more) for head, more in self.row["heads"] if (match := re.search(head, text))]
            for match, more in heads:
                said = {**({} if more.get("begins") else said), **more, **match.groupdict()}
            if re.search(self.row.get("ends", "(?!)"), text):
                said = {}  # other lines are messages between rows
            if not heads and (said.get("begins") or "ends" not in self.row):
                matches = (match for row in self.row["rows"] if (match := re.search(row, text)))
                if row := next(matches, None):
                    found += self._result(source.at(line), {**said, **row.groupdict()})
        return found

    def _result(self, where: str, said: Json) -> list[MeasuredRow]:
        value, unit = positive(said["value"]), said.get("unit") or self.row.get("unit")
        if unit not in _NAMES["units"]:
            raise DataError(f"{where}: a rate in {unit}; expected {', '.join(self.row['expected'])}")
        m, n, k = sizes = [positive(said.get(name)) for name in ("m", "n", "k")]
        size = (positive(said.get("bytes")) or 0.0) * _NAMES["units"].get(said.get("size_unit"), 1.0)
        scale = _NAMES["units"][unit]
        if value and "seconds" in said:  # of which the rate counts a payload twice
            taken, size = float(said["seconds"]), float(f"{float(said['seconds']) * value * scale / 2:.3g}")
        else:
            work = 2 * m * n * k if m and n and k else size
            taken = (value * scale if unit == "us" else work / (value * scale)) if value and work else 0.0
        if not taken or not (said.get("op") or all(sizes)):
            return []
        kept = {name: said[name] for name in ("op", "streamed", "cpu", "device", "each", "dtype") if name in said}
        probe = kept | ({"m": m, "n": n, "k": k} if all(sizes) else {"bytes": size, "n": n})
        unread = (
            f"OSU's {said['other'].lower()} test is none of a transfer or a collective by itself"
            if said.get("other")
            else ""
        )
        doubt = "its validation failed" if said.get("wrong") else ""
        what = "matmul" if all(sizes) else "collective"
        return [MeasuredRow(where, self.TOOL, what, taken, probe=probe, doubt=doubt, unread=unread)]


def _cutlass(source: Source, tool: str) -> list[MeasuredRow]:
    """CUTLASS profiler (--output): a row per kernel and problem, runtime in milliseconds; the best kernel of each problem counts."""
    best: dict[Any, MeasuredRow] = {}
    for line, row in csv_rows(source, _CUTLASS):
        m, n, k, time = (positive(row.get(name)) for name in ("m", "n", "k", "Runtime"))
        gemm = row.get("OperationKind") == "gemm" and (positive(row.get("batch_count")) or 1) == 1
        if gemm and m and n and k and time:
            dtype = _NAMES["cutlass"].get(str(row.get("A", "")).partition(":")[0])
            probe = {"m": m, "n": n, "k": k, "dtype": dtype}
            found = MeasuredRow(source.at(line), tool, "matmul", time * 1e-3, probe=probe)
            best[m, n, k, dtype] = min(best.get((m, n, k, dtype), found), found, key=lambda row: row.value)
    return list(best.values())


def _measure(source: Source, tool: str) -> list[MeasuredRow]:
    """`roofline measure`: a JSON line per kernel, seconds; matmuls and collectives inform a calibration."""
    found, machines = [], dict[object, Json]()
    for line, record in source.objects:
        if record.get("key") == "environment":
            on = {"device": [str(record["kind"])]} if record.get("kind") else {}
            machines[record.get("fingerprint")] = on | ({"cpu": True} if record.get("platform") == "cpu" else {})
        time, sizes = positive(record.get("time_s")), record.get("sizes")
        if record.get("schema") != _MEASURE or time is None or not isinstance(sizes, dict):
            continue
        size = {name: positive(sizes.get(name)) for name in ("bytes", "n", "m", "k")}
        machine = machines.get(record.get("fingerprint"), {})
        if record.get("suite") == "collectives" and size["bytes"] and size["n"]:
            probe: Json = {"op": record.get("op"), "bytes": size["bytes"], "n": size["n"]}
            found.append(MeasuredRow(source.at(line), tool, "collective", time, probe={**probe, **machine}))
        elif record.get("kind") == "matmul" and size["m"] and size["k"] and size["n"]:
            probe = {"m": size["m"], "n": size["n"], "k": size["k"], "dtype": record.get("dtype")}
            found.append(MeasuredRow(source.at(line), tool, "matmul", time, probe={**probe, **machine}))
    return found


READERS = (
    LogReader("nccl-tests / rccl-tests", re.compile(r"(?s)size\s+count\s+type(?=.*algbw)"), _nccl),
    *(LineProbes(tool, row) for tool, row in _NAMES["lines"].items()),
    LogReader("CUTLASS profiler", re.compile(rf"^{_CUTLASS}", re.MULTILINE), _cutlass),
    LogReader("roofline measure", re.compile(rf'^\s*[\[{{].*"{_MEASURE}"', re.MULTILINE), _measure),
)
