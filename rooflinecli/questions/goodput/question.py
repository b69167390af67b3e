"""`roofline goodput`: training goodput under failures, and the best checkpoint interval."""

from __future__ import annotations

from math import e, inf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import Infeasible
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Quantities
from rooflinecli.core.units import duration
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.formulas import training_goodput as f
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptNumber, OptSwitch, OptText, field

if TYPE_CHECKING:
    from rooflinecli.importers.job_history import History
    from rooflinecli.questions.estimate.answer_types import Cost

MTBF, SPREAD = 37_300 * 3600.0, 0.67
MTBF_SOURCE = "geometric mean of five fleets, 80% between 16,000 and 88,000 device-hours (docs/cluster.md)"
Z80 = 1.2816  # standard deviations on either side of an 80% interval
RESTART = 600.0
PLANNED = 47 / 419  # planned interruptions for each failure: Llama 3 report, section 3.3.4
LOST_HOST = 0.78  # of failures that take the host's storage with them: confirmed or suspected hardware, ibidem
REPLACEMENT, REPAIR = 3600.0, 86400.0
STATE = 14.0  # bytes per parameter: 2 working, 4 master, 8 moments
# bytes/s of a device: a data center NVMe drive each; half of a 400 Gb/s port to a peer's memory (GEMINI, SOSP 2023, has such ports);
# Llama 3 report, section 3.3.1, 2 TB/s sustained for 16,384 GPUs; and what a host takes from eight devices (hardware/defaults/gpu.yaml)
STORAGE = {"local": 3e9, "peer": 25e9, "remote": 2e12 / 16384}
SNAPSHOT = 20e9
NO_PROGRESS = 1000.0  # times as long as without failures


@dataclass(slots=True, eq=False, repr=False)
class Recovery:
    """What a checkpoint and a failure cost. share: of the failures that are recovered from it; write: seconds until a save is safe."""

    save: Quantity
    write: Quantity
    back: Quantity
    share: float = 1.0

    def interval(self, fleet: Quantity) -> Quantity:
        """The best time between saves, no shorter than one takes to be written."""
        return num.maximum(f.daly_interval(self.save, fleet / self.share), self.write - self.save)

    def slowdown(self, fleet: Quantity, interval: Quantity) -> Quantity:
        """Time over work: half an interval, and what was not yet written, is redone after a failure; infinite beyond all numbers."""
        try:
            return f.slowdown(interval, self.save, self.back + self.write - self.save, fleet / self.share)
        except OverflowError:
            return inf


class TrainingGoodput(Question[Quantities]):
    """Training goodput under failures, and the best checkpoint interval."""

    verb = "goodput"
    examples = (
        "roofline goodput -n 16384 --checkpoint '30 s'",
        "roofline goodput -n 16384 --params 405B --storage peer --spares 16",
    )
    # fmt: off
    n: Number = field("count", "Devices of the run.", most=1e36, short="-n", also=("devices",))
    checkpoint: OptNumber = field("time", "Time to save a checkpoint: 30 s.", default=None)
    params: OptNumber = field("amount", "Parameters, instead of --checkpoint: 70B.", default=None, metavar="COUNT")
    bandwidth: OptNumber = field("bytes_per_s", "Bandwidth of all writers together: 200 GB/s; by default that of --storage.", default=None)
    storage: OptText = field("choice", "Where checkpoints are kept: the host's disks, another host's memory, or shared storage (default)", default=None, choices=tuple(STORAGE))
    async_save: OptSwitch = field("switch", "Saves overlap with training, but for the copy to the host's memory.", default=None)
    mtbf: OptNumber = field("time", "Mean time between failures of one device; by default that of five fleets, 37,300 h (16,000 to 88,000).", default=None)
    detect: OptNumber = field("time", "Time until a failure is noticed, where --restart leaves it out.", default=None, least=0)
    restart: OptNumber = field("time", "Time to come back after a failure: 10 min.", default=None, least=0)
    spares: OptNumber = field("count", "Hosts that stand by to replace failed ones; omitted: always enough.", default=None, least=0)
    replacement: OptNumber = field("time", "With --spares: wait for a host when none stands by: 1 h.", default=None, least=0)
    repair: OptNumber = field("time", "With --spares: time until a failed host stands by again: 24 h.", default=None)
    planned: OptNumber = field("real", "Planned interruptions for each failure: 0.11 (Llama 3's 47 to 419).", default=None, least=0)
    elastic: OptNumber = field("count", "Replicas of elastic data parallelism: a failure stops one of them, not the run.", default=None)
    interval: OptNumber = field("time", "Work between checkpoints; omitted: the best (Daly).", default=None)
    run: OptNumber = field("time", "Failure-free length of the run: 54 days.", default=None)
    log: OptText = field("file", "History of the run's jobs: sacct -P, CSV or JSON lines with start, end and state.", default=None)
    # fmt: on

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        """Raises Infeasible when failures come so fast that no interval is ever finished."""
        logged = None
        if self.log is not None:
            from rooflinecli.importers.job_history import history

            logged = history(Path(self.log), float(self.n))
        mtbf, spread = self._mtbf(lift, logged)
        n, replicas = lift("n", self.n, "devices", "-n"), self.elastic or 1.0
        size = None
        if self.params is not None and self.checkpoint is None:
            size = f.checkpoint_bytes(
                lift("N", self.params, "params", "--params"),
                lift("b", STATE, "B", "working, master weights and moments"),
            )
        planned = PLANNED if self.planned is None else self.planned
        if self.mtbf is not None and self.planned is None:
            planned = 0.0  # a stated MTBF counts every interruption

        def outcome(fleet: Quantity) -> tuple[Recovery, Quantity, Quantity]:
            """The first way to recover, its interval, and time over work."""
            costly = fleet * replicas  # of elastic replicas a failure stops one
            back = self._back(lift, fleet, logged)
            first, *others = self._ways(lift, size, back)
            tau = first.interval(costly) if self.interval is None else lift("tau", self.interval, "s", "--interval")
            slow = first.slowdown(costly, tau)
            for way in others:
                slow = slow * way.slowdown(costly, way.interval(costly))
            return first, tau, f.with_planned(slow, planned, first.save, back, costly) if planned else slow

        fleet = mtbf / n
        way, used, slow = outcome(fleet)
        if not num.value(slow) < NO_PROGRESS:
            raise Infeasible(
                f"no progress: a failure every {duration(num.value(fleet))} (--mtbf {duration(num.value(mtbf))} is of one device, not of all), while a checkpoint takes {duration(num.value(way.save))} "
                f"and a restart {duration(num.value(way.back))}; use fewer devices, or raise --mtbf"
            )
        rarely, often = (float(num.value(f.mtbf_quantile(fleet, spread, z))) for z in (-Z80, Z80))
        most, least = (
            float(num.value(outcome(f.mtbf_quantile(fleet, spread, z))[2] if spread else slow)) for z in (-Z80, Z80)
        )
        busy = None if self.run is None else lift("T", self.run, "s", "--run") * slow
        return Quantities.of(
            "goodput/1", devices=self.n, mtbf_s=fleet, mtbf_interval_s=(rarely, often), checkpoint_s=way.save, restart_s=way.back,
            young_interval_s=f.young_interval(way.save, fleet), daly_interval_s=way.interval(fleet * replicas), interval_s=used,
            slowdown=slow, goodput=label(1 / slow, "g", "1"), goodput_interval=(1 / most, 1 / least),
            checkpoint_overhead=f.checkpoint_overhead(used, way.save), checkpoint_bytes=size, run_s=busy,
            run_interval_s=None if self.run is None else (self.run * least, self.run * most),
            failures=None if busy is None else busy / fleet, logged=logged,
        )  # fmt: skip

    def _mtbf(self, lift: PlainLift, logged: History | None) -> tuple[Quantity, Quantity]:
        """Device MTBF and the standard deviation of its logarithm: as given, of the run's own history, or of fleets."""
        if self.mtbf is not None:
            return lift("M_1", self.mtbf, "s", "--mtbf"), 0.0
        fleets = lift("M_1", MTBF, "s", MTBF_SOURCE)
        if logged is None:
            return fleets, SPREAD
        exposure = lift("T_log", logged["device_hours"] * 3600, "s", "--log")
        return f.observed_mtbf(fleets, SPREAD, exposure, logged["failures"]), f.observed_spread(
            SPREAD, logged["failures"]
        )

    def _back(self, lift: PlainLift, fleet: Quantity, logged: History | None) -> Quantity:
        """Time from a failure to work again."""
        seen = None if logged is None else logged["restart_s"]
        restart = self.restart if self.restart is not None else RESTART if seen is None else seen
        source = "--restart" if self.restart is not None else "--restart (default)" if seen is None else "--log"
        back = lift("R", restart, "s", source)
        detect = 0.0 if self.detect is None else lift("D", self.detect, "s", "--detect")
        if self.spares is None:
            return back if self.detect is None else f.recovery_time(detect, back, 0.0, 0.0)
        away = lift("T_rep", REPAIR if self.repair is None else self.repair, "s", "--repair") / fleet
        short = f.spare_shortage(away, self.spares)
        wait = REPLACEMENT if self.replacement is None else self.replacement
        return f.recovery_time(detect, back, short, lift("r", wait, "s", "--replacement"))

    def _ways(self, lift: PlainLift, size: Quantity | None, back: Quantity) -> list[Recovery]:
        """How failures are recovered: from the storage asked for; the host's own disks are lost with it, so shared storage has copies too."""
        at = self.storage or "remote"

        def one(storage: str, share: float) -> Recovery:
            if size is None:
                write = lift("delta", self.checkpoint, "s", "--checkpoint")
                blocking = write
            else:
                own = self.bandwidth is not None and storage == at
                rate = self.bandwidth if own else STORAGE[storage] * self.n
                write = size / lift("W", rate, "B/s", "--bandwidth" if own else f"--storage {storage}")
                copied = size / lift("W_host", SNAPSHOT * self.n, "B/s", "copies to the host")
                blocking = num.minimum(copied, write) if self.async_save else write
            return Recovery(blocking, write, back, share)

        return [one("local", 1 - LOST_HOST), one("remote", LOST_HOST)] if at == "local" else [one(at, 1.0)]


def with_failures(train: TrainAnswer, cost: Cost, devices: Quantity, params: float, lift: PlainLift = PLAIN) -> None:
    """Set how long a run takes with failures and checkpoints and what it costs; nothing on a count on which it would make no progress.

    devices: one count, or the array of a sweep, of which the times may be arrays too.
    """
    if num.plain(devices):
        share = _share(float(num.value(devices)), params)
    else:
        import numpy as np

        counts, place = np.unique(devices, return_inverse=True)
        rows = np.array([_share(float(n), params) for n in counts])[place.reshape(np.shape(devices))]
        share = cast("tuple[float, float, float]", tuple(np.moveaxis(rows, -1, 0)))  # arrays, as every field in a sweep
    if num.plain(devices) and isnan(share[0]):
        return
    train.goodput, train.goodput_interval = share[0], (share[1], share[2])
    part = lift("G", train.goodput, "1", f"roofline goodput; MTBF: {MTBF_SOURCE}")
    train.elapsed_s = train.run_s / part
    cost.elapsed_usd = None if cost.training_usd is None else cost.training_usd / part
    steps = num.value(train.steps)
    step, low, high = (steps * num.value(x) for x in (train.time_s, *train.interval_s))
    train.elapsed_interval_s = elapsed_interval(step, low, high, share[0], (share[1], share[2]))


def _share(devices: float, params: float) -> tuple[float, float, float]:
    """Goodput of a fleet of this size and its interval; NaN where nothing progresses."""
    try:
        answer = TrainingGoodput(n=devices, params=params).answer()
    except Infeasible:
        return nan, nan, nan
    return float(answer.goodput), *answer.goodput_interval


def elapsed_interval(
    expected: Quantity, low: Quantity, high: Quantity, goodput: Quantity, between: tuple[Quantity, Quantity]
) -> tuple[Quantity, Quantity]:
    """80% interval of a run's time (or cost) over its goodput: what the step and the fleet may differ by, as independent factors."""
    faster = num.sqrt(num.log(expected / low) ** 2 + num.log(between[1] / goodput) ** 2)
    least = num.maximum(between[0], 1e-300)
    slower = num.sqrt(num.log(high / expected) ** 2 + num.log(goodput / least) ** 2)
    slower = num.where(between[0] > 0, slower, inf)
    return expected / goodput * e**-faster, expected / goodput * e**slower
