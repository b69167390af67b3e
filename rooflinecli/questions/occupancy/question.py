"""`roofline occupancy`: how full a multiprocessor or a systolic array is."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible, UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.record import Quantities
from rooflinecli.formulas import occupancy as occ
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptNumber, OptText, field
from rooflinecli.specs.snapshots import packaged

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
def _table() -> tuple[dict[str, Multiprocessor], dict[str, str]]:
    """Limits by compute capability, and the capability of the chips whose files begin with a prefix."""
    table, limits = packaged(__file__, "compute_capability"), {}
    for capability, row in table["capabilities"].items():
        bytes_ = {name.removesuffix("_kib"): size * KIB for name, size in row.items() if name.endswith("_kib")}
        counts = {name: count for name, count in row.items() if not name.endswith("_kib") and name != "chips"}
        limits[capability] = Multiprocessor(capability, table["source"], **bytes_, **counts, **table["common"])
    return limits, {prefix: cap for cap, row in table["capabilities"].items() for prefix in row["chips"]}


def capability_of(hardware_id: str) -> str:
    """The compute capability of a chip by the longest matching beginning of its file's name."""
    limits, chips = _table()
    prefix = max((p for p in chips if hardware_id.startswith(p)), key=len, default=None)
    if prefix is None:
        raise UsageError(
            f"{hardware_id} has no streaming multiprocessors on record; give --capability, one of {', '.join(limits)}"
        )
    return chips[prefix]


def multiprocessor(capability: str) -> Multiprocessor:
    """The limits of a compute capability. Raises UsageError for an unknown one."""
    limits, _ = _table()
    if capability not in limits:
        raise unknown("compute capability", capability, limits)
    return limits[capability]


# fmt: off
class MultiprocessorOccupancy(Question[Quantities]):
    """Blocks per multiprocessor and warp occupancy from threads, shared memory and registers."""

    verb = "occupancy sm"
    version = 2
    threads: Number = field("positive", "Threads per block.", symbol="n_t", short="-t", metavar="COUNT")
    smem: Number = field("bytes", "Shared memory per block ('48 KiB').", default=0.0, symbol="M_s", least=0)
    registers: Number = field("positive", "Registers per thread; 0: no limit from them.", default=0.0, symbol="n_r", least=0, short="-r", metavar="COUNT")
    hw: OptText = field("name", "Chip: a name, alias or YAML path.", default=None)
    capability: OptText = field("free", "Compute capability (9.0), instead of --hw.", default=None, metavar="NUMBER")
    smem_per_sm: OptNumber = field("bytes", "Shared memory per multiprocessor, if configured otherwise.", default=None)
    max_threads_per_sm: OptNumber = field("positive", "Threads per multiprocessor, if otherwise.", default=None, metavar="COUNT")
    grid: OptNumber = field("positive", "Blocks of the launch, for its waves (needs --hw).", default=None, symbol="n_g", metavar="COUNT")
    # fmt: on

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        """Raises UsageError for a launch that the hardware refuses, Infeasible where not one block is resident."""
        from rooflinecli.specs.hardware import load_hardware

        chip = None if self.hw is None else load_hardware(self.hw)
        sm = multiprocessor(self.capability or capability_of(chip.id if chip else ""))
        if self.smem_per_sm is not None:
            sm = replace(sm, shared_memory=self.smem_per_sm)
        if self.max_threads_per_sm is not None:
            sm = replace(sm, max_warps=self.max_threads_per_sm / sm.warp_size)
        units = lift("n_sm", chip.units.count.si, "1", chip.name) if chip and chip.units else None
        if self.grid is not None and units is None:
            raise UsageError("--grid needs the number of multiprocessors; give --hw")
        for what, asked, most in (
            ("threads per block", self.threads, sm.max_threads_per_block),
            ("registers per thread", self.registers, sm.max_registers_per_thread),
            ("bytes of shared memory per block", self.smem, sm.shared_memory_per_block),
        ):
            if num.value(asked) > most:
                raise UsageError(
                    f"{num.value(asked):g} {what} exceed the {most:g} of compute capability {sm.capability}; ask for less"
                )
        warps = occ.warps_per_block(self.threads, sm.warp_size)
        memory = occ.shared_memory_per_block(self.smem, sm.reserved, sm.shared_memory_unit)
        per_warp = occ.registers_per_warp(self.registers, sm.warp_size, sm.register_unit)
        limits = {
            "warps": occ.blocks_by_warps(sm.max_warps, warps),
            "shared_memory": occ.blocks_by_shared_memory(sm.shared_memory, memory),
            "registers": occ.blocks_by_registers(sm.registers, per_warp, warps, sm.schedulers),
            "block_slots": sm.max_blocks,
        }
        blocks = occ.resident_blocks(*limits.values())
        least = min(num.value(limit) for limit in limits.values())
        if least < 1:
            raise Infeasible(
                f"not one block of {num.value(self.threads):g} threads with {num.value(self.registers):g} registers each fits "
                f"a multiprocessor of compute capability {sm.capability}; use fewer registers or threads"
            )
        waves = None if self.grid is None else occ.grid_waves(self.grid, units, blocks)
        return Quantities.of(
            "occupancy-sm/2",
            compute_capability=sm.capability,
            warps_per_block=warps,
            blocks=blocks,
            occupancy=occ.warp_occupancy(blocks, warps, sm.max_warps),
            limited_by=" and ".join(name for name, limit in limits.items() if num.value(limit) == least),
            limits_blocks=limits,
            waves=waves,
            wave_utilization=None if waves is None else occ.wave_utilization(self.grid, units, blocks, waves),
            notes=[
                "Occupancy is resident warps over the most a multiprocessor holds; a kernel with enough "
                "independent work per warp is fast at low occupancy.",
                sm.source,
            ],
        )


# fmt: off
class SystolicOccupancy(Question[Quantities]):
    """Fraction of a systolic array that a matmul [m,k] x [k,n] uses, both conventions and by cycles."""

    verb = "occupancy systolic"
    version = 2
    m: Number = field("positive", "Rows of x.", symbol="m", positional=True)
    k: Number = field("positive", "Contracted dimension.", symbol="k", positional=True)
    n: Number = field("positive", "Columns of w.", symbol="n", positional=True)
    hw: OptText = field("name", "Chip: a name, alias or YAML path.", default=None)
    rows: OptNumber = field("positive", "Rows of the array; default 128.", default=None, symbol="R", metavar="COUNT")
    cols: OptNumber = field("positive", "Columns of the array; default: as many as rows.", default=None, symbol="C", metavar="COUNT")
    clock: OptNumber = field("hertz", "Clock ('1.1 GHz'), for FLOP/s.", default=None, symbol="f")
    # fmt: on

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        from rooflinecli.formulas.textbook import systolic_peak
        from rooflinecli.specs.hardware import load_hardware

        shape, clock = (128.0, 128.0), self.clock
        if self.hw is not None:
            units = load_hardware(self.hw).units
            if units is None or units.shape is None:
                raise UsageError(f"{self.hw} has no systolic array on record; give --rows and --cols")
            shape = (float(units.shape[0]), float(units.shape[1]))
            clock = lift("f", units.clock.si, "Hz", "--clock") if clock is None else clock
        rows = lift("R", shape[0], "1", "--rows") if self.rows is None else self.rows
        square = self.hw is None and self.rows is not None
        cols = self.cols if self.cols is not None else rows if square else lift("C", shape[1], "1", "--cols")
        m, k, n = self.m, self.k, self.n
        cycles = occ.systolic_cycles(m, k, n, rows, cols)
        used = occ.systolic_efficiency(m, k, n, rows, cols, cycles)
        peak = None if clock is None else systolic_peak(rows, cols, clock, 1)
        return Quantities.of(
            "occupancy-systolic/2", output_tile_utilization=occ.output_tile_utilization(m, n, rows, cols),
            column_utilization=occ.column_utilization(n, cols),
            weight_tile_utilization=occ.weight_tile_utilization(k, n, rows, cols), cycles=cycles, cycle_utilization=used,
            peak_flops_per_s=peak, attained_flops_per_s=None if peak is None else peak * used,
            notes=["output tile: the m x n result lies on the array (output-stationary)", "column: rows of x stream past and count as busy, only unused columns are lost", "weight tile: the k x n weights lie on the array (weight-stationary)", "cycle: weight-stationary with fill and drain, weights loaded behind the tile before"],
        )  # fmt: skip


QUESTIONS = (MultiprocessorOccupancy, SystolicOccupancy)
