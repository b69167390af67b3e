"""Power measured while something ran: nvidia-smi (CSV, dmon), DCGM (dmon, exporter), Zeus, and the analyzer of MLPerf Power (PTDaemon).

`measured(source)` is one record for all of them. A power log says nothing of time, so that `calibrate` notes it next to the rows.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import MeasuredRow, Source, number, positive

TOOL = "nvidia-smi / DCGM / Zeus / MLPerf power"
BUSY = 0.5  # of the largest power above idle: samples from there on are of a device at work
_WATTS = re.compile(r"^power\.draw(?:\.(?:instant|average))?(?: \[W\])?$")
_DMON = re.compile(r"^#\s*(?:gpu|Entity)\b.*\b(?:pwr|POWER|POWINST)\b")
_EXPORTER = re.compile(r'^DCGM_FI_DEV_POWER_USAGE\{.*?gpu="(\w+)".*?\} ([\d.]+)')
_PTD = re.compile(r"^Time,[^,]+,Watts,([\d.]+),")
_ZEUS = re.compile(r"\btime=([\d.]+),\s*gpu_energy=\{([^}]*)\}")
_ZEUS_CSV = re.compile(r"^start_time,window_name,elapsed_time,(gpu\d+_energy.*)$")


@dataclass(frozen=True)
class PowerLog:
    """Mean power of a device in W while it is at work (MLPerf: of the whole system), over `devices` and `samples`; joules where they were counted."""

    where: str
    tool: str
    watts: float
    devices: int
    samples: int
    whole_system: bool = False
    joules: float | None = None


def claims(source: Source) -> bool:
    named = _format(source)
    return named is not None and (named[0] == "Zeus" or next(_samples(source, *named), None) is not None)


def read(source: Source) -> list[MeasuredRow]:
    """Raise DataError: a power log has no times to fit."""
    found = measured(source)
    raise DataError(f"{found.where}: {sentence(found)}; give it next to the log of the run, which has the times")


def sentence(power: PowerLog) -> str:
    """What was measured, for a note."""
    whose = (
        "the whole system"
        if power.whole_system
        else f"each of {power.devices} devices"
        if power.devices > 1
        else "the device"
    )
    return f"{power.tool}: {power.watts:.0f} W of {whose} at work, over {power.samples:,} samples"


def measured(source: Source) -> PowerLog:
    """The power of a log. Raises DataError with file:line for one without a sample."""
    named = _format(source)
    if named is None:
        raise DataError(f"{source.at(1)}: no log of power; expected one of {TOOL}")
    tool, line = named
    if tool == "Zeus":
        return _zeus(source, line)
    samples = [(device, watts) for device, watts in _samples(source, tool, line) if watts > 0]
    if not samples:
        raise DataError(
            f"{source.at(len(source.lines))}: looks like {tool}, but has no sample of power; was it cut short?"
        )
    values = sorted(watts for _, watts in samples)
    least = values[0] + BUSY * (values[int(0.98 * (len(values) - 1))] - values[0])
    busy = [watts for watts in values if watts >= least]
    return PowerLog(
        source.at(line), tool, fmean(busy), len({device for device, _ in samples}), len(busy), tool == "MLPerf power"
    )


def _format(source: Source) -> tuple[str, int] | None:
    """The tool, and the line of the first header or sample."""
    for line, text in enumerate(source.lines[:2000], start=1):
        if any(_WATTS.match(cell.strip()) for cell in text.split(",")):
            return "nvidia-smi", line
        if _DMON.match(text):
            return "DCGM" if "Entity" in text else "nvidia-smi dmon", line
        if _EXPORTER.match(text):
            return "DCGM exporter", line
        if _PTD.match(text):
            return "MLPerf power", line
        if _ZEUS.search(text) or _ZEUS_CSV.match(text):
            return "Zeus", line
    return None


def _samples(source: Source, tool: str, first: int) -> Iterator[tuple[str, float]]:
    """(device, W) of every sample."""
    if tool in ("MLPerf power", "DCGM exporter"):
        for text in source.lines:
            if match := _PTD.match(text):
                yield "", number(match[1]) or 0.0
            elif match := _EXPORTER.match(text):
                yield match[1], number(match[2]) or 0.0
        return
    header: list[str] = []
    for text in source.lines[first - 1 :]:
        cells = [cell.strip() for cell in (next(csv.reader([text]), []) if tool == "nvidia-smi" else text.split())]
        if tool == "nvidia-smi" and any(map(_WATTS.match, cells)):
            header = cells
        elif tool != "nvidia-smi" and _DMON.match(text):
            header = text.replace("#", " ").split()
            header = ["unit", *header] if tool == "DCGM" else header  # 'GPU 0' is two words
        elif header and len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            power = next(
                (value for name, value in row.items() if _WATTS.match(name) or name in ("pwr", "POWER", "POWINST")), ""
            )
            device = next(
                (row[name] for name in ("index", "uuid", "pci.bus_id", "gpu", "gpu_uuid", "Entity") if name in row), ""
            )
            if (watts := positive(power.removesuffix("W").strip())) is not None:
                yield device, watts


def _zeus(source: Source, first: int) -> PowerLog:
    """Windows of ZeusMonitor, as printed or as its CSV: joules of each device over seconds."""
    windows: list[tuple[float, list[float]]] = []
    for text in source.lines[first - 1 :]:
        cells = text.split(",")
        if match := _ZEUS.search(text):
            joules = [found for v in re.findall(r":\s*([\d.]+)", match[2]) if (found := positive(v))]
            windows.append((number(match[1]) or 0.0, joules))
        elif len(cells) > 3 and positive(cells[2]):
            windows.append((float(cells[2]), [float(v) for v in cells[3:] if positive(v)]))
    windows = [(seconds, joules) for seconds, joules in windows if seconds > 0 and joules]
    if not windows:
        raise DataError(f"{source.at(len(source.lines))}: looks like Zeus, but has no window; was it cut short?")
    total, devices = sum(sum(each) for _, each in windows), max(len(each) for _, each in windows)
    watts = total / sum(seconds * len(each) for seconds, each in windows)
    return PowerLog(source.at(first), "Zeus", watts, devices, len(windows), joules=total)
