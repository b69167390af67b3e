"""`roofline goodput`: training goodput under failures, and the best checkpoint interval."""

from __future__ import annotations

from dataclasses import field as key

from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.core.units import duration
from rooflinecli.formulas import training_goodput as f
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptNumber, field


class GoodputAnswer(Record):
    """Failures, checkpoints and the fraction of time that makes progress."""

    schema: str = "roofline/goodput/1"
    devices: Quantity
    mtbf_s: Quantity
    checkpoint_s: Quantity
    restart_s: Quantity
    young_interval_s: Quantity
    daly_interval_s: Quantity
    interval_s: Quantity
    slowdown: Quantity
    goodput: Quantity
    checkpoint_overhead: Quantity
    checkpoint_bytes: Quantity = key(default=None, metadata=OPTIONAL)
    run_s: Quantity = key(default=None, metadata=OPTIONAL)
    failures: Quantity = key(default=None, metadata=OPTIONAL)


# Meta reports 419 unexpected interruptions of 16,384 H100 in 54 days (Llama 3 report, section 3.3.4): one per 50,700 device-hours.
DEVICE_MTBF = 16384 * 54 * 86400 / 419
MTBF_SOURCE = "Llama 3 report, section 3.3.4: 419 interruptions of 16,384 H100 in 54 days"
RESTART = 600.0
STATE = 14.0  # bytes per parameter: 2 working, 4 master, 8 moments


class TrainingGoodput(Question[GoodputAnswer]):
    """Training goodput under failures, and the best checkpoint interval."""

    verb = "goodput"
    examples = ("roofline goodput -n 16384 --checkpoint '30 s'",)
    # fmt: off
    n: Number = field("count", "Devices of the run.", most=1e36, short="-n", also=("devices",))
    checkpoint: OptNumber = field("time", "Time to save a checkpoint: 30 s.", default=None)
    params: OptNumber = field("amount", "Parameters, instead of --checkpoint: 70B.", default=None, metavar="COUNT")
    bandwidth: OptNumber = field("bytes_per_s", "Bandwidth of all writers together: 200 GB/s.", default=None)
    mtbf: OptNumber = field("time", "Mean time between failures of one device: 50000 h (Llama 3's fleet).", default=None)
    restart: OptNumber = field("time", "Time to come back after a failure: 10 min.", default=None)
    interval: OptNumber = field("time", "Work between checkpoints; omitted: the best (Daly).", default=None)
    run: OptNumber = field("time", "Failure-free length of the run: 54 days.", default=None)
    # fmt: on

    def check(self) -> None:
        if self.params is not None and self.params < 1:
            raise UsageError(f"--params {self.params:g}: must be at least 1")
        if self.checkpoint is None and (self.params is None or self.bandwidth is None):
            raise UsageError("missing checkpoint time; give --checkpoint '60 s', or --params and --bandwidth")

    def answer(self, lift: PlainLift = PLAIN) -> GoodputAnswer:
        """Raises Infeasible when failures come so fast that no interval is ever finished."""
        mtbf = (
            lift("M_1", DEVICE_MTBF, "s", MTBF_SOURCE) if self.mtbf is None else lift("M_1", self.mtbf, "s", "--mtbf")
        )
        restart = RESTART if self.restart is None else self.restart
        back = lift("R", restart, "s", f"--restart{' (default)' if self.restart is None else ''}")
        size = None
        if self.checkpoint is None:
            parameters = lift("N", self.params, "params", "--params")
            size = f.checkpoint_bytes(parameters, lift("b", STATE, "B", "working, master weights and moments"))
            save = f.checkpoint_time(size, lift("W", self.bandwidth, "B/s", "--bandwidth"))
        else:
            save = lift("delta", self.checkpoint, "s", "--checkpoint")
        fleet = f.fleet_mtbf(mtbf, lift("n", self.n, "devices", "-n"))
        best = f.daly_interval(save, fleet)
        used = best if self.interval is None else lift("tau", self.interval, "s", "--interval")
        try:
            slow = f.slowdown(used, save, back, fleet)
        except OverflowError:
            raise Infeasible(
                f"no progress: a failure every {duration(num.value(fleet))}, while a checkpoint takes {duration(num.value(save))} "
                f"and a restart {duration(num.value(back))}; use fewer devices, or raise --mtbf"
            ) from None
        busy = None if self.run is None else lift("T", self.run, "s", "--run") * slow
        return GoodputAnswer(
            devices=self.n,
            mtbf_s=fleet,
            checkpoint_s=save,
            restart_s=back,
            young_interval_s=f.young_interval(save, fleet),
            daly_interval_s=best,
            interval_s=used,
            slowdown=slow,
            goodput=f.goodput_fraction(slow),
            checkpoint_overhead=f.checkpoint_overhead(used, save),
            checkpoint_bytes=size,
            run_s=busy,
            failures=None if busy is None else f.expected_failures(busy, fleet),
        )
