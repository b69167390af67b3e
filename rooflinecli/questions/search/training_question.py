"""What a search is asked: the request with its layout left open, what to minimize, what must hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.objective import Objective, objective
from rooflinecli.questions.sweep.axes import axis
from rooflinecli.questions.sweep.conditions import Condition, condition
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import Request

OpenValues = dict[str, tuple[Number, ...]]  # option -> what it may be: numbers or words
OPEN = ("tp", "pp", "cp", "dp", "ep", "micro-batch", "virtual-stages", "zero", "recompute", "sequence-parallel")


@dataclass(frozen=True)
class TrainingSearchQuestion:
    """`open` holds what a layout size may be (missing: anything legal); `devices` the counts to try.

    has_precedent: only layouts like published ones; every: each layout a row, not the best of each split of the devices.
    """

    request: Request
    phase: str
    devices: tuple[int, ...]
    objectives: tuple[Objective, ...]
    conditions: tuple[Condition, ...]
    open: OpenValues = field(default_factory=dict)
    has_precedent: bool = False
    every: bool = False

    @property
    def pinned(self) -> Request:
        """The request with the recomputation that the search may not choose: options are held to agree with it."""
        said = self.open.get("recompute", ())
        return replace(self.request, recompute=str(said[0])) if len(said) == 1 else self.request


def question(
    options: Options, objectives: str, conditions: list[str], has_precedent: bool = False, every: bool = False
) -> TrainingSearchQuestion:
    """A question from options by their long names. Raises UsageError naming the flag that is wrong."""
    given = build_request.named(options, "`roofline search --help` lists them")
    phases = build_request.phases(given.pop("phase", "train"))
    limits = {name: open_values(name, given.pop(name)) for name in OPEN if name in given}
    counts = tuple(int(x) for x in open_values("n", given.pop("n"))) if "n" in given else ()
    request = build_request.request({**given, "phase": phases})
    phase = "train" if "train" in phases else "serve"
    if phase == "train" and len(phases) > 1:
        raise UsageError("--phase train cannot be combined with prefill or decode; run two searches")
    found = tuple(objective(name, phases) for name in objectives.split(","))
    if not 1 <= len(found) <= 2:
        raise UsageError(f"--objective {objectives}: give one, or two for a Pareto front")
    return TrainingSearchQuestion(
        request, phase, counts, found, tuple(condition(text) for text in conditions), limits, has_precedent, every
    )


def open_values(name: str, written: object) -> tuple[Number, ...]:
    """What an option may be: numbers as ranges, words as a list. Raises UsageError naming the flag."""
    return axis(OPTIONS[name], written).values
