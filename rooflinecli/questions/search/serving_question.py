"""What a serving search is asked: what is open, the limits, the rate, what is best."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.mean_slo import LIMITS
from rooflinecli.questions.search.objective import Objective, objective
from rooflinecli.questions.search.training_question import OpenValues, open_values
from rooflinecli.questions.sweep.axes import axis
from rooflinecli.questions.sweep.conditions import Condition, condition
from rooflinecli.specs import parse_values
from rooflinecli.specs.options import LAYOUT, OPTIONS
from rooflinecli.specs.request import Request

# parts of a layout that an instance does not have; serving splits activations outside TP too
_TRAINING = {"dp", "cp", *(o.name for o in OPTIONS.values() if o.panel == LAYOUT and o.phase == "train")} - {
    "sequence-parallel"
}


@dataclass(frozen=True)
class ServingSearchQuestion:
    """A serving question: limits in SI, `devices` the most to use, `qps` the rate to carry."""

    request: Request
    objectives: tuple[Objective, ...]
    conditions: tuple[Condition, ...]
    open: OpenValues
    batches: tuple[float, ...]
    devices: float | None
    qps: float | None
    ttft: float | None
    itl: float | None

    @property
    def pareto(self) -> bool:
        """Whether the answer is the Pareto front of two objectives: with a rate, the second orders equals of the first."""
        return len(self.objectives) == 2 and self.qps is None

    @property
    def largest_instance(self) -> int:
        """Devices of an instance at most."""
        return int(min(self.devices or instances.LARGEST_INSTANCE, instances.LARGEST_INSTANCE))


def asked(options: Options, goal: str | None, where: list[str], limits: dict[str, str | None]) -> ServingSearchQuestion:
    """Options as written -> a question. Raises UsageError naming the flag."""
    given = build_request.named(
        {k: v for k, v in options.items() if k != "phase"}, "`roofline search --help` lists them"
    )
    fixed: OpenValues = {k: open_values(k, given.pop(k)) for k in ("tp", "pp", "ep") if k in given}
    wrong = min((name for name in given if name in _TRAINING), default="")
    if wrong:
        raise UsageError(
            f"--{wrong} belongs to training; a serving search takes --tp, --pp, --ep, --batch and -n", wrong
        )
    devices = build_request.value(OPTIONS["n"], given.pop("n")) if "n" in given else None
    batches = axis(OPTIONS["batch"], given.pop("batch", f"1..{instances.LARGEST_BATCH}"))
    if batches.tokens:
        raise UsageError("--batch: serving batches are in sequences, not tokens", "batch")
    request = build_request.request({**given, "phase": "prefill,decode"})
    qps = None if limits.get("qps") is None else build_request.value(OPTIONS["qps"], limits["qps"])
    plain = "throughput" if request.price is None and request.hardware.price is None else "cost"
    names = goal or (f"devices,{plain}" if qps is not None else plain)
    found = tuple(objective(name, ("decode",)) for name in names.split(","))
    if len(found) > 2:
        raise UsageError(f"--objective {names}: give one, or two for a Pareto front")
    ttft, itl = (
        None if (text := limits.get(name)) is None else parse_values.seconds(f"--{name}", text, name) for name in LIMITS
    )
    conditions = [condition(t) for t in where]
    conditions += [condition(f"serve.{n}_s <= {v!r} s") for n, v in (("ttft", ttft), ("itl", itl)) if v is not None]
    return ServingSearchQuestion(request, found, tuple(conditions), fixed, batches.values, devices, qps, ttft, itl)
