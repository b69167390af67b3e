"""What a plan is asked: the work, the chips with their prices, the deadline and the budget."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions import multi_chip
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.plan.question import Plan
from rooflinecli.questions.search.search_request import Limits, joined
from rooflinecli.specs import parse_values
from rooflinecli.specs.name_lookup import split_count
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import BOUNDS


def no_price(chip: str) -> str:
    """Why a chip without a price is infeasible where there is a budget."""
    return f"no price is known for it, so --budget cannot be checked; add --price {chip}=USD"


@dataclass(frozen=True)
class PlanTarget:
    """What is asked of every chip: its options, a deadline in s, a budget in USD, the most devices to have, the bound that is held.

    A service has a rate `qps` and limits in s; its deadline is how long it is served and paid for.
    """

    each: dict[str, Options]
    deadline: float | None
    budget: float | None
    most: int | None
    hold: str
    where: tuple[str, ...]
    qps: float | None
    limits: Limits
    power: float | None = None
    preempted: float | None = None

    def most_devices(self, chip: str) -> int | None:
        """The most devices of a chip: -n, and as many as the power carries with each at its limit, host and cooling included.

        Raises UsageError for a chip whose file has no power.
        """
        if self.power is None:
            return self.most
        ctx = EstimateContext(build_request.request({k: v for k, v in self.each[chip].items() if k != "batch"}))
        if ctx.chip.power is None:
            raise UsageError(
                f"--power: {ctx.request.hardware.name} has no power in its file; add `power:` to it", "power"
            )
        carried = int(self.power // float(ctx.chip.power * ctx.host_factor * ctx.pue))
        if not carried:
            raise UsageError(f"--power carries no device of {ctx.request.hardware.name}; raise it", "power")
        return carried if self.most is None else min(self.most, carried)


def target(asked: Plan) -> PlanTarget:
    """A question as what is asked of every chip. Raises UsageError naming the flag that is wrong or missing."""
    options = asked.options() | {"hw": ",".join(asked.hw)}
    hold = str(options.pop("hold", None) or BOUNDS[0])
    served = asked.qps is not None or asked.slo is not None or build_request.implied(options) == "serve"
    serving = "train" not in str(options.get("phase") or ("decode" if served else "train"))
    (_check_service if serving else _check_training)(asked, options)
    budget = None if asked.budget is None else parse_values.dollars("--budget", asked.budget, "budget")
    each = multi_chip.each({k: v for k, v in options.items() if k not in ("n", "phase")})
    counted = next((chip for chip in each if split_count("hardware", chip)[0] is not None), None)
    if counted is not None:
        raise UsageError(
            f"--hw {counted}: plan chooses the device count; remove it, and use -n as an upper limit", "hw"
        )
    lacking = multi_chip.unpriced(each)
    if not serving and budget is not None and len(lacking) == len(each):
        raise UsageError(f"--budget {asked.budget}: {multi_chip.remedy(lacking)}", "budget")
    most = int(build_request.value(OPTIONS["n"], options["n"])) if options.get("n") is not None else None
    limits = joined({}, asked.slo) if serving else {}
    return PlanTarget(
        each,
        asked.deadline,
        budget,
        most,
        hold,
        asked.where,
        asked.qps if serving else None,
        limits,
        asked.power,
        asked.preempted,
    )


def _check_service(asked: Plan, options: Options) -> None:
    if asked.qps is None:
        raise UsageError("--qps is required for a serving plan, for example --qps 50", "qps")
    if asked.budget is not None and asked.deadline is None:
        raise UsageError("--budget for a service requires --deadline, for example --deadline 365d", "deadline")
    if options.get("tokens") is not None:
        raise UsageError("--tokens belongs to training, --qps and --slo to serving; leave one of them out", "tokens")


def _check_training(asked: Plan, options: Options) -> None:
    for field in (Plan.qps, Plan.slo):
        if asked.is_given(field):
            given = f"{field.flag} {asked.text_of(field)}"
            raise UsageError(f"{given}: applies to serving; remove it, or add --phase decode", field.name)
    if asked.deadline is None and asked.budget is None:
        raise UsageError("plan requires --deadline, --budget or both, for example --deadline 30d", "deadline")
    if options.get("tokens") is None:
        raise UsageError("--tokens is required for a training plan, for example --tokens 15T", "tokens")
    if not build_request.value(OPTIONS["tokens"], options["tokens"]):
        raise UsageError(f"--tokens {options['tokens']}: must be above zero", "tokens")
