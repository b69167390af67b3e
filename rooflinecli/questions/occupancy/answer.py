"""How many blocks a GPU's multiprocessor holds, and how much of a systolic array a matmul fills."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible, UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.formulas import occupancy as occ
from rooflinecli.formulas.roofline import systolic_peak

KIB = 1024.0


@dataclass(frozen=True)
class Multiprocessor:
    """What one streaming multiprocessor holds; compute_capability.yaml has them."""

    capability: str
    source: str
    max_warps: Number
    max_blocks: Number
    shared_memory: Number
    shared_memory_per_block: Number
    reserved: Number
    shared_memory_unit: Number
    warp_size: Number
    registers: Number
    max_registers_per_thread: Number
    max_threads_per_block: Number
    register_unit: Number
    schedulers: Number


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    import yaml

    return dict(yaml.safe_load(Path(__file__).with_name("compute_capability.yaml").read_text(encoding="utf-8")))


def capability_of(hardware_id: str) -> str:
    """The compute capability of a chip by the longest matching beginning of its file's name."""
    known = {prefix: cap for cap, row in _table()["capabilities"].items() for prefix in row["chips"]}
    found = max((p for p in known if hardware_id.startswith(p)), key=len, default=None)
    if found is None:
        raise UsageError(
            f"{hardware_id} has no streaming multiprocessors on record; give --capability, one of "
            f"{', '.join(_table()['capabilities'])}"
        )
    return str(known[found])


def multiprocessor(capability: str) -> Multiprocessor:
    """The limits of a compute capability. Raises UsageError for an unknown one."""
    table = _table()
    if capability not in table["capabilities"]:
        raise unknown("compute capability", capability, table["capabilities"])
    row, common = table["capabilities"][capability], table["common"]
    return Multiprocessor(
        capability,
        table["source"],
        row["max_warps"],
        row["max_blocks"],
        row["shared_memory_kib"] * KIB,
        row["shared_memory_per_block_kib"] * KIB,
        row["reserved_kib"] * KIB,
        row["shared_memory_unit"],
        **common,
    )


def occupancy(
    sm: Multiprocessor,
    threads: Number,
    shared_memory: Number = 0.0,
    registers: Number = 0.0,
    grid: Number = None,
    units: Number = None,
) -> dict[str, Any]:
    """Resident blocks, warp occupancy and the limiter of a launch; with a grid, its waves."""
    _launchable(sm, threads, shared_memory, registers)
    warps = occ.warps_per_block(threads, sm.warp_size)
    held = occ.shared_memory_per_block(shared_memory, sm.reserved, sm.shared_memory_unit)
    per_warp = occ.registers_per_warp(registers, sm.warp_size, sm.register_unit)
    limits = {
        "warps": occ.blocks_by_warps(sm.max_warps, warps),
        "shared_memory": occ.blocks_by_shared_memory(sm.shared_memory, held),
        "registers": occ.blocks_by_registers(sm.registers, per_warp, warps, sm.schedulers),
        "block_slots": sm.max_blocks,
    }
    blocks = occ.resident_blocks(*limits.values())
    least = min(num.value(limit) for limit in limits.values())
    if least < 1:
        raise Infeasible(
            f"not one block of {num.value(threads):g} threads with {num.value(registers):g} registers each fits "
            f"a multiprocessor of compute capability {sm.capability}; use fewer registers or threads"
        )
    answer = {
        "compute_capability": sm.capability,
        "warps_per_block": warps,
        "blocks": blocks,
        "occupancy": occ.warp_occupancy(blocks, warps, sm.max_warps),
        "limited_by": " and ".join(name for name, limit in limits.items() if num.value(limit) == least),
        "limits_blocks": limits,
    }
    if grid is not None and units is not None:
        waves = occ.grid_waves(grid, units, blocks)
        answer |= {"waves": waves, "wave_utilization": occ.wave_utilization(grid, units, blocks, waves)}
    return answer | {
        "notes": [
            "Occupancy is resident warps over the most a multiprocessor holds; a kernel with enough "
            "independent work per warp is fast at low occupancy.",
            sm.source,
        ]
    }


def _launchable(sm: Multiprocessor, threads: Number, shared_memory: Number, registers: Number) -> None:
    """Raises UsageError for a launch that the hardware refuses."""
    for what, asked, most in (
        ("threads per block", threads, sm.max_threads_per_block),
        ("registers per thread", registers, sm.max_registers_per_thread),
        ("bytes of shared memory per block", shared_memory, sm.shared_memory_per_block),
    ):
        if num.value(asked) > most:
            raise UsageError(
                f"{num.value(asked):g} {what} exceed the {most:g} of compute capability {sm.capability}; ask for less"
            )


def systolic(m: Number, k: Number, n: Number, rows: Number, cols: Number, clock: Number = None) -> dict[str, Any]:
    """How much of a systolic array x[m, k] @ w[k, n] fills, in each convention, and the rate that leaves."""
    cycles = occ.systolic_cycles(m, k, n, rows, cols)
    answer = {
        "output_tile_utilization": occ.output_tile_utilization(m, n, rows, cols),
        "column_utilization": occ.column_utilization(n, cols),
        "weight_tile_utilization": occ.weight_tile_utilization(k, n, rows, cols),
        "cycles": cycles,
        "cycle_utilization": occ.systolic_efficiency(m, k, n, rows, cols, cycles),
    }
    if clock is not None:
        peak = systolic_peak(rows, cols, clock, 1)
        answer |= {
            "peak_flops_per_s": peak,
            "attained_flops_per_s": occ.attained_rate(peak, answer["cycle_utilization"]),
        }
    return answer | {
        "notes": [
            "output tile: the m x n result lies on the array (output-stationary)",
            "column: rows of x stream past and count as busy, only unused columns are lost",
            "weight tile: the k x n weights lie on the array (weight-stationary)",
            "cycle: weight-stationary with fill and drain, weights loaded behind the tile before",
        ]
    }
