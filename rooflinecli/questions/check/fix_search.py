"""The nearest change that lets a missed check pass: found by asking the estimate again, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from rooflinecli.core.errors import RooflineError
from rooflinecli.questions.check.candidate_changes import Options, moves, pairs
from rooflinecli.questions.check.fleet_quantities import FLEET
from rooflinecli.questions.check.run import LAYOUT, MEASURED, SIMULATED, Estimator, Outcome, outcome
from rooflinecli.questions.check.verdict import PASS
from rooflinecli.questions.estimate.answer_types import EstimateAnswer

ALTERNATIVES = 3
TRAINING = 5
_FINER = {"batch": 1, "devices": 16}
_PLAN = ("devices", "tp", "pp", "dp", "zero", "micro_batch", "virtual_stages", "recompute")


@dataclass(frozen=True)
class SuggestedFix:
    """Options that pass, and what of the plan they change: name, before, after."""

    options: Options
    changes: tuple[tuple[str, Any, Any], ...]
    outcome: Outcome

    @property
    def text(self) -> str:
        return ", ".join(f"{name} {before} -> {after}" for name, before, after in self.changes)


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


def remedies(outcomes: list[Outcome], answer: Estimator, budget: Budget) -> list[list[SuggestedFix] | None]:
    """Per outcome up to three ways to pass, nearest first: one kind of change each, or a pair when no single kind is enough.

    None for a check that passes, and where the budget ran out first. Pairs wait until every check had its single changes.
    """
    found: list[list[SuggestedFix] | None] = [None] * len(outcomes)
    for step in (_singles, _pair):
        for i, missed in enumerate(outcomes):
            if any(r.quantity.startswith((SIMULATED, LAYOUT, MEASURED, FLEET)) for r in missed.case.requirements):
                continue  # a simulation, a fleet or a search per candidate would take minutes, and what was measured stays
            if missed.verdict != PASS and (found[i] == [] or step is _singles):
                found[i] = _within(step, missed, answer, budget)
    return found


def _within(
    step: Callable[[_Search], Iterator[SuggestedFix]], missed: Outcome, answer: Estimator, budget: Budget
) -> list[SuggestedFix] | None:
    """What one step finds; what it found before the budget ran out is kept."""
    if missed.result is None:
        return []
    found: list[SuggestedFix] = []
    try:
        for remedy in islice(step(_Search(missed, missed.result, answer, budget)), ALTERNATIVES):
            found.append(remedy)  # one by one, since Spent must not lose those before it
    except BudgetExhausted:
        return found or None
    return found


def _singles(search: _Search) -> Iterator[SuggestedFix]:
    for kind, candidates in search.kinds.items():
        changes = search.first(candidates)
        if changes is not None:
            yield search.remedy(search.refined(kind, changes))


def _pair(search: _Search) -> Iterator[SuggestedFix]:
    changes = search.first(pairs(search.kinds))
    if changes is not None:
        yield search.remedy(changes)


class _Search:
    """The missed check, and asking again with some of its options changed."""

    def __init__(self, missed: Outcome, result: EstimateAnswer, answer: Estimator, budget: Budget):
        self.case, self.result, self.answer, self.budget = missed.case, result, answer, budget
        self.kinds = moves(self.case.options, result)

    def passing(self, changes: Options) -> Outcome | None:
        options = {k: v for k, v in {**self.case.options, **changes}.items() if v is not None}
        if not self.answer.knows(options):
            self.budget.spend(TRAINING if "train" in self.result.phases else 1)
        try:
            found = outcome(replace(self.case, options=options), self.answer)
        except RooflineError:
            return None
        return found if found.verdict == PASS else None

    def first(self, candidates: Iterable[Options]) -> Options | None:
        return next((changes for changes in candidates if self.passing(changes)), None)

    def refined(self, kind: str, changes: Options) -> Options:
        """The smallest such change that still passes, by bisection toward what the plan has now."""
        training = "train" in self.result.phases
        option = {"batch": None if training else "batch", "devices": "n" if training else None}.get(kind)
        if option is None:
            return changes
        good, bad = int(changes[option]), int(self._now(kind))
        step = max(good // _FINER[kind], 1) if kind == "devices" else 1
        while abs(good - bad) > step:
            middle = (good + bad) // 2 // step * step
            if middle in (good, bad):
                break
            tried = {**changes, option: middle}
            good, bad = (middle, bad) if self.passing(tried) else (good, middle)
        return {**changes, option: good}

    def _now(self, kind: str) -> float:
        return float(
            self.result.workload.batch if kind == "batch" else self.result.phases["train"].layout_of_phase.devices
        )

    def remedy(self, changes: Options) -> SuggestedFix:
        found = self.passing(changes)
        assert found is not None and found.result is not None  # what `first` and `refined` return passed
        return SuggestedFix(found.case.options, (*self._words(changes), *self._sizes(found.result)), found)

    def _words(self, changes: Options) -> list[tuple[str, Any, Any]]:
        """Options that are no part of the plan: formats and the batch."""
        work = self.result.workload
        before = {
            "kv-dtype": work.kv_dtype,
            "dtype": work.dtype,
            "weight-dtype": self.case.options.get("weight-dtype", work.dtype),
            "batch": int(work.batch if work.batch is not None else work.train_batch),
        }
        return [(name, old, changes[name]) for name, old in before.items() if name in changes]

    def _sizes(self, after: EstimateAnswer) -> list[tuple[str, Any, Any]]:
        """The plan sizes that differ, of the first phase whose plan does."""
        plans = [
            (old.layout_of_phase, after.phases[phase].layout_of_phase) for phase, old in self.result.phases.items()
        ]
        old, new = next(((a, b) for a, b in plans if any(getattr(a, k) != getattr(b, k) for k in _PLAN)), plans[0])
        return [
            (k.replace("_", "-"), getattr(old, k), getattr(new, k)) for k in _PLAN if getattr(old, k) != getattr(new, k)
        ]
