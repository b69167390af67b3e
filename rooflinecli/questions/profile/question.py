"""`roofline profile TRACE` as a record."""

from __future__ import annotations

from dataclasses import field as key
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import OPTIONAL, Record, former
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptNumber, OptText, OptWhole, Text, field

if TYPE_CHECKING:
    from rooflinecli.questions.profile.compare_estimate import TraceComparison


class KernelShare(Record):
    """Time and launches of some kernels, and their share of all time."""

    time_s: Quantity
    share: Quantity
    launches: int


class Fusion(Record):
    """What it would gain if fusable kernels vanished, and if neighbors were joined."""

    removable_s: Quantity
    chains: int
    chains_saved_s: Quantity
    chains_speedup: Quantity
    speedup_bound: Quantity = key(default=None, metadata=OPTIONAL)


class Communication(Record):
    """Communication that computation covers; in a trace without a time line, what it could cover."""

    time_s: Quantity
    hideable_share: Quantity = key(default=None, metadata=OPTIONAL)
    exposed_at_best_s: Quantity = key(default=None, metadata=OPTIONAL)
    overlapped_s: Quantity = key(default=None, metadata=OPTIONAL)
    exposed_s: Quantity = key(default=None, metadata=OPTIONAL)
    hidden_share: Quantity = key(default=None, metadata=OPTIONAL)


class KernelSum(Record):
    """All launches of a kernel, and where its work is known, its floor and what limits it; `row` is of a model's ledger."""

    kind: str
    launches: int
    time_s: float
    share: float
    floor_s: float | None = key(default=None, metadata=OPTIONAL)
    bound: str | None = key(default=None, metadata=OPTIONAL)
    impossible: bool | None = key(default=None, metadata=OPTIONAL)
    over_floor: float | None = key(default=None, metadata=OPTIONAL)
    expected_s: float | None = key(default=None, metadata=OPTIONAL)
    compute_utilization: float | None = key(default=None, metadata=OPTIONAL | former("compute_utilisation"))
    bandwidth_utilization: float | None = key(default=None, metadata=OPTIONAL | former("bandwidth_utilisation"))
    row: str | None = key(default=None, metadata=OPTIONAL)


class ProfileAnswer(Record):
    """Where the time of one device of a trace goes; wall time and idle share where the trace has a time line."""

    schema: str = "roofline/profile/2"
    device: str
    devices: int
    launches: int
    time_s: Quantity
    wall_s: float | None = key(default=None, metadata=OPTIONAL)
    busy_s: float | None = key(default=None, metadata=OPTIONAL)
    idle_share: float | None = key(default=None, metadata=OPTIONAL)
    kinds: dict[str, KernelShare]
    memory_bound: KernelShare
    fusion: Fusion
    communication: Communication | None = key(default=None, metadata=OPTIONAL)
    kernels: dict[str, KernelSum]
    impossible: list[str]


class Profile(Question["ProfileAnswer | TraceComparison"]):
    """Kernel times rolled up: where the time goes, what fusion and overlap would gain, each kernel against its floor."""

    verb = "profile"
    # fmt: off
    trace: Text = field("free", "CSV, Chrome trace (.json, .json.gz), Nsight Systems CSV or SQLite export, or a jax.profiler folder.", positional=True)
    hw: OptText = field("name", "Chip: a name, alias or YAML path. Gives the peak and the bandwidth.", default=None)
    dtype: Text = field("free", "Number format of kernels that name none.", default="bf16", metavar="FORMAT")
    peak: OptNumber = field("flops_per_s", "Peak FLOP/s, instead of the chip's.", default=None)
    bandwidth: OptNumber = field("bytes_per_s", "Memory bandwidth, instead of the chip's.", default=None)
    model: OptText = field("name", "Model whose operations the kernels run.", default=None)
    batch: Number = field("positive", "With --model: sequences.", default=1.0, metavar="COUNT")
    seq: OptNumber = field("tokens", "With --model: tokens per sequence in the pass.", default=None)
    context: OptNumber = field("tokens", "With --model: context of a decode step, instead of --seq.", default=None)
    tp: Number = field("positive", "With --model: tensor-parallel size.", default=1.0, metavar="COUNT")
    device: OptText = field("free", "Which device of the trace; default: the busiest.", default=None, metavar="COUNT")
    against: OptText = field("free", "An estimate as its flags: each operation expected and measured, and the remainder.", default=None, metavar="FLAGS")
    steps: OptWhole = field("whole", "With --against: steps in the trace; omitted: counted.", default=None)
    # fmt: on

    def answer(self, lift: PlainLift = PLAIN) -> ProfileAnswer | TraceComparison:
        """Totals, and kernels by name against their floors, or the trace next to an estimate. Raises DataError for a file that is no trace."""
        from rooflinecli.importers.profiles.read import read

        if self.against is not None:
            from rooflinecli.engine import build_request
            from rooflinecli.questions.profile.compare_estimate import against
            from rooflinecli.specs.flag_text import estimate_options

            request = build_request.request(estimate_options("--against", self.against, self.hw))
            return against(read(Path(self.trace)), request, self.steps, self.device)
        from rooflinecli.questions.profile.rollup import expected_ops, profile, rates_of

        return profile(read(Path(self.trace)), rates_of(self), self.device, expected_ops(self), lift)
