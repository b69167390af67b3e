"""Micro-benchmarks of hardware: collectives by nccl-tests, OSU and perftest, all_reduce_bench; matmuls by mamf-finder and the CUTLASS profiler; `roofline measure`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from statistics import median
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import LogReader, MeasuredRow, Source, csv_rows, positive
from rooflinecli.specs.snapshots import packaged

_NAMES = packaged(__file__)
_NCCL_HEAD = re.compile(r"^\W*size\s+count\s+type")
_NCCL_NAME = re.compile(_NAMES["nccl_program"])
_NCCL_FACTOR = 1.02
_NCCL_DEVICES = re.compile(r"\bnThread\s+(\d+)\s+nGpus\s+(\d+)\b")  # of one process
_NCCL_RANK = re.compile(r"^\W*Rank\s+(\d+)\s.*?(\S+) +device\s+(\d+) +(?:\[\S+\] +)?(.*?)\s*$")
# OSU 7 validates with -c
_OSU_ROW = re.compile(r"^\W*(\d+)\s+([\d.]+)(?:\s+(?:[\d.]+|(Fail)|Pass))*\s*\W*(?:[←#].*)?$")
_OSU_OTHERS = re.compile(_NAMES["osu_others"])
_PERFTEST_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak\[(\w+)/sec\]\s+BW average\[(\w+)/sec\]")
_MAMF_ROW = re.compile(r"([\d.]+)\s*(?:TFLOPS|\(mean\)).*?@ (\d+)x(\d+)x(\d+) \(MxNxK\)")
_MAMF_DTYPE = re.compile(r"dtype[=:\s]+(?:torch\.)?(bfloat16|float16|float8_e4m3fn|float32)")
_HALF_CENT = 0.005  # rates of all_reduce_bench have two decimals
_CUTLASS = "Problem,Provider,OperationKind"
_MEASURE = "roofline-measure/1"


def _nccl(source: Source, tool: str) -> list[MeasuredRow]:
    """nccl-tests and rccl-tests: microseconds out of place. The line that names the program may follow its table."""
    found: list[MeasuredRow] = []
    name, ranks, in_table, devices, first, width = None, dict[str, tuple[str, ...]](), False, 0, 0, 0
    for line, text in enumerate(source.lines, start=1):
        if match := _NCCL_NAME.search(text):
            name = _NAMES["nccl"].get(match[1], match[1])
            if "concluded" in text:
                found[first:] = [_nccl_named(row, name) for row in found[first:]]
                name = None
            ranks = ranks if "starting" not in text else {}
        if match := _NCCL_DEVICES.search(text):
            devices = int(match[1]) * int(match[2])  # one may be that of each of several processes
        if match := _NCCL_RANK.match(text):
            ranks[match[1]] = match.groups()[1:]
        if _NCCL_HEAD.match(text):
            columns = text.split()
            width = len(columns) - columns.index("time") if "time" in columns else 8
            in_table, first = True, len(found)
        elif in_table and ("Avg bus bandwidth" in text or text.lstrip().startswith("```")):
            in_table, ranks = False, {}
            if table := found[first:]:  # bandwidths of small sizes have two digits
                op = name or max(table, key=lambda row: row.probe["bytes"]).probe["op"]
                found[first:] = [_nccl_named(row, op) for row in table]
        elif in_table and (row := _nccl_row(source.at(line), tool, text, width, ranks, devices)):
            found.append(row)
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


def _osu(source: Source, tool: str) -> list[MeasuredRow]:
    """OSU micro-benchmarks: MB/s or microseconds by message size."""
    found = []
    op, rate, apart, host = None, False, "", False
    for line, text in enumerate(source.lines, start=1):
        if "# OSU " in text:
            words = text.lower()
            named = words.replace("-", "").replace(" ", "_").replace("__", "_")
            op = next((op for name, op in _NAMES["osu"].items() if name in named), None)
            other, host = _OSU_OTHERS.search(words), "mpi-" not in words  # MPI-CUDA, MPI-ROCM: buffers on devices
            apart = f"OSU's {other[0]} test is none of a transfer or a collective by itself" if other else ""
        elif "# Size" in text:
            rate = "Bandwidth" in text
        elif op and (match := _OSU_ROW.match(text)):
            size, value = positive(match[1]), positive(match[2])
            if size and value:
                taken = size / (value * 1e6) if rate else value * 1e-6
                probe = {"op": op, "bytes": size, "n": 2 if op == "permute" else None, "streamed": rate}
                if host:
                    probe |= {"cpu": True, "device": ["buffers in host memory"]}
                if op in ("all-gather", "all-to-all"):
                    probe["each"] = True  # the size is that of the part sent to, or gathered from, one rank
                doubt = "its validation failed" if match[3] else ""
                found.append(
                    MeasuredRow(source.at(line), tool, "collective", taken, probe=probe, doubt=doubt, unread=apart)
                )
        elif text.lstrip().startswith("```"):
            op = None  # other lines are messages between rows
    return found


def _perftest(source: Source, tool: str) -> list[MeasuredRow]:
    """perftest (ib_write_bw, ib_send_bw, ib_read_bw): bandwidth by message size."""
    found: list[MeasuredRow] = []
    scale = None
    for line, text in enumerate(source.lines, start=1):
        if match := _PERFTEST_HEAD.search(text):
            scale = _NAMES["perftest"].get(match[2])
            if scale is None:
                units = " or ".join(_NAMES["perftest"])
                raise DataError(f"{source.at(line)}: BW average in {match[2]}/sec; expected {units}")
            continue
        cells = text.split()
        if scale and len(cells) >= 4 and all(positive(c) is not None or c.startswith("0.") for c in cells[:5]):
            size, average = positive(cells[0]), positive(cells[3])  # the peak is 0.00 in endless runs
            if size and average:
                probe = {"op": "permute", "bytes": size, "n": 2, "streamed": True}
                found.append(MeasuredRow(source.at(line), tool, "collective", size / (average * scale), probe=probe))
        elif scale and text.lstrip().startswith(("---", "```")):
            scale = None  # other lines are warnings
    return found


def _mamf(source: Source, tool: str) -> list[MeasuredRow]:
    """mamf-finder (stas00/ml-engineering): TFLOPS of each shape."""
    match = _MAMF_DTYPE.search(source.plain)
    dtype = _NAMES["torch"][match[1]] if match else None
    found = []
    for line, text in enumerate(source.lines, start=1):
        match = _MAMF_ROW.search(text)
        rate = positive(match[1]) if match else None
        if match and rate and all(int(match[i]) for i in (2, 3, 4)) and "best outcome" not in text:
            m, n, k = (float(match[i]) for i in (2, 3, 4))
            probe = {"m": m, "n": n, "k": k, "dtype": dtype}
            found.append(MeasuredRow(source.at(line), tool, "matmul", 2 * m * n * k / (rate * 1e12), probe=probe))
    return found


def _all_reduce(source: Source, tool: str) -> list[MeasuredRow]:
    """all_reduce_bench (stas00/ml-engineering): a table of payloads, or what every rank prints of one, whose first rate counts it twice.

    Devices follow from the bus's rate over the other, 2 (n - 1) / n, where the digits of the largest payload leave no other number. All
    ranks time the same collective, and print between each other's lines: the size that most agree on in three digits is kept.
    """
    found, scale = list[tuple[int, float, float, float, float]](), _NAMES["sizes"]
    for match in (
        match for pattern in _NAMES["all_reduce_bench"] for match in re.finditer(pattern, source.plain, re.M)
    ):
        said, line = match.groupdict(), source.line_of(match.start())
        rate, bus = (float(said[name]) * scale[said[f"{name}_unit"]] for name in ("rate", "bus"))
        if rate and "time" in said:
            time = float(said["time"])
            found.append((line, time, float(f"{time * rate / 2:.3g}"), 2 * bus / rate, 0.0))
        elif rate:
            size, share = float(said["payload"]) * scale[said["payload_unit"]], bus / rate
            found.append(
                (
                    line,
                    size / rate,
                    size,
                    share,
                    share * _HALF_CENT * (1 / float(said["bus"]) + 1 / float(said["rate"])),
                )
            )
    if not found:
        return []
    usual = None if "payload" in source.plain else Counter(row[2] for row in found).most_common(1)[0][0]
    largest = found if usual else [max(found, key=lambda row: row[2])]
    share, open_by = (median(row[i] for row in largest) for i in (3, 4))
    counts = {round(2 / (2 - each)) for each in (share - open_by, share + open_by) if 0 < each < 2}
    n = counts.pop() if len(counts) == 1 else None
    return [
        MeasuredRow(source.at(line), tool, "collective", time, probe={"op": "all-reduce", "bytes": size, "n": n})
        for line, time, size, *_ in found
        if usual in (None, size)
    ]


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
    LogReader("OSU micro-benchmarks", re.compile(r"(?s)# OSU \S+(?=.*# Size\s)"), _osu),
    LogReader("perftest", _PERFTEST_HEAD, _perftest),
    LogReader("mamf-finder", _MAMF_ROW, _mamf),
    LogReader("all_reduce_bench", re.compile("|".join(_NAMES["all_reduce_marks"])), _all_reduce),
    LogReader("CUTLASS profiler", re.compile(rf"^{_CUTLASS}", re.MULTILINE), _cutlass),
    LogReader("roofline measure", re.compile(rf'^\s*[\[{{].*"{_MEASURE}"', re.MULTILINE), _measure),
)
