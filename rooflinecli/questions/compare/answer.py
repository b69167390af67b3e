"""The answer of `compare`: one layout on several chips at equal devices, cost or memory, ranked by one quantity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rooflinecli.core.errors import DataError, Infeasible, RooflineError, UsageError, unknown
from rooflinecli.core.units import duration
from rooflinecli.engine import build_request, option_conflicts
from rooflinecli.engine.choose import evaluate_candidates
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.check.run import Estimator
from rooflinecli.questions.compare.question import ISO, Compare, CompareAnswer, ComparedChip
from rooflinecli.questions.conditions import IntervalBounds, ends, phase_of
from rooflinecli.questions.estimate.answer import warn_of_foreign, warn_of_idle
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import Options, unpriced, usd_per_device_hour
from rooflinecli.questions.multi_chip import each as each_chip
from rooflinecli.questions.search.search_request import estimate_command, merge_limits
from rooflinecli.questions.sensitivity.answer_types import Tornado
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.quantities import COMPARED, higher_is_better, scales_with_time, unit_of
from rooflinecli.specs.request import BOUNDS

RANK = "decode.time_s"
_LIMITED = {"ttft": "prefill", "itl": "decode"}


@dataclass(frozen=True)
class ChipResult:
    """One chip: its estimate and the options that it is of, or why there is none."""

    name: str
    result: EstimateAnswer | None
    why: str = ""
    options: Options = field(default_factory=dict)


def compare(question: Compare) -> CompareAnswer:
    """The chips ranked; last, with the reason, those that the layout does not fit on and those that miss a limit of --slo.

    Without --rank-by it is the time of the phase asked for, of decode before prefill. Raises UsageError for an unknown setting,
    chip or quantity; what only one chip cannot do is that chip's reason.
    """
    options, chips, iso = question.options(), question.chips, question.iso
    if len(set(chips)) < 2:
        raise UsageError("--hw: a comparison needs two chips or more; write them with commas, such as h100,h200")
    specs = {name: load_hardware(name) for name in dict.fromkeys(chips)}
    priced = each_chip(options, chips)
    own = {name: {"price": found["price"]} for name, found in priced.items() if "price" in found}
    options = {k: v for k, v in options.items() if k != "price"}
    limits = merge_limits({}, question.slo)
    rank = _rank(options, chips[0]) if question.rank_by is None else question.rank_by
    asked = {"phase": ["train"] if phase_of(rank) == "train" and not limits else ["prefill", "decode"], **options}
    build_request.request({**asked, "hw": next(iter(specs))})  # what is wrong on every chip is wrong with the question
    answer = Estimator()
    tried, iso_text = counts(asked, specs, iso, answer, own)
    bound = str(build_request.value(OPTIONS["bound"], asked.get("bound", BOUNDS[0])))
    chosen = _Choice(rank, bound, limits, iso != "same-memory", question.rank_by not in (None, RANK), answer)
    entries = [_entry({**asked, **own.get(name, {}), "hw": name}, tried[name], chosen) for name in specs]
    results = {entry.name: entry.result for entry in entries if entry.result is not None}
    given = ({**asked, **own.get(name, {}), "hw": name} for name in results)
    contexts = [EstimateContext(build_request.request(options_of_chip)) for options_of_chip in given]
    warn_of_idle(options.keys() - option_conflicts.RANKING, *zip(contexts, results.values(), strict=True))
    for ctx in contexts:
        warn_of_foreign(ctx)
    entries = [_apply_limits(entry, limits) for entry in entries]
    reasons = {entry.why for entry in entries}
    if len(reasons) == 1 and all(entry.result is None for entry in entries):  # the reason lies in the question
        raise UsageError(reasons.pop())
    _require_rank(entries, rank)
    rows = _ranked([_row(entry, rank, specs[entry.name], bound) for entry in entries], rank)
    model = next((e.result.model.name for e in entries if e.result), str(options["model"]))
    found = CompareAnswer(
        model={"name": model}, iso=iso, iso_text=iso_text, rank=rank, bound=bound, unit=unit_of(rank),
        better="more" if higher_is_better(rank) else "less", slo_s=limits, unpriced=unpriced(priced), rows=rows,
        feasible=any(row.feasible for row in rows),
    )  # fmt: skip
    if question.sensitivity:
        found.tornado = _tornado(found, {entry.name: entry.options for entry in entries})
    return found


def _rank(options: Options, chip: str) -> str:
    """What chips are ranked by unless given: the time of a phase that is asked for, or that the model has. Raises UsageError for a phase that is none."""
    if "phase" in options:
        phases = build_request.phases(options["phase"])
    else:
        phases = option_conflicts.supported_phases(
            EstimateContext(build_request.request({**options, "hw": chip, "phase": ["prefill", "decode"]}))
        )
    loaded = {"qps", "concurrency"} & set(options) and str(options.get("output")) == "1"  # one token has no ITL
    return next(
        (f"{name}.time_s" for name in ("prefill",) * bool(loaded) + ("decode", "prefill", "train") if name in phases),
        RANK,
    )


def _tornado(answer: CompareAnswer, asked: dict[str, Options]) -> Tornado | None:
    """What would change the order of the chips; None where fewer than two are ranked. Raises UsageError for a rank that follows no time."""
    from rooflinecli.questions.sensitivity.answer import of_comparison

    if not scales_with_time(answer.rank):
        raise UsageError(
            f"--sensitivity: {answer.rank} does not follow a time; rank by one that does, such as {RANK}", "sensitivity"
        )
    ranked, options = list[tuple[int, str, float]](), dict[str, Options]()
    for row in answer.ranked:
        if row.rank is not None and row.value is not None and row.layout is not None:
            ranked.append((row.rank, row.chip, row.value))
            options[row.chip] = asked[row.chip]
    return of_comparison(ranked, options, answer.rank, answer.bound) if len(ranked) > 1 else None


def _apply_limits(entry: ChipResult, limits: dict[str, float]) -> ChipResult:
    """The entry, with a reason when the pessimistic bound of a latency exceeds its limit."""
    if entry.result is None or entry.why:
        return entry
    return replace(entry, why=_missed(entry.result, limits))


def _missed(result: EstimateAnswer, limits: dict[str, float]) -> str:
    """Which limit the pessimistic bound of a latency exceeds; empty where it keeps to all. Raises UsageError for a phase that is not asked for."""
    for name, limit in limits.items():
        found = result.phases.get(_LIMITED[name])
        if found is None:
            raise UsageError(
                f"--slo {name}: the comparison does not ask for {_LIMITED[name]}; leave --phase out", "slo"
            )
        worst = found.interval_s[1]
        if worst > limit:
            return f"{name} is {duration(found.time_s)}, up to {duration(worst)}; the limit is {duration(limit)}"
    return ""


@dataclass(frozen=True)
class _Choice:
    """How the estimate of a chip is chosen: by the quantity that ranks at a bound, among those that keep to the limits, over `counts` of
    devices as well, and over `layouts` that an estimate would not take where it is asked for."""

    rank: str
    bound: str
    limits: dict[str, float]
    counts: bool
    layouts: bool
    answer: Estimator

    def key(self, result: EstimateAnswer) -> tuple[bool, bool, float]:
        """What is least of the best; of quantities that are no numbers the first is."""
        value, less = _ends(result, self.rank), not higher_is_better(self.rank)
        known = value is not None and isinstance(value.expected, (int, float))
        size = (1 if less else -1) * float(value.at(self.bound, less)) if value and known else 0.0
        return not result.feasible, bool(_missed(result, self.limits)), size


def _entry(options: Options, counts: list[int] | str, choice: _Choice) -> ChipResult:
    """The estimate on the count, and of the layout where the quantity that ranks is not what layouts are chosen by, that ranks best."""
    name = str(options["hw"])
    if isinstance(counts, str):
        return ChipResult(name, None, counts)
    found, why = list[tuple[EstimateAnswer, Options]](), ""

    def tried(asked: Options) -> None:
        nonlocal why
        try:
            found.append((choice.answer(asked), asked))
        except DataError:
            raise
        except (UsageError, Infeasible) as error:
            why = why or str(error)

    for n in counts:
        tried({**options, "n": n})
    if not found:
        return ChipResult(name, None, why)
    if not choice.counts:
        found = [min(found, key=lambda one: not one[0].feasible)]
    for result, asked in tuple(found) if choice.layouts else ():
        for layout in _other_layouts(result, asked):
            tried({**asked, **layout})
    best, chosen = min(found, key=lambda one: choice.key(one[0]))  # the first of equals
    worst = max(best.violations, key=lambda v: v.needed or 0.0, default=None)
    return ChipResult(name, best, worst.message if worst else "", chosen)


def _other_layouts(result: EstimateAnswer, options: Options) -> Iterator[Options]:
    """Sizes of the layouts of a server that fit on the devices of an estimate, but for its own."""
    ctx, phases = EstimateContext(build_request.request(options)), tuple(result.phases)
    r = ctx.request
    if "train" in phases or r.attention_dp or None not in (r.tp, r.pp, r.dp):
        return
    names = ("tp", "pp", "dp", *(("ep",) if ctx.is_moe else ()))
    own = {name: getattr(result.layout, name) for name in names}
    for one in evaluate_candidates(ctx, phases, result.layout.devices, []):
        sizes: Options = {name: int(getattr(one.layout, name)) for name in names}
        if one.fits and sizes != own:
            yield sizes


def _require_rank(entries: list[ChipResult], rank: str) -> None:
    """Raises UsageError when no chip has the quantity to rank by."""
    errors = []
    for entry in entries:
        if entry.result is not None:
            try:
                if not isinstance(ends(entry.result, rank).expected, (bool, str)):
                    return
                raise UsageError(f"{rank} is no number; rank by one, such as {RANK}")
            except UsageError as error:
                errors.append(error)
    if errors:
        raise UsageError(f"--rank-by {rank}: {str(errors[0]).removeprefix(f'{rank}: ')}", "rank")


def _row(entry: ChipResult, rank: str, spec: HardwareSpec, bound: str) -> ComparedChip:
    result = entry.result
    if result is None:
        return ComparedChip(chip=entry.name, name=spec.name, feasible=False, infeasible_reason=entry.why)
    value = _ends(result, rank)
    price, plan = result.cost.usd_per_device_hour, result.layout
    first = next(iter(result.phases.values()))
    ranked = result.phases.get(value.phase or phase_of(rank), first) if value else first
    names = [q for phase in result.phases for q in COMPARED[phase]]
    return ComparedChip(
        chip=entry.name, name=spec.name, feasible=result.feasible and not entry.why, infeasible_reason=entry.why,
        layout={size: getattr(plan, size) for size in ("devices", "tp", "pp", "dp")}, value=value.expected if value else None,
        value_at_bound=value.at(bound, not higher_is_better(rank)) if value else None,
        interval=[value.low, value.high] if value and value.interval else None,
        quantities={q: found.expected for q in [*names, "memory.headroom_fraction"] if (found := _ends(result, q)) is not None},
        bottleneck=ranked.bottleneck, usd_per_hour=price * plan.devices if price is not None else None,
        memory_bytes=plan.devices * first.memory.capacity_bytes, command=estimate_command(entry.options),
        sequences=None if result.workload.batch is None or result.workload.qps is not None else result.workload.batch * plan.dp,
    )  # fmt: skip


def _ends(result: EstimateAnswer, quantity: str) -> IntervalBounds | None:
    try:
        return ends(result, quantity)
    except UsageError:
        return None


def _ranked(rows: list[ComparedChip], rank: str) -> list[ComparedChip]:
    """Best first at the bound, marked where the interval overlaps the one above; what cannot run comes last, unranked."""
    sign = -1 if higher_is_better(rank) else 1
    ranked = [r for r in rows if r.feasible and isinstance(r.value, (int, float))]
    ranked.sort(key=lambda r: sign * (r.value_at_bound or 0.0))
    for place, row in enumerate(ranked, 1):
        best, above = ranked[0], ranked[place - 2] if place > 1 else None
        row.rank = place
        row.relative = row.value_at_bound / best.value_at_bound if row.value_at_bound and best.value_at_bound else None
        spans = [one.interval for one in (above, row) if one is not None and one.interval is not None]
        row.overlaps_previous = len(spans) == 2 and max(s[0] for s in spans) <= min(s[1] for s in spans)
    return [*ranked, *(row for row in rows if row not in ranked)]


Counts = dict[str, list[int] | str]
Own = dict[str, Options]  # chip -> options that are its alone: its price


def counts(
    options: Options, specs: dict[str, HardwareSpec], iso: str, answer: Estimator, own: Own | None = None
) -> tuple[Counts, str]:
    """Device counts to try on each chip, best first, or why there is none; and one sentence on what is equal."""
    if iso not in ISO:
        raise unknown("setting of --iso", iso, ISO)
    given = build_request.value(OPTIONS["n"], options["n"]) if options.get("n") is not None else None
    if iso == "same-devices" and given is not None:
        return {s: [int(given)] for s in specs}, f"{int(given)} device{'s' * (given != 1)} each"
    if iso == "same-devices":
        fewest = {s: _fewest(options, s, answer) for s in specs}
        if not (most := max((c for c in fewest.values() if isinstance(c, int)), default=0)):
            return {s: str(why) for s, why in fewest.items()}, "it fits on no chip"
        text = f"{most} device{'s' * (most != 1)} each, the smallest power of two that fits on every chip that can"
        return {s: [most] for s in specs}, text
    reference, found = next(iter(specs)), Counts()
    n = int(given) if given is not None else _fewest(options, reference, answer)
    if isinstance(n, str):
        raise UsageError(
            f"--iso {iso} measures by {reference}, the first chip, where the layout does not fit ({n}); put another first or give -n"
        )
    if iso == "same-cost":
        prices = {
            name: usd_per_device_hour(spec, (own or {}).get(name, {}).get("price")) for name, spec in specs.items()
        }
        price = prices[reference]
        if price is None:
            raise UsageError(
                f"--iso same-cost: no price is known for {reference}; add --price {reference}=USD, or put a chip with a price first"
            )
        budget = n * price
        for name, usd in prices.items():
            most = math.floor(budget / usd + 1e-9) if usd else 0
            if usd is None:
                found[name] = f"no price is known for it; add --price {name}=USD"
            elif most < 1:
                found[name] = f"one costs {usd:.2f} USD/h, above the budget of {budget:,.2f} USD/h"
            else:  # the most, then multiples of a host's eight, then the power of two below
                found[name] = list(dict.fromkeys(n for n in (most, most // 8 * 8, 2 ** (most.bit_length() - 1)) if n))
        return found, f"at most {budget:,.2f} USD/h, {n} x {reference}"
    total = n * float(specs[reference].memory.capacity.si)
    for name, spec in specs.items():  # the least count, then multiples of a host's eight, then the power of two above
        least = max(math.ceil(total / float(spec.memory.capacity.si) - 1e-9), 1)
        found[name] = list(dict.fromkeys((least, math.ceil(least / 8) * 8, 2 ** (least - 1).bit_length())))
    return found, f"at least {total / 1e9:,.0f} GB in all, {n} x {reference}"


def _fewest(options: Options, chip: str, answer: Estimator) -> int | str:
    """The fewest devices that hold it on a chip, or why there are none."""
    try:
        result = answer({k: v for k, v in options.items() if k != "n"} | {"hw": chip})
    except DataError:
        raise
    except RooflineError as error:
        return str(error)
    unfit = [v.message for v in result.violations]
    return unfit[0] if unfit else max(p.layout_of_phase.devices for p in result.phases.values())
