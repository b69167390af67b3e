"""Cases -> outcomes: every case is estimated once, and each of its requirements evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from rooflinecli.core.errors import DataError, Infeasible, RooflineError, UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import divisors
from rooflinecli.core.record import MISSING, at, entries, leaves
from rooflinecli.core.units import duration
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import time_at_bound
from rooflinecli.engine.phase_answer import LayoutAnswer
from rooflinecli.importers.source import Options
from rooflinecli.questions.check.cases import FLEET, CheckCase
from rooflinecli.questions.check.question import FAIL, INCONCLUSIVE, PASS, RequirementAnswer, Value
from rooflinecli.questions.compare.question import INSIDE, MeasuredGap
from rooflinecli.questions.conditions import IntervalBounds, Requirement, ends
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.question import is_estimate_option
from rooflinecli.questions.simulate.question import FORMER, Simulate
from rooflinecli.specs.options import OPTIONS, Option
from rooflinecli.specs.quantities import canonical, unit_of
from rooflinecli.specs.request import MOST

SIMULATED, LAYOUT, MEASURED = "simulate.", "layout.", "measured."
FITS = f"{FLEET}feasible"
# files and options of a plan -> rows with their estimates
Measured = Callable[[Sequence[Path], Options], list[MeasuredGap]]


def bounds(quantity: str, case: CheckCase, result: EstimateAnswer | None, estimator: Estimator) -> IntervalBounds:
    """A quantity with its ends, from whatever has it; `result` is None for a fleet. Raises UsageError for one that does not exist."""
    name = quantity.partition(".")[2]
    if result is None:
        return _of_fleet(case, quantity)
    if quantity.startswith(SIMULATED):
        from rooflinecli.questions.simulate.answer import bounded_run

        ran = bounded_run(_simulation(case, result))
        name = {old: new for new, old in FORMER["former_keys"][0].items()}.get(name, name)
        if name not in ran.values:
            raise unknown("quantity of a simulation", name, ran.values, "`roofline simulate --format json` shows them")
        return ran.ends(name)
    if quantity.startswith(LAYOUT):
        return _of_layout(case, result, name, estimator)
    if not quantity.startswith(MEASURED):
        return ends(result, quantity)
    if not case.measured:
        raise UsageError(f"{quantity}: no measured file; name one in the check, such as `measured: bench.json`")
    if estimator.measured is None:
        raise UsageError(f"{quantity}: measured files are read by `roofline check` only")
    # `PHASE.time_s` (the slowest), `gap` (the largest, either way) or `coverage_fraction` of measured rows
    rows = estimator.measured(case.measured, case.options)
    times = {f"{phase}.time_s": [r for r in rows if r.phase == phase] for phase in dict.fromkeys(r.phase for r in rows)}
    if name in times:
        slowest = max(times[name], key=lambda row: row.measured_s)
        return IntervalBounds(slowest.measured_s, note=_note(slowest))
    if name == GAP:
        worst = max(rows, key=lambda row: abs(row.gap))
        return IntervalBounds(abs(worst.gap), note=_note(worst))
    bounded = [row for row in rows if row.interval_s]
    if name in (COVERAGE, FORMER_COVERAGE) and bounded:
        outside = [row for row in bounded if row.verdict != INSIDE]
        return IntervalBounds(1 - len(outside) / len(bounded), note=_note(outside[0]) if outside else "")
    raise unknown("measured quantity", name, [*times, GAP, *([COVERAGE] if bounded else [])])


_OF_ALL = ("feasible", "growth", "bottleneck", "devices", "spare", "usd_per_hour")


def _of_fleet(case: CheckCase, quantity: str) -> IntervalBounds:
    """A number of the fleet, placed at the bound of the check."""
    found = _placed(case.fleet, case.bound) if case.fleet is not None else {}
    name = quantity.removeprefix(FLEET)
    value = at(found, name)
    value = at(found, canonical(name)) if value is MISSING else value
    if value is MISSING or entries(value) is not None:
        raise unknown("quantity of a fleet", name, [path for path, _ in leaves(found)])
    if value is None:
        raise UsageError(
            f"{quantity}: not available; costs need a `price` in every group, and growth needs a feasible fleet"
        )
    note = f"the whole fleet placed at the {case.bound} bound; {found['bottleneck']} is the bottleneck"
    return IntervalBounds(value, note=note)


@lru_cache(maxsize=64)
def _placed(path: Path, bound: str) -> dict[str, object]:
    """The numbers of a fleet's file, models and groups by their names."""
    from rooflinecli.questions.fleet.answer import fleet

    try:
        found = fleet(path, bound)
    except UsageError as error:
        raise DataError(f"{path}: {error}") from None
    named = {
        kind: {
            row["name"]: {k: v for k, v in entries(row) or () if v is None or isinstance(v, (bool, int, float))}
            for row in found[kind]
        }
        for kind in ("models", "groups")
    }
    return {**{key: found[key] for key in _OF_ALL}, **named}


GAP, COVERAGE, FORMER_COVERAGE = "gap", "coverage_fraction", "inside_share"


def _note(row: MeasuredGap) -> str:
    """A row in a sentence, with what would explain its gap best."""
    span = "" if row.interval_s is None else f", {' to '.join(map(duration, row.interval_s))}"
    why = f"; {row.explained_by[0].what} would explain it" if row.explained_by and row.verdict != INSIDE else ""
    return f"{row.row}: {row.quantity} {duration(row.measured_s)}, estimated {duration(row.expected_s)}{span}{why}"


def _simulation(case: CheckCase, result: EstimateAnswer) -> Simulate:
    """The simulation of a case. Raises UsageError for an entry of `simulate:` that does not exist."""
    layout = next((found.layout_of_phase for name, found in result.phases.items() if name != "train"), None)
    if layout is None:
        raise UsageError("simulations are for serving; add prefill or decode to `phase`", "phase")
    known = Simulate.fields()
    options = {own: value for name, value in case.options.items() if (own := OPTIONS[name].parameter) in known}
    options |= {"n": layout.devices, **{axis: getattr(layout, axis) for axis in ("tp", "pp", "dp", "cp", "ep")}}
    for name, value in case.simulate:
        field = next((field for field in simulation_fields() if name.replace("_", "-") in field.names), None)
        if field is None:
            raise unknown("entry of simulate", name, [field.long for field in simulation_fields()])
        options[field.parameter] = value
    for name in ("prompt", "output") if "trace" in options else ():
        options.pop(name, None)  # the estimate's lengths are those of a mean request
    return Simulate.read({"interval": True, **options})


def simulation_fields() -> list[Option]:
    """The fields of a simulation that no estimate has: the entries of `simulate:`."""
    return [field for field in Simulate.fields().values() if not is_estimate_option(field)]


REGRET, FORMER_REGRET = "regret_fraction", "within_of_best"
_CHOSEN = {  # what a search may choose for itself; the rest of the question stays
    "n", "tp", "pp", "dp", "cp", "ep", "zero", "shard", "micro-batch", "virtual-stages", "recompute", "sequence-parallel",
}  # fmt: skip
_UNSEARCHED = {"stages", "recompute-modules", "recompute-layers"}


def _of_layout(case: CheckCase, result: EstimateAnswer, name: str, answer: Estimator) -> IntervalBounds:
    """Regret: the fraction by which the plan's time exceeds that of the best layout of its devices, both at the bound of the check.

    Below zero where the plan has what no search tries. Raises UsageError for another name, and for a load that depends on the layout.
    """
    if name not in (REGRET, FORMER_REGRET):
        raise unknown("quantity of a layout", name, [REGRET])
    phase = "train" if "train" in result.phases else "decode"
    own = float(time_at_bound(result.phases[phase], case.bound))
    devices, found = result.phases[phase].layout_of_phase.devices, None
    if phase == "decode":
        found = _best_serving(case, result, answer)
    else:
        from rooflinecli.questions.search.training import fastest_layout

        open_ = {k: v for k, v in case.options.items() if k not in _CHOSEN | _UNSEARCHED}
        best = fastest_layout(open_, devices, case.bound)
        if best.estimate is not None:
            found = float(time_at_bound(best.estimate.phases["train"], case.bound)), best.command
    if found is None:
        raise UsageError(
            f"layout.{REGRET}: no layout of {devices:,} devices fits; there is no best layout to compare with", "n"
        )
    return IntervalBounds(own / found[0] - 1, phase, note=f"best found: {found[1]}")


def _best_serving(case: CheckCase, result: EstimateAnswer, answer: Estimator) -> tuple[float, str] | None:
    """The shortest inter-token latency of the same sequences on the same devices, over every split into replicas."""
    load = next((k for k in ("concurrency", "batch") if k in case.options), "batch")
    if "qps" in case.options or result.workload.concurrency == "max" or case.options.get("concurrency") == MOST:
        raise UsageError(
            f"layout.{REGRET}: not defined with qps or concurrency max, where the load depends on the layout; give batch or concurrency",
            load,
        )
    layout = result.phases["decode"].layout_of_phase
    given = case.options.get(load)
    each = (result.workload.batch or 1) if given is None else build_request.value(OPTIONS[load], given)
    rest = {k: v for k, v in case.options.items() if k not in _CHOSEN | {load}}
    found = []
    for sizes in _splits(EstimateContext(build_request.request(case.options)), layout, int(each) * layout.dp):
        share = {load: int(each) * layout.dp // sizes["dp"]}
        try:
            other = answer({**rest, **sizes, **share, "n": layout.devices})
        except RooflineError:
            continue
        if other.feasible:
            words = " ".join(f"--{k} {v}" for k, v in {**sizes, **share}.items())
            found.append((float(time_at_bound(other.phases["decode"], case.bound)), f"-n {layout.devices} {words}"))
    return min(found, default=None)


def _splits(ctx: EstimateContext, layout: LayoutAnswer, sequences: int) -> Iterator[dict[str, int]]:
    """TP, PP, DP and EP over the layout's devices, so that every replica takes as many whole sequences."""
    experts = ctx.ledger.experts
    for tp in divisors(layout.devices):
        for pp in divisors(layout.devices // tp):
            dp = layout.devices // tp // pp
            if any(h % tp for h in ctx.ledger.heads) or ctx.ledger.n_layers % pp or sequences % dp:
                continue
            for ep in divisors(dp) if experts else (1,):
                if all(x % ep == 0 for x in experts):
                    yield {"tp": tp, "pp": pp, "dp": dp, "ep": ep}


@dataclass(frozen=True)
class Outcome:
    """A case with its estimate (none for a fleet, and when no device count fits) and the verdict on every requirement."""

    case: CheckCase
    result: EstimateAnswer | None
    requirements: tuple[RequirementAnswer, ...] = ()
    problem: str = ""

    @property
    def verdict(self) -> str:
        return worst([r.verdict for r in self.requirements]) if self.requirements else FAIL

    @property
    def at_expected(self) -> str:
        return worst([r.verdict_at_expected for r in self.requirements]) if self.requirements else FAIL


class Estimator:
    """Estimates by options, each distinct one computed once."""

    def __init__(self, measured: Measured | None = None) -> None:
        self.measured, self.budget = measured, 0  # estimates that a search for fixes may still take
        self._memo: dict[str, EstimateAnswer | RooflineError] = {}

    def __call__(self, options: Options) -> EstimateAnswer:
        """Raises UsageError or Infeasible as the estimate does, and UsageError for numbers beyond any machine."""
        key = repr(sorted(options.items()))
        if key not in self._memo:
            try:
                self._memo[key] = self._answer(options)
            except RooflineError as error:
                self._memo[key] = error
        found = self._memo[key]
        if isinstance(found, RooflineError):
            raise found
        return found

    def knows(self, options: Options) -> bool:
        """Whether these options were estimated before."""
        return repr(sorted(options.items())) in self._memo

    def _answer(self, options: Options) -> EstimateAnswer:
        try:
            request = build_request.request(options)
            try:
                return estimate(request)
            except Infeasible:
                sizes = [int(v) for v in (request.tp, request.pp, request.dp) if v is not None]
                if request.devices is not None or len(sizes) < 3:
                    raise
                total = sizes[0] * sizes[1] * sizes[2] * int(request.cp or 1)
                return estimate(replace(request, devices=float(total)))
        except (ArithmeticError, ValueError, MemoryError) as error:
            raise UsageError(f"these sizes overflow the computation ({error}); use smaller values") from None


def outcome(case: CheckCase, estimator: Estimator) -> Outcome:
    """The outcome of one case. Raises DataError with file:line for whatever is wrong with how it is written."""
    result = None
    if case.fleet is None:
        try:
            result = estimator(case.options)
        except Infeasible as error:
            return Outcome(case, None, problem=str(error))
        except UsageError as error:
            raise DataError(f"{case.lines.get(error.option, case.where)}: {case.name}: {error}") from None
    feasible = "feasible" if result is not None else FITS
    requirements = list(case.requirements)
    if not any(r.quantity == feasible for r in requirements) and (result is None or not result.feasible):
        # an infeasible plan never passes by not requiring that it fits
        requirements.insert(0, Requirement(feasible, "==", True, "true", case.where, implied=True))
    violations = {} if result is None else {v.constraint.partition(".")[0]: v.message for v in result.violations}
    if any(r.quantity == "feasible" and r.limit is False for r in requirements):
        violations = {}
    evaluated = []
    for requirement in requirements:
        try:
            found = bounds(requirement.quantity, case, result, estimator)
            evaluated.append(evaluate(requirement, found, result, case.bound, violations))
        except UsageError as error:
            raise DataError(f"{requirement.where}: {case.name}: {error}") from None
        except Infeasible as error:  # of a simulation
            return Outcome(case, None, problem=str(error))
    return Outcome(case, result, tuple(evaluated))


ORDER = (PASS, INCONCLUSIVE, FAIL)


def evaluate(
    requirement: Requirement,
    found: IntervalBounds,
    result: EstimateAnswer | None,
    bound: str,
    violations: dict[str, str],
) -> RequirementAnswer:
    """The verdict on a quantity. violations: phase -> why it cannot run, where its times and costs describe nothing and fail.

    Raises UsageError when the quantity cannot be compared so.
    """
    kinds, limit = {bool: "true or false", str: "a word"}, requirement.limit
    want, have = kinds.get(type(limit), "a number"), kinds.get(type(found.expected), "a number")
    if want != have:
        why = f"is {have} ({found.expected!r}), but the limit is {want}; compare it with {have}"
        raise UsageError(f"{requirement.quantity} {why}")
    if requirement.comparison == "==" and found.interval:
        raise UsageError(f"{requirement.quantity} has an interval, so == cannot be checked; use <= or >=")
    value = found.at(bound, requirement.upper)
    verdict = _verdict(requirement, found, value, bound)
    at_expected = _verdict(requirement, found, found.expected, "expected")
    infeasible, reason = found.interval and found.phase in violations, ""
    if infeasible:
        verdict = at_expected = FAIL
        reason = "infeasible layout, value not meaningful"
    elif requirement.quantity == "feasible" and verdict == FAIL:
        reason = "; ".join(dict.fromkeys(violations.values()))
    return RequirementAnswer.like(
        requirement, unit="" if isinstance(limit, (bool, str)) else unit_of(requirement.quantity), value=value,
        value_bound=bound if found.interval else "expected", expected=found.expected, floor=found.floor,
        interval=(found.low, found.high) if found.interval else None, verdict=verdict, verdict_at_expected=at_expected,
        margin=None if infeasible else requirement.margin(value),
        explanation=found.note or ("" if result is None else _composition(requirement, found, result)), reason=reason,
    )  # fmt: skip


def worst(verdicts: list[str]) -> str:
    return max(verdicts, key=ORDER.index)


def _verdict(requirement: Requirement, found: IntervalBounds, value: Value, bound: str) -> str:
    if bool(requirement.holds(value)):
        return PASS
    best = found.low if requirement.upper else found.high
    return INCONCLUSIVE if found.interval and bound != "floor" and bool(requirement.holds(best)) else FAIL


def _composition(requirement: Requirement, found: IntervalBounds, result: EstimateAnswer) -> str:
    """The bottleneck and the largest term of a time, the largest part of memory."""
    group, *rest = requirement.quantity.split(".")
    if group in ("measured", "layout"):  # their notes say it
        return ""
    if "memory" in (group, *rest):
        memory = result.phases[found.phase or group].memory
        parts = {k.removesuffix("_bytes"): v for k, v in memory.entries() if k.endswith("_bytes")}
        total, _ = parts.pop("total"), parts.pop("capacity")
        name = max(parts, key=lambda k: parts[k])
        return f"{name.replace('_', ' ')} is {parts[name] / total:.0%} of resident memory" if total else ""
    phase = result.phases.get(found.phase)
    if phase is None or not found.interval:
        return ""
    name, seconds = max(phase.breakdown_s.items(), key=lambda item: item[1])
    return f"{found.phase} is bound by {phase.bottleneck}; {name.replace('_', ' ')} takes {seconds / phase.time_s:.0%} of the time"
