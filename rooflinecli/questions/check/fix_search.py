"""The nearest change that lets a missed check pass, found by further estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from rooflinecli.core.errors import RooflineError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.importers.source import Options
from rooflinecli.questions.check.candidate_changes import moves, pairs
from rooflinecli.questions.check.fleet_quantities import FLEET
from rooflinecli.questions.check.question import PASS, OptionChange
from rooflinecli.questions.check.run import LAYOUT, MEASURED, SIMULATED, Estimator, Outcome, outcome
from rooflinecli.questions.estimate.answer_types import EstimateAnswer

ALTERNATIVES = 3
TRAINING = 5
_FINER = {"batch": 1, "devices": 16}
_SIZES = ("devices", "tp", "pp", "dp", "zero", "micro_batch", "virtual_stages", "recompute")


@dataclass(frozen=True)
class SuggestedFix:
    """Changes that pass, and the outcome with them."""

    changes: tuple[OptionChange, ...]
    outcome: Outcome


class Budget:
    """How many estimates a whole search may take; a training one, whose layout is chosen among dozens, counts as several.

    Counted and not timed, so that the same plan gets the same answer on every machine.
    """

    def __init__(self, left: int):
        self.left = left

    def spend(self, cost: int) -> None:
        if self.left < cost:
            raise BudgetExhausted
        self.left -= cost


class BudgetExhausted(Exception):
    """The budget of a search is used up."""


def fixes(outcomes: list[Outcome], estimator: Estimator, budget: Budget) -> list[list[SuggestedFix] | None]:
    """Per outcome up to three fixes, nearest first: one kind of change each, or a pair when no single kind is enough.

    None for a check that passes, and where the budget ran out first. Pairs wait until every check had its single changes.
    """
    found: list[list[SuggestedFix] | None] = [None] * len(outcomes)
    for step in (_singles, _pair):
        for i, missed in enumerate(outcomes):
            if any(r.quantity.startswith((SIMULATED, LAYOUT, MEASURED, FLEET)) for r in missed.case.requirements):
                continue  # a simulation, a fleet or a search per candidate would take minutes, and measurements do not change
            if missed.verdict != PASS and (found[i] == [] or step is _singles):
                found[i] = _within(step, missed, estimator, budget)
    return found


def _within(
    step: Callable[[_Search], Iterator[SuggestedFix]], missed: Outcome, estimator: Estimator, budget: Budget
) -> list[SuggestedFix] | None:
    """The fixes of one step; those found before the budget ran out are kept."""
    if missed.result is None:
        return []
    found: list[SuggestedFix] = []
    try:
        for fix in islice(step(_Search(missed, missed.result, estimator, budget)), ALTERNATIVES):
            found.append(fix)  # one by one, since BudgetExhausted must not lose those before it
    except BudgetExhausted:
        return found or None
    return found


def _singles(search: _Search) -> Iterator[SuggestedFix]:
    for kind, candidates in search.kinds.items():
        changes = search.first(candidates)
        if changes is not None:
            yield search.fix(search.refined(kind, changes))


def _pair(search: _Search) -> Iterator[SuggestedFix]:
    changes = search.first(pairs(search.kinds))
    if changes is not None:
        yield search.fix(changes)


class _Search:
    """The missed check, and estimating it again with some of its options changed."""

    def __init__(self, missed: Outcome, result: EstimateAnswer, estimator: Estimator, budget: Budget):
        self.case, self.result, self.estimator, self.budget = missed.case, result, estimator, budget
        self.kinds = moves(self.case.options, result)

    def passing(self, changes: Options) -> Outcome | None:
        options = {k: v for k, v in {**self.case.options, **changes}.items() if v is not None}
        if not self.estimator.knows(options):
            self.budget.spend(TRAINING if "train" in self.result.phases else 1)
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

    def fix(self, changes: Options) -> SuggestedFix:
        found = self.passing(changes)
        assert found is not None and found.result is not None  # what `first` and `refined` return passed
        return SuggestedFix((*self._options(changes), *self._sizes(found.result)), found)

    def _options(self, changes: Options) -> list[OptionChange]:
        """Options that are no part of the layout: formats and the batch."""
        work = self.result.workload
        before = {
            "kv-dtype": work.kv_dtype,
            "dtype": work.dtype,
            "weight-dtype": self.case.options.get("weight-dtype", work.dtype),
            "batch": int(work.batch if work.batch is not None else work.train_batch),
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
