"""The nearest change that lets a missed check pass, found by further estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from rooflinecli.core.errors import RooflineError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.engine.phase_answer import LayoutAnswer
from rooflinecli.importers.source import Options
from rooflinecli.questions.check.cases import FLEET
from rooflinecli.questions.check.quantities import LAYOUT, MEASURED, SIMULATED
from rooflinecli.questions.check.question import PASS, FixAnswer, OptionChange, QuantityValue
from rooflinecli.questions.check.run import Estimator, Outcome, outcome
from rooflinecli.questions.estimate.answer_types import EstimateAnswer

FARTHEST = 16
OPEN: Options = {"tp": None, "pp": None, "dp": None, "cp": None}
_WIDE = ("bf16", "fp16", "fp32")
_NARROW = ("fp8", "int8")


def moves(options: Options, result: EstimateAnswer) -> dict[str, list[Options]]:
    """kind of change -> options over the ones given (None takes one back), from the least to the most disruptive kind."""
    work, training = result.workload, "train" in result.phases
    serving = not training or len(result.phases) > 1
    plan = result.phases["train" if training else next(iter(result.phases))].layout_of_phase
    found = {"layout": _training_layouts(plan) if training else _layouts(plan)}
    if serving and work.kv_dtype in _WIDE:
        found["kv-dtype"] = [{"kv-dtype": dtype} for dtype in _NARROW]
    if serving and not training and not {"qps", "concurrency"} & set(options):
        batch = int(work.batch or 1)
        smaller = (batch >> i for i in range(1, batch.bit_length()))  # by halves down to one sequence
        found["batch"] = [{"batch": size} for size in (*smaller, batch * 2, batch * 4, batch * 8)]
    found["devices"] = _devices(plan.devices)
    if not training and options.get("weight-dtype") is None and work.dtype in _WIDE:
        found["weight-dtype"] = [{"weight-dtype": "fp8"}, {"weight-dtype": "int8"}, {"weight-dtype": "int4"}]
    if work.dtype in _WIDE:
        found["dtype"] = [{"dtype": dtype} for dtype in _NARROW[: 1 if training else 2]]
    if training and not serving:
        found["batch"] = [{"batch": int(work.train_batch or 1) * k} for k in (2, 4, 8)]
    return found


def pairs(kinds: dict[str, list[Options]]) -> list[Options]:
    """Two kinds of change together; the layout is free wherever the devices change."""
    few = {kind: options for kind, options in kinds.items() if kind != "layout"}
    few["devices"] = [o for o in few["devices"] if "tp" in o]
    names = list(few)
    return [
        {**one, **other}
        for i, first in enumerate(names)
        for second in names[i + 1 :]
        for one in few[first]
        for other in few[second]
    ]


def _layouts(plan: LayoutAnswer) -> list[Options]:
    """Other tensor-parallel sizes on the same devices, the nearest first."""
    n, tp = plan.devices, plan.tp
    sizes = [2**i for i in range(n.bit_length()) if n % 2**i == 0 and 2**i != tp]
    return [{**OPEN, "n": n, "tp": size} for size in sorted(sizes, key=lambda s: abs(s.bit_length() - tp.bit_length()))]


def _training_layouts(plan: LayoutAnswer) -> list[Options]:
    """What training can trade on the same devices: recomputation, ZeRO, interleaving, the whole layout, the microbatch."""
    n = plan.devices
    free: Options = {**OPEN, "n": n, "zero": None, "recompute": None}
    traded: list[Options] = [{"recompute": None}, {"zero": 2, "recompute": None}, {"zero": None, "recompute": None}]
    interleaved: list[Options] = (
        [{**change, "virtual-stages": size} for change in ({}, *traded) for size in (2, 4, 8)] if plan.pp > 1 else []
    )
    return [*traded, *interleaved, free, *({**free, "micro-batch": size} for size in (2, 4))]


def _devices(count: int) -> list[Options]:
    """Twice, half, four times ... the devices: first with the layout kept, then with it free."""
    found: list[Options] = []
    factor = 2
    while factor <= FARTHEST:
        for n in (count * factor, count // factor if count % factor == 0 else 0):
            found += [{"n": n, "dp": None}, {**OPEN, "n": n}] if n else []
        factor *= 2
    return found


ALTERNATIVES = 3
TRAINING = 5
_FINER = {"batch": 1, "devices": 16}
_SIZES = ("devices", "tp", "pp", "dp", "zero", "micro_batch", "virtual_stages", "recompute")


class BudgetExhausted(Exception):
    """The budget of a search is used up."""


@dataclass
class Budget:
    """How many estimates a whole search may take; a training one, whose layout is chosen among dozens, counts as several.

    Counted and not timed, so that the same plan gets the same answer on every machine.
    """

    left: int


def fixes(outcomes: list[Outcome], estimator: Estimator, budget: Budget) -> list[list[FixAnswer] | None]:
    """Per outcome up to three fixes, nearest first: one kind of change each, or a pair when no single kind is enough.

    None for a check that passes, and where the budget ran out first. Pairs wait until every check had its single changes.
    """
    found: list[list[FixAnswer] | None] = [None] * len(outcomes)
    for step in (_singles, _pair):
        for i, missed in enumerate(outcomes):
            if any(r.quantity.startswith((SIMULATED, LAYOUT, MEASURED, FLEET)) for r in missed.case.requirements):
                continue  # a simulation, a fleet or a search per candidate would take minutes, and measurements do not change
            if missed.verdict != PASS and (found[i] == [] or step is _singles):
                found[i] = _within(step, missed, estimator, budget)
    return found


def _within(
    step: Callable[[_Search], Iterator[FixAnswer]], missed: Outcome, estimator: Estimator, budget: Budget
) -> list[FixAnswer] | None:
    """The fixes of one step; those found before the budget ran out are kept."""
    if missed.result is None:
        return []
    found: list[FixAnswer] = []
    try:
        for fix in islice(step(_Search(missed, missed.result, estimator, budget)), ALTERNATIVES):
            found.append(fix)  # one by one, since BudgetExhausted must not lose those before it
    except BudgetExhausted:
        return found or None
    return found


def _singles(search: _Search) -> Iterator[FixAnswer]:
    for kind, candidates in search.kinds.items():
        changes = search.first(candidates)
        if changes is not None:
            yield search.fix(search.refined(kind, changes))


def _pair(search: _Search) -> Iterator[FixAnswer]:
    changes = search.first(pairs(search.kinds))
    if changes is not None:
        yield search.fix(changes)


class _Search:
    """The missed check, and estimating it again with some of its options changed."""

    def __init__(self, missed: Outcome, result: EstimateAnswer, estimator: Estimator, budget: Budget):
        self.case, self.result, self.estimator, self.budget = missed.case, result, estimator, budget
        self.kinds = moves(self.case.options, result)
        self.limits = {(r.file, r.line, r.written) for r in missed.requirements if r.verdict != PASS}

    def passing(self, changes: Options) -> Outcome | None:
        options = {k: v for k, v in {**self.case.options, **changes}.items() if v is not None}
        if not self.estimator.knows(options):
            cost = TRAINING if "train" in self.result.phases else 1
            if self.budget.left < cost:
                raise BudgetExhausted
            self.budget.left -= cost
        try:
            found = outcome(replace(self.case, options=options), self.estimator)
        except RooflineError:
            return None
        return found if found.verdict == PASS else None

    def first(self, candidates: Iterable[Options]) -> Options | None:
        return next((changes for changes in candidates if self.passing(changes)), None)

    def refined(self, kind: str, changes: Options) -> Options:
        """The smallest such change that still passes, by bisection toward the plan as written."""
        training = "train" in self.result.phases
        option = {"batch": None if training else "batch", "devices": "n" if training else None}.get(kind)
        if option is None:
            return changes
        now = self.result.workload.batch if kind == "batch" else self.result.phases["train"].layout_of_phase.devices
        good, bad = int(changes[option]), int(now or 0)
        step = max(good // _FINER[kind], 1) if kind == "devices" else 1
        while abs(good - bad) > step:
            middle = (good + bad) // 2 // step * step
            if middle in (good, bad):
                break
            tried = {**changes, option: middle}
            good, bad = (middle, bad) if self.passing(tried) else (good, middle)
        return {**changes, option: good}

    def fix(self, changes: Options) -> FixAnswer:
        """The changes, and the quantities of the missed limits with them."""
        found = self.passing(changes)
        assert found is not None and found.result is not None  # what `first` and `refined` return passed
        changed = [*self._options(changes), *self._sizes(found.result)]
        return FixAnswer(
            text=", ".join(f"{change.option} {change.from_} -> {change.to}" for change in changed),
            changes=changed,
            values=[
                QuantityValue(quantity=r.quantity, value=r.value, unit=r.unit)
                for r in found.requirements
                if (r.file, r.line, r.written) in self.limits and not isinstance(r.value, bool)
            ],
        )

    def _options(self, changes: Options) -> list[OptionChange]:
        """Options that are no part of the layout: formats and the batch."""
        work = self.result.workload
        before = {
            "kv-dtype": work.kv_dtype,
            "dtype": work.dtype,
            "weight-dtype": self.case.options.get("weight-dtype", work.dtype),
            "batch": int(work.batch if work.batch is not None else work.train_batch or 1),
        }
        return [OptionChange(option=k, from_=old, to=changes[k]) for k, old in before.items() if k in changes]

    def _sizes(self, after: EstimateAnswer) -> list[OptionChange]:
        """The sizes that differ, of the first phase whose layout does."""
        for phase, before in self.result.phases.items():
            old, new = before.layout_of_phase, after.phases[phase].layout_of_phase
            sizes = [(k, getattr(old, k), getattr(new, k)) for k in _SIZES]
            changed = [OptionChange(option=k.replace("_", "-"), from_=a, to=b) for k, a, b in sizes if a != b]
            if changed:
                return changed
        return []
