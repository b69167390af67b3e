"""The machine at hand: device, cache, clocks, driver, versions, date; and the known chip that it extends."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.importers.source import number
from rooflinecli.measure.cases import Record
from rooflinecli.specs.hardware import load_hardware

if TYPE_CHECKING:
    import jax


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h
# last-level cache in bytes when nothing reports it: large enough that rotating past it is safe
_LAST_LEVEL_CACHE_FALLBACK = {"cpu": 64 * 2**20, "gpu": 128 * 2**20, "tpu": 128 * 2**20}
PLATFORM_KINDS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}


@dataclass(frozen=True)
class Environment:
    """Provenance of a measurement: everything that may change the time of a kernel. `llc` and `memory` are bytes of the last-level cache and
    of the device's memory."""

    platform: str
    kind: str
    devices: int
    processes: int
    jax: str
    jaxlib: str
    python: str
    system: str
    driver: str
    clocks: str
    cores: int
    llc: int
    memory: int
    date: str

    @property
    def slug(self) -> str:
        """A file name for this machine: 'amd-epyc-9654-2c', 'nvidia-h200'."""
        text = re.sub(r"[^a-z0-9]+", "-", self.kind.lower()).strip("-")
        return f"{text}-{self.cores}c" if self.platform == "cpu" else text

    @property
    def fingerprint(self) -> str:
        """Timings are comparable when these agree; a log resumes only under the same one."""
        return "|".join((self.platform, self.kind, str(self.devices), str(self.processes), self.jax, str(self.cores)))

    def record(self) -> dict[str, object]:
        return asdict(self)


def environment() -> Environment:
    """Read the machine's properties through jax and the operating system."""
    import jax
    import jaxlib

    device = jax.local_devices()[0]  # not another process's device
    platform_kind = PLATFORM_KINDS.get(device.platform, device.platform)
    model = _in_file("/proc/cpuinfo", r"model name\s*:\s*(.+)").strip() or platform.processor() or platform.machine()
    # before anything ran; the log has those of each timing
    sm, _, memory = nvidia_smi("clocks.sm,clocks.mem").partition(", ")
    mhz = _in_file("/proc/cpuinfo", r"cpu MHz\s*:\s*([\d.]+)")
    return Environment(
        platform_kind, model if platform_kind == "cpu" else device.device_kind, jax.device_count(), jax.process_count(), jax.__version__, jaxlib.__version__,
        platform.python_version(), platform.platform(), nvidia_smi("driver_version"),
        f"{sm} MHz SM, {memory} MHz memory, idle" if memory else f"{float(mhz):.0f} MHz" if mhz else "",
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, _last_level_cache(platform_kind), _memory(device),
        datetime.date.today().isoformat(),
    )  # fmt: skip


def join_processes(coordinator: str | None, processes: int | None, process_id: int | None) -> None:
    """Join the other processes. Raises UsageError when only part of the three is given."""
    given = (coordinator, processes, process_id)
    if all(g is None for g in given):
        return
    if any(g is None for g in given):
        raise UsageError("several hosts need --coordinator HOST:PORT, --processes N and --process-id I together")
    import jax

    jax.distributed.initialize(coordinator, processes, process_id)


def is_leader() -> bool:
    """True for the process that prints and writes."""
    import jax

    return jax.process_index() == 0


def known_chip(kind: str) -> str | None:
    """The chip under hardware/ that a device kind, as jax reports it, names; a CPU, whose memory differs from board to board, is none."""
    try:
        chip = load_hardware("tpu-v5p" if kind == "TPU v5" else kind)
    except RooflineError:
        return None
    return None if chip.kind == "cpu" else chip.id


def keep_pages() -> bool:
    """Make the C library reuse freed memory, so that large fresh buffers do not time page faults. True where it took effect.

    glibc hands blocks of 32 MB and more straight back to the kernel; a 150 MB gradient then costs 37,000 faults a step.
    """
    import ctypes

    try:
        libc = ctypes.CDLL("libc.so.6")
        return bool(libc.mallopt(_M_MMAP_MAX, 0)) and bool(libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
    except (OSError, AttributeError):
        return False


def compute_capability() -> tuple[int, int] | None:
    """(9, 0) on Hopper; None where there is no NVIDIA device."""
    import jax

    text = str(getattr(jax.local_devices()[0], "compute_capability", "") or "")
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def _last_level_cache(platform_kind: str) -> int:
    """Bytes of the last-level cache of CPU 0, else a safe guess."""
    if platform_kind == "cpu":
        texts = [p.read_text() for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
        if sizes := [re.findall(r"(\d+)([KM]?)", text)[0] for text in texts]:
            return max(int(number) * {"": 1, "K": 2**10, "M": 2**20}[unit] for number, unit in sizes)
    return _LAST_LEVEL_CACHE_FALLBACK.get(platform_kind, 128 * 2**20)


def _memory(device: jax.Device) -> int:
    """Bytes of device memory: what the allocator may use, else the machine's own."""
    stats = device.memory_stats() if hasattr(device, "memory_stats") else None
    if stats and stats.get("bytes_limit"):
        return int(stats["bytes_limit"])
    kilobytes = _in_file("/proc/meminfo", r"MemTotal:\s*(\d+) kB")
    return int(kilobytes) * 1024 if kilobytes else 8 * 2**30


def _in_file(path: str, pattern: str) -> str:
    """What a pattern finds in a file of the system; empty where it finds nothing."""
    try:
        match = re.search(pattern, Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return match[1] if match else ""


# field of nvidia-smi -> name and unit here
FIELDS = {"clocks.sm": "sm_mhz", "clocks.mem": "memory_mhz", "power.draw": "power_w", "temperature.gpu": "celsius"}
SHOWN = {"sm_mhz": "MHz SM", "memory_mhz": "MHz memory", "power_w": "W", "celsius": "C"}


def nvidia_smi(query: str) -> str:
    """Fields of the first device by nvidia-smi, comma-separated; empty where there is none."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else ""


def current_conditions() -> dict[str, float]:
    """Current values: {'sm_mhz': 1980.0, ...}, without those that the device reports as [N/A]; empty where it reports none."""
    values = nvidia_smi(",".join(FIELDS)).split(",")
    if len(values) != len(FIELDS):
        return {}
    return {name: v for name, text in zip(FIELDS.values(), values, strict=True) if (v := number(text)) is not None}


def summary(records: Iterable[Record]) -> str:
    """Lowest, median and highest of each over the records that have it; empty where none has."""
    conditions = [r["conditions"] for r in records if r.get("conditions")]
    parts = []
    for name, unit in SHOWN.items():
        values = [c[name] for c in conditions if name in c]
        if values:
            parts.append(f"{min(values):g} / {median(values):g} / {max(values):g} {unit}")
    return ", ".join(parts)
