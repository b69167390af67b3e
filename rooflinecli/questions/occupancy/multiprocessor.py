"""Limits of a streaming multiprocessor by compute capability, from compute_capability.yaml."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass

KIB = 1024.0


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of one streaming multiprocessor; sizes in bytes."""

    capability: str
    source: str
    max_warps: float
    max_blocks: float
    shared_memory: float
    shared_memory_per_block: float
    reserved: float
    shared_memory_unit: float
    warp_size: float
    registers: float
    max_registers_per_thread: float
    max_threads_per_block: float
    register_unit: float
    schedulers: float


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    import yaml

    return dict(yaml.safe_load(Path(__file__).with_name("compute_capability.yaml").read_text(encoding="utf-8")))


def capability_of(hardware_id: str) -> str:
    """The compute capability of a chip by the longest matching beginning of its file's name."""
    known = {prefix: cap for cap, row in _table()["capabilities"].items() for prefix in row["chips"]}
    prefix = max((p for p in known if hardware_id.startswith(p)), key=len, default=None)
    if prefix is None:
        raise UsageError(
            f"{hardware_id} has no streaming multiprocessors on record; give --capability, one of "
            f"{', '.join(_table()['capabilities'])}"
        )
    return str(known[prefix])


def multiprocessor(capability: str) -> Multiprocessor:
    """The limits of a compute capability. Raises UsageError for an unknown one."""
    table = _table()
    if capability not in table["capabilities"]:
        raise unknown("compute capability", capability, table["capabilities"])
    row = table["capabilities"][capability]
    return Multiprocessor(
        capability,
        table["source"],
        row["max_warps"],
        row["max_blocks"],
        row["shared_memory_kib"] * KIB,
        row["shared_memory_per_block_kib"] * KIB,
        row["reserved_kib"] * KIB,
        row["shared_memory_unit"],
        **table["common"],
    )
