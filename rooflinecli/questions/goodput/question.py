"""`roofline goodput`: a question about failures, checkpoints and restarts of a long run."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PlainLift
from rooflinecli.questions.calculator import Calculator, Values
from rooflinecli.specs.options import Number, OptNumber, field


# fmt: off
class TrainingGoodput(Calculator):
    """What failures, checkpoints and restarts leave of a long run, and how often to save."""

    verb = "goodput"
    examples = ("roofline goodput -n 16384 --checkpoint '30 s'",)
    n: Number = field("count", "Devices of the run.", most=1e36, short="-n", also=("devices",))
    checkpoint: OptNumber = field("time", "Time to save a checkpoint: 30 s.", default=None)
    params: OptNumber = field("amount", "Parameters, instead of --checkpoint: 70B.", default=None, metavar="COUNT")
    bandwidth: OptNumber = field("bytes_per_s", "Bandwidth of all writers together: 200 GB/s.", default=None)
    mtbf: OptNumber = field("time", "Mean time between failures of one device: 50000 h (Llama 3's fleet).", default=None)
    restart: OptNumber = field("time", "Time to come back after a failure: 10 min.", default=None)
    interval: OptNumber = field("time", "Work between checkpoints; omitted: the best (Daly).", default=None)
    run: OptNumber = field("time", "Failure-free length of the run: 54 days.", default=None)

    def check(self) -> None:
        if self.params is not None and self.params < 1:
            raise UsageError(f"--params {self.params:g}: must be at least 1")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.goodput.answer import goodput

        return goodput(self.n, self.checkpoint, self.params, self.bandwidth, self.mtbf, self.restart, self.interval, self.run, lift)
# fmt: on
