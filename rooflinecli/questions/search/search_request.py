"""What a search is asked, read from options: objectives, what is open, what must hold; and the `estimate` command line of a row."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request, option_conflicts
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.conditions import Condition, condition
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.sweep.axes import axis
from rooflinecli.simulate.slo import limits
from rooflinecli.specs import flag_text
from rooflinecli.specs.layout import OPEN, OpenValues
from rooflinecli.specs.options import LAYOUT, OPTIONS
from rooflinecli.specs.prices import hourly
from rooflinecli.specs.quantities import OBJECTIVES, canonical, higher_is_better
from rooflinecli.specs.request import Request


@dataclass(frozen=True)
class Objective:
    """A quantity and +1 when less is better, -1 when more is."""

    name: str
    quantity: str
    sign: float

    def key(self, value: Number) -> Number:
        """A number to minimize."""
        return value if self.sign > 0 else -value


def objective(name: str, phases: tuple[str, ...]) -> Objective:
    """`throughput`, `tokens_per_s`, `train.memory.total_bytes`, ... Raises UsageError for a name that cannot be one."""
    name = name.strip().removeprefix("phases.")
    alone = "train" in phases
    known = OBJECTIVES["train" if alone else "serve"]
    quantity = known.get(name, name if "." in name else f"{'train' if alone else 'serve'}.{name}")
    if not name:
        raise UsageError(
            f"--objective: empty; name one of {', '.join(known)} or a quantity such as {next(iter(known.values()))}"
        )
    quantity = canonical(quantity.replace("-", "_"))
    return Objective(name, quantity, -1.0 if higher_is_better(quantity) else 1.0)


LIMITS = ("ttft", "itl")
Limits = dict[str, float]  # ttft and itl in s, qps; those that there are


def merge_limits(given: Limits, slo: str | None) -> Limits:
    """The limits of `--ttft` and `--itl` with those of `--slo`, in seconds.

    Raises UsageError for a limit given twice, one that only a simulation knows, and a fraction of requests.
    """
    if slo is None:
        return given
    found = limits(slo).main
    if "@" in slo:
        raise UsageError(
            f"--slo {slo}: search uses mean latencies; remove the @percentile, or use `roofline simulate`", "slo"
        )
    if found.label:
        raise UsageError(f"--slo {slo}: request classes need `roofline simulate`", "slo")
    merged = {**given}
    for name, seconds in found.seconds:
        if name not in LIMITS:
            raise UsageError(f"--slo {slo}: {name} needs `roofline simulate`; the limits here are ttft and itl", "slo")
        if name in given:
            raise UsageError(f"--slo {slo}: {name} duplicates --{name}; keep one", name)
        merged[name] = seconds
    return merged


LARGEST_INSTANCE, LARGEST_BATCH = 64, 1024  # of a serving search


@dataclass(frozen=True)
class SearchQuestion:
    """What every search is asked: `open` holds what a layout size may be (missing: anything legal)."""

    request: Request
    objectives: tuple[Objective, ...]
    conditions: tuple[Condition, ...]
    open: OpenValues


@dataclass(frozen=True)
class TrainingSearchQuestion(SearchQuestion):
    """`devices` has the counts to try.

    has_precedent: only layouts like published ones; every: each layout a row, not the best of each split of the devices.
    """

    devices: tuple[int, ...]
    has_precedent: bool = False
    every: bool = False

    @property
    def pinned(self) -> Request:
        """The request with the recomputation that the search may not choose: options are held to agree with it."""
        given = self.open.get("recompute", ())
        return replace(self.request, recompute=str(given[0])) if len(given) == 1 else self.request


def question(
    options: Options, objectives: str, conditions: list[str], has_precedent: bool = False, every: bool = False
) -> TrainingSearchQuestion:
    """A question from options by their long names. Raises UsageError naming the flag that is wrong."""
    given = build_request.named(options, "`roofline search --help` lists them")
    limits = {name: axis(OPTIONS[name], given.pop(name)).values for name in OPEN if name in given}
    counts = tuple(int(x) for x in axis(OPTIONS["n"], given.pop("n")).values) if "n" in given else ()
    request = build_request.request({**given, "phase": "train"})
    found, where = _objectives(objectives, "train"), tuple(map(condition, conditions))
    return TrainingSearchQuestion(request, found, where, limits, counts, has_precedent, every)


def _objectives(names: str, phase: str) -> tuple[Objective, ...]:
    found = tuple(objective(name, (phase,)) for name in names.split(","))
    if len(found) > 2:
        raise UsageError(f"--objective {names}: give one, or two for a Pareto front")
    return found


def estimate_command(options: Options, layout: str = "", phases: tuple[str, ...] = ()) -> str:
    """`roofline estimate` with every option of a question; with a layout for its phases, whose options go after those of the question that
    change something there."""
    given = build_request.named(options)
    words = ["roofline", "estimate", str(given.pop("model")), "--hw", str(given.pop("hw"))]
    for phase in phases:
        words += ["--phase", phase]
    of_layout = {"phase", "n", *OPEN, *(("batch",) if phases != ("train",) else ())} if layout else set[str]()
    # in the order of --help
    written = {name: given[name] for name in OPTIONS if name in given and name not in of_layout}
    if layout:
        written |= {option.name: value for option, value in flag_text.fields(layout)}
        request = build_request.request({**written, "model": options["model"], "hw": options["hw"], "phase": phases})
        for idle in option_conflicts.idle(EstimateContext(request), written):
            del written[idle]
    for name, value in written.items():
        words += OPTIONS[name].words(value)
    return shlex.join(words)


# parts of a layout that an instance does not have; serving splits activations outside TP too
_TRAINING_ONLY = {"dp", "cp", *(o.name for o in OPTIONS.values() if o.panel == LAYOUT and o.phase == "train")} - {
    "sequence-parallel"
}


@dataclass(frozen=True)
class ServingSearchQuestion(SearchQuestion):
    """A serving question: limits in SI, `devices` the most to use, `qps` the rate to carry."""

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
        return int(min(self.devices or LARGEST_INSTANCE, LARGEST_INSTANCE))


def serving_question(options: Options, goal: str | None, where: list[str], limits: Limits) -> ServingSearchQuestion:
    """Options as written -> a question. Raises UsageError naming the flag."""
    given = build_request.named(
        {k: v for k, v in options.items() if k != "phase"}, "`roofline search --help` lists them"
    )
    fixed: OpenValues = {k: axis(OPTIONS[k], given.pop(k)).values for k in ("tp", "pp", "ep") if k in given}
    wrong = min((name for name in given if name in _TRAINING_ONLY), default="")
    if wrong:
        raise UsageError(
            f"--{wrong} belongs to training; a serving search takes --tp, --pp, --ep, --batch and -n", wrong
        )
    devices = build_request.value(OPTIONS["n"], given.pop("n")) if "n" in given else None
    batches = axis(OPTIONS["batch"], given.pop("batch", f"1..{LARGEST_BATCH}"))
    if batches.tokens:
        raise UsageError("--batch: serving batches are in sequences, not tokens", "batch")
    request = build_request.request({**given, "phase": "prefill,decode"})
    qps = limits.get("qps")
    default_goal = "throughput" if request.price is None and hourly(request.hardware) is None else "cost"
    names = goal or (f"devices,{default_goal}" if qps is not None else default_goal)
    ends, found = (limits.get(name) for name in LIMITS), _objectives(names, "decode")
    conditions = [condition(t) for t in (*where, *(f"serve.{n}_s <= {limits[n]!r} s" for n in LIMITS if n in limits))]
    return ServingSearchQuestion(request, found, tuple(conditions), fixed, batches.values, devices, qps, *ends)
