"""`roofline occupancy`: questions about how full a multiprocessor or a systolic array is."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PlainLift
from rooflinecli.questions.calculator import Calculator, Values
from rooflinecli.specs.options import Number, OptNumber, OptText, field


# fmt: off
class MultiprocessorOccupancy(Calculator):
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

    def check(self) -> None:
        if (self.hw is None) == (self.capability is None):
            raise UsageError("give --hw or --capability")

    def compute(self, lift: PlainLift) -> Values:
        from dataclasses import replace

        from rooflinecli.questions.occupancy import answer
        from rooflinecli.specs.hardware import load_hardware

        spec = None if self.hw is None else load_hardware(self.hw)
        limits = answer.multiprocessor(self.capability or answer.capability_of(spec.id if spec else ""))
        if self.smem_per_sm is not None:
            limits = replace(limits, shared_memory=self.smem_per_sm)
        if self.max_threads_per_sm is not None:
            limits = replace(limits, max_warps=self.max_threads_per_sm / limits.warp_size)
        units = lift("n_sm", spec.units.count.si, "1", spec.name) if spec and spec.units else None
        if self.grid is not None and units is None:
            raise UsageError("--grid needs the number of multiprocessors; give --hw")
        return answer.occupancy(limits, self.threads, self.smem, self.registers, self.grid, units)


class SystolicOccupancy(Calculator):
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

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.occupancy.answer import systolic
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
        return systolic(self.m, self.k, self.n, rows, cols, clock)
# fmt: on


QUESTIONS = (MultiprocessorOccupancy, SystolicOccupancy)
