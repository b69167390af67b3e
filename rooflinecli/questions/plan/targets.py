"""What a plan is asked: the work, the chips with their prices, the deadline and the budget."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.questions import multi_chip
from rooflinecli.questions.multi_chip import Options
from rooflinecli.specs import parse_values
from rooflinecli.specs.name_lookup import split_count
from rooflinecli.specs.options import OPTIONS

WAYS = (
    "smallest device count that meets the deadline, in steps of 1/16 (TPUs: slices for rent)",
    "shortest run within the budget",
)


def no_price(chip: str) -> str:
    """Why a chip without a price is infeasible where there is a budget."""
    return f"no price is known for it, so --budget cannot be checked; add --price {chip}=USD"


@dataclass(frozen=True)
class TrainingPlanQuestion:
    """`each` holds the options of every chip; deadline in s, budget in USD; `most` devices to have; `hold` the end that is held."""

    each: dict[str, Options]
    deadline: float | None
    budget: float | None
    most: int | None
    hold: str
    where: tuple[str, ...]

    @property
    def way(self) -> str:
        return WAYS[0] if self.deadline is not None else WAYS[1]


@dataclass(frozen=True)
class ServingPlanQuestion:
    """A service to plan: requests per second, limits in s by name; `period` s to serve, which a budget in USD pays for."""

    each: dict[str, Options]
    qps: float
    limits: dict[str, float]
    period: float | None
    budget: float | None
    most: int | None
    hold: str
    where: tuple[str, ...]


def serving(
    options: Options,
    qps: str | None,
    limits: dict[str, str | None],
    deadline: str | None,
    budget: str | None,
    hold: str,
    where: list[str],
) -> ServingPlanQuestion:
    """Options as written -> the question. Raises UsageError naming the flag that is wrong or missing."""
    if qps is None:
        raise UsageError("--qps is required for a serving plan, for example --qps 50", "qps")
    if budget is not None and deadline is None:
        raise UsageError("--budget for a service requires --deadline, for example --deadline 365d", "deadline")
    if options.get("tokens") is not None:
        raise UsageError("--tokens belongs to training, --qps and --slo to serving; leave one of them out", "tokens")
    return ServingPlanQuestion(
        _each(options),
        build_request.value(OPTIONS["qps"], qps),
        {name: parse_values.seconds(f"--{name}", text, name) for name, text in limits.items() if text is not None},
        None if deadline is None else parse_values.seconds("--deadline", deadline, "deadline"),
        None if budget is None else parse_values.dollars("--budget", budget, "budget"),
        _most(options),
        hold,
        tuple(where),
    )


def _each(options: Options) -> dict[str, Options]:
    """Options of every chip. Raises UsageError for a chip with its count, which is what a plan finds."""
    each = multi_chip.each({k: v for k, v in options.items() if k not in ("n", "phase")})
    said = next((chip for chip in each if split_count("hardware", chip)[0] is not None), None)
    if said is not None:
        raise UsageError(f"--hw {said}: plan chooses the device count; remove it, and use -n as an upper limit", "hw")
    return each


def _most(options: Options) -> int | None:
    return int(build_request.value(OPTIONS["n"], options["n"])) if options.get("n") is not None else None


def asked(
    options: Options, deadline: str | None, budget: str | None, hold: str, where: list[str]
) -> TrainingPlanQuestion:
    """Options as written -> the question. Raises UsageError naming the flag that is wrong or missing."""
    if deadline is None and budget is None:
        raise UsageError("plan requires --deadline, --budget or both, for example --deadline 30d", "deadline")
    if options.get("tokens") is None:
        raise UsageError("--tokens is required for a training plan, for example --tokens 15T", "tokens")
    if not build_request.value(OPTIONS["tokens"], options["tokens"]):
        raise UsageError(f"--tokens {options['tokens']}: must be above zero", "tokens")
    each = _each(options)
    found = TrainingPlanQuestion(
        each,
        None if deadline is None else parse_values.seconds("--deadline", deadline, "deadline"),
        None if budget is None else parse_values.dollars("--budget", budget, "budget"),
        _most(options),
        hold,
        tuple(where),
    )
    lacking = multi_chip.unpriced(each)
    if budget is not None and len(lacking) == len(each):
        raise UsageError(f"--budget {budget}: {multi_chip.remedy(lacking)}", "budget")
    return found
