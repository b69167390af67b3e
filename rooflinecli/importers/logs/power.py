"""Power measured while something ran: nvidia-smi (CSV, dmon), DCGM (dmon, exporter), Zeus, and the analyzer of MLPerf Power (PTDaemon).

A power log has no times, so `calibrate` notes it next to the rows of the run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import fmean

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import MeasuredRow, Source, number, positive
from rooflinecli.specs.snapshots import packaged

TOOL = "nvidia-smi / DCGM / Zeus / MLPerf power"
BUSY = 0.5  # of the largest power above idle: samples from there on are of a device at work
_TABLE = packaged(__file__)
_ZEUS = re.compile(r"\btime=([\d.]+),\s*gpu_energy=\{([^}]*)\}")


@dataclass(frozen=True)
class PowerLog:
    """Mean power of a device in W while it is at work (MLPerf: of the whole system), over `devices` and `samples`."""

    where: str
    tool: str
    watts: float
    devices: int
    samples: int

    def __str__(self) -> str:
        each = f"each of {self.devices} devices" if self.devices > 1 else "the device"
        whose = "the whole system" if self.tool == "MLPerf power" else each
        return f"{self.tool}: {self.watts:.0f} W of {whose} at work, over {self.samples:,} samples"


def claims(source: Source) -> bool:
    return measured(source) is not None


def read(source: Source) -> list[MeasuredRow]:
    """Raise DataError: a power log has no times to fit."""
    found = measured(source)
    assert found is not None
    raise DataError(f"{found.where}: {found}; give it next to the log of the run, which has the times")


def measured(source: Source) -> PowerLog | None:
    """The power of a log, None for one of something else or without a sample."""
    if not any(mark in source.plain for mark in _TABLE["marks"]):
        return None
    tool, first, header, samples = "", 0, list[str](), list[tuple[str, float]]()
    for line, text in enumerate(source.lines, start=1):
        named = next((name for name, (head, *_) in _TABLE["headers"].items() if re.match(head, text)), None)
        alone = next(((name, m) for name, p in _TABLE["lines"].items() if (m := re.match(p, text))), None)
        if named:
            tool, first = named, first or line
            header = _cells(text.replace("#", " "), tool)
            header = ["unit", *header] if tool == "DCGM" else header  # 'GPU 0' is two words
        elif alone:
            tool, first = alone[0], first or line
            samples.append((alone[1].groupdict().get("device", ""), number(alone[1]["watts"]) or 0.0))
        elif match := _ZEUS.search(text):  # joules of each device over a window
            tool, first, seconds = "Zeus", first or line, positive(match[1]) or 1.0
            joules = re.findall(r"(\w+):\s*([\d.]+)", match[2])
            samples += [(device, (number(each) or 0.0) / seconds) for device, each in joules]
        elif header and len(cells := _cells(text, tool)) == len(header):
            _, power, devices = _TABLE["headers"][tool]
            row = dict(zip(header, cells, strict=True))
            watts = next((value for name, value in row.items() if re.match(power, name)), "")
            samples.append((next((row[d] for d in devices if d in row), ""), positive(watts.removesuffix(" W")) or 0.0))
    values = sorted(watts for _, watts in samples if watts > 0)
    if not values:
        return None
    least = values[0] + BUSY * (values[int(0.98 * (len(values) - 1))] - values[0])
    busy = [watts for watts in values if watts >= least]
    return PowerLog(source.at(first), tool, fmean(busy), len({device for device, _ in samples}), len(busy))


def _cells(text: str, tool: str) -> list[str]:
    return [cell.strip() for cell in text.split(",")] if tool == "nvidia-smi" else text.split()
