"""`roofline check`: plan files and settings in, the verdict of every case out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError, RooflineError, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import Json
from rooflinecli.engine.phase_answer import LayoutAnswer
from rooflinecli.importers.source import Options
from rooflinecli.questions.check.cases import FLEET, CheckCase, load
from rooflinecli.questions.check.question import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    CaseAnswer,
    Change,
    CheckAnswer,
    CheckSummary,
    FixAnswer,
    Sizes,
    Value,
)
from rooflinecli.questions.check.run import LAYOUT, MEASURED, SIMULATED, Estimator, Measured, Outcome, outcome
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.layout import AXES
from rooflinecli.specs.name_lookup import display_path

if TYPE_CHECKING:
    from rooflinecli.questions.check.question import Check


SCHEMAS = ("roofline/check/2", "roofline/check/1")


@dataclass(frozen=True)
class SavedCase:
    """What a saved report says of a case: its verdict, its layouts and the expected value of every requirement."""

    verdict: str
    layout: dict[str, Sizes]
    expected: dict[str, Value]


def saved(path: Path) -> dict[str, SavedCase]:
    """The cases of a report saved by --write-baseline or --format json, by file and name. Raises DataError for anything else."""
    at = f"{display_path(path)}:1"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["schema"] in SCHEMAS:
            return {
                f"{case['file']}: {case['name']}": SavedCase(
                    INCONCLUSIVE if case["verdict"] == "unsure" else case["verdict"],
                    case["layout"],
                    {row["quantity"]: row["expected"] for row in case["requirements"]},
                )
                for case in report["checks"]
            }
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such baseline; create it with `roofline check … --write-baseline {path}`"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a readable baseline") from None
    except RecursionError:
        raise DataError(f"{at}: not a valid report (nesting too deep); recreate it with --write-baseline") from None
    except (KeyError, TypeError, AttributeError):
        pass
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise DataError(f"{display_path(path)}:{line}: not valid JSON; recreate it with --write-baseline") from None
    raise DataError(f"{at}: not a report of `roofline check` ({SCHEMAS[0]}); recreate it with --write-baseline")


def changes(before: dict[str, SavedCase], answer: CheckAnswer, tolerance: float) -> list[Change]:
    """Verdicts, layouts and quantities that changed, and checks that were added or removed, in the order of the answer."""
    found: list[Change] = []
    now = {f"{case.file}: {case.name}": case for case in answer.checks}
    for name, case in now.items():
        old = before.get(name)
        if old is None:
            found.append(Change(check=name, what="check", before=None, now=case.verdict))
            continue
        if old.verdict != case.verdict:
            found.append(Change(check=name, what="verdict", before=old.verdict, now=case.verdict))
        if old.layout != case.layout:
            found.append(Change(check=name, what="layout", before=old.layout, now=case.layout))
        for row in case.requirements:
            was = old.expected.get(row.quantity, row.expected)
            moved = relative(was, row.expected)
            if was != row.expected and (moved is None or abs(moved) > tolerance):
                found.append(
                    Change(check=name, what=row.quantity, before=was, now=row.expected, unit=row.unit, change=moved)
                )
    removed = (name for name in before if name not in now)
    return found + [Change(check=name, what="check", before=before[name].verdict, now=None) for name in removed]


def relative(old: Value, new: Value) -> float | None:
    """The change as a fraction of the old value; None when there is none."""
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and old and not isinstance(old, bool):
        return float((new - old) / abs(old))
    return None


EFFORT = 300  # estimates of a run by default: those of its checks, and what is left for the fix search
_SIZES = ("devices", *AXES, "zero", "micro_batch", "virtual_stages", "recompute")


def check(q: Check, measured: Measured | None = None) -> CheckAnswer:
    """The verdicts; `measured` reads the measured files that checks name.

    Raises DataError with file:line for an invalid plan, UsageError for a pattern that matches no check.
    """
    before = None if q.baseline is None else saved(Path(q.baseline))
    cases: list[CheckCase] = []
    policies = []
    for path in dict.fromkeys(Path(plan) for plan in q.plan):
        found, plan = load(path, q.bound)
        cases += found
        policies.append(plan.unsure)
    if q.only is not None:
        pattern = q.only
        cases = [c for c in cases if any(fnmatchcase(name, pattern) for name in (c.name, c.name.partition("[")[0]))]
        if not cases:
            raise UsageError(f"--only {pattern}: no check has such a name; quote a pattern such as 'chat*'")
    policy = q.on_inconclusive or ("fail" if "fail" in policies else "warn")
    estimator = Estimator(measured)
    outcomes = [outcome(case, estimator) for case in cases]
    budget = Budget(q.fix_budget if q.fix_budget is not None else max(EFFORT - len(cases), EFFORT // 5))
    suggested = fixes(outcomes, estimator, budget)
    verdicts = [o.verdict for o in outcomes]
    answer = CheckAnswer(
        passed=FAIL not in verdicts and (policy == "warn" or INCONCLUSIVE not in verdicts),
        unsure=policy,
        summary=CheckSummary(
            checks=len(outcomes),
            requirements=sum(len(o.requirements) for o in outcomes),
            pass_=verdicts.count(PASS),
            fail=verdicts.count(FAIL),
            inconclusive=verdicts.count(INCONCLUSIVE),
        ),
        checks=[_case(*pair) for pair in zip(outcomes, suggested, strict=True)],
    )
    if before is not None:
        answer.moved, answer.tolerance = changes(before, answer, q.tolerance), q.tolerance
        answer.passed = answer.passed and not (answer.moved and q.on_change == "fail")
    return answer


def _case(outcome: Outcome, suggested: list[FixAnswer] | None) -> CaseAnswer:
    case, result = outcome.case, outcome.result
    # the requirement that decides: the one missed by most, else the one with the smallest margin
    deciding = min(
        (r for r in outcome.requirements if r.verdict == outcome.verdict),
        key=lambda r: (r.margin is not None or outcome.verdict == PASS, 1e300 if r.margin is None else r.margin),
        default=None,
    )
    return CaseAnswer.like(
        case,
        verdict=outcome.verdict,
        verdict_at_expected=outcome.at_expected,
        model=result.model.name if result else None,
        hardware=result.hardware.name if result else None,
        layout={
            name: {size: getattr(phase.layout_of_phase, size) for size in _SIZES}
            for name, phase in (result.phases.items() if result else ())
        },
        options={k: v for k, v in case.options.items() if k not in ("model", "hw")},
        binding=deciding.quantity if deciding else None,
        problem=outcome.problem,
        requirements=list(outcome.requirements),
        fixes=suggested,
    )


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
_MOVED = tuple(size for size in _SIZES if size not in ("cp", "ep"))


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
            text=", ".join(f"{change['option']} {change['from']} -> {change['to']}" for change in changed),
            changes=changed,
            values=[
                {"quantity": r.quantity, "value": r.value, "unit": r.unit}
                for r in found.requirements
                if (r.file, r.line, r.written) in self.limits and not isinstance(r.value, bool)
            ],
        )

    def _options(self, changes: Options) -> list[Json]:
        """Options that are no part of the layout: formats and the batch."""
        work = self.result.workload
        before = {
            "kv-dtype": work.kv_dtype,
            "dtype": work.dtype,
            "weight-dtype": self.case.options.get("weight-dtype", work.dtype),
            "batch": int(work.batch if work.batch is not None else work.train_batch or 1),
        }
        return [{"option": k, "from": old, "to": changes[k]} for k, old in before.items() if k in changes]

    def _sizes(self, after: EstimateAnswer) -> list[Json]:
        """The sizes that differ, of the first phase whose layout does."""
        for phase, before in self.result.phases.items():
            old, new = before.layout_of_phase, after.phases[phase].layout_of_phase
            sizes = [(k, getattr(old, k), getattr(new, k)) for k in _MOVED]
            changed = [{"option": k.replace("_", "-"), "from": a, "to": b} for k, a, b in sizes if a != b]
            if changed:
                return changed
        return []
