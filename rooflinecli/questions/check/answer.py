"""`roofline check`: plan files and settings in, the verdict of every case out."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError, RooflineError, UsageError
from rooflinecli.engine.phase_answer import LayoutAnswer
from rooflinecli.importers.source import Options
from rooflinecli.questions.check import question as types
from rooflinecli.questions.check.cases import FLEET, CheckCase, load
from rooflinecli.questions.check.question import FAIL, INCONCLUSIVE, PASS
from rooflinecli.questions.check.run import LAYOUT, MEASURED, SIMULATED, Estimator, Measured, Outcome, outcome
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.layout import AXES
from rooflinecli.specs.name_lookup import display_path

if TYPE_CHECKING:
    from rooflinecli.questions.check.question import Check


SCHEMAS = ("roofline/check/3", "roofline/check/2", "roofline/check/1")


Fact = types.Value | dict[str, types.Sizes]
Saved = dict[str, Fact]  # of a case: its verdict, its layouts, and the expected value of every requirement


def saved(path: Path) -> dict[str, Saved]:
    """The cases of a report saved by --write-baseline or --format json, by file and name. Raises DataError for anything else."""
    at = f"{display_path(path)}:1"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["schema"] in SCHEMAS:
            return {
                f"{case['file']}: {case['name']}": {
                    "verdict": INCONCLUSIVE if case["verdict"] == "unsure" else case["verdict"],
                    "layout": case["layout"],
                    **{row["quantity"]: row["expected"] for row in case["requirements"]},
                }
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


def changes(before: dict[str, Saved], answer: types.CheckAnswer, tolerance: float) -> list[types.Change]:
    """Verdicts, layouts and quantities that changed, and checks that were added or removed, in the order of the answer."""
    found: list[types.Change] = []
    now = {f"{case.file}: {case.name}": case for case in answer.checks}
    for name, case in now.items():
        old = before.get(name)
        if old is None:
            found.append(types.Change(check=name, what="check", before=None, now=case.verdict))
            continue
        facts: list[tuple[str, Fact, str]] = [("verdict", case.verdict, ""), ("layout", case.layout, "")]
        facts += [(row.quantity, row.expected, row.unit) for row in case.requirements]
        for what, value, unit in facts:
            was = old.get(what, value)
            change = relative(was, value)
            if was != value and (change is None or abs(change) > tolerance):
                found.append(types.Change(check=name, what=what, before=was, now=value, unit=unit, change=change))
    removed = (name for name in before if name not in now)
    return found + [
        types.Change(check=name, what="check", before=before[name]["verdict"], now=None) for name in removed
    ]


def relative(old: object, new: object) -> float | None:
    """The change as a fraction of the old value; None when there is none."""
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and old and not isinstance(old, bool):
        return float((new - old) / abs(old))
    return None


EFFORT = 300  # estimates of a run by default: those of its checks, and what is left for the fix search
_SIZES = ("devices", *AXES, "zero", "micro_batch", "virtual_stages", "recompute")


def check(q: Check, measured: Measured | None = None) -> types.CheckAnswer:
    """The verdicts; `measured` reads the measured files that checks name.

    Raises DataError with file:line for an invalid plan, UsageError for a pattern that matches no check.
    """
    before = None if q.baseline is None else saved(Path(q.baseline))
    cases: list[CheckCase] = []
    policies = []
    for path in dict.fromkeys(Path(plan) for plan in q.plan):
        found, plan = load(path, q.bound)
        cases += found
        policies.append(plan.on_inconclusive)
    if q.only is not None:
        pattern = q.only
        cases = [c for c in cases if any(fnmatchcase(name, pattern) for name in (c.name, c.name.partition("[")[0]))]
        if not cases:
            raise UsageError(f"--only {pattern}: no check has such a name; quote a pattern such as 'chat*'")
    policy = q.on_inconclusive or ("fail" if "fail" in policies else "warn")
    estimator = Estimator(measured)
    outcomes = [outcome(case, estimator) for case in cases]
    estimator.budget = q.fix_budget if q.fix_budget is not None else max(EFFORT - len(cases), EFFORT // 5)
    suggested = fixes(outcomes, estimator)
    verdicts = [o.verdict for o in outcomes]
    answer = types.CheckAnswer(
        passed=FAIL not in verdicts and (policy == "warn" or INCONCLUSIVE not in verdicts),
        on_inconclusive=policy,
        summary=types.CheckSummary(
            checks=len(outcomes),
            requirements=sum(len(o.requirements) for o in outcomes),
            pass_=verdicts.count(PASS),
            fail=verdicts.count(FAIL),
            inconclusive=verdicts.count(INCONCLUSIVE),
        ),
        checks=[_case(*pair) for pair in zip(outcomes, suggested, strict=True)],
    )
    if before is not None:
        answer.changes, answer.tolerance = changes(before, answer, q.tolerance), q.tolerance
        answer.passed = answer.passed and not (answer.changes and q.on_change == "fail")
    return answer


def _case(outcome: Outcome, suggested: list[types.FixAnswer] | None) -> types.CaseAnswer:
    case, result = outcome.case, outcome.result
    # the requirement that decides: the one missed by most, else the one with the smallest margin
    deciding = min(
        (r for r in outcome.requirements if r.verdict == outcome.verdict),
        key=lambda r: (r.margin is not None or outcome.verdict == PASS, 1e300 if r.margin is None else r.margin),
        default=None,
    )
    return types.CaseAnswer.like(
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


# limits without a search for fixes: a simulation, a fleet or a search per change would take minutes, and measurements do not change
UNSEARCHED = (SIMULATED, LAYOUT, MEASURED, FLEET)
ALTERNATIVES = 3
TRAINING = 5  # estimates that a training one counts as, whose layout is chosen among dozens
FINEST = 16  # parts of a device count to which a change of it is refined
_CHANGED = tuple(size for size in _SIZES if size not in ("cp", "ep"))


class BudgetExhausted(Exception):
    """The estimates that a search may take are used up."""


def fixes(outcomes: list[Outcome], estimator: Estimator) -> list[list[types.FixAnswer] | None]:
    """Per outcome up to three fixes, nearest first: one kind of change each, or a pair when no single kind is enough.

    None for a check that passes, and where the budget ran out first. Pairs wait until every check had its single changes.
    """
    found: list[list[types.FixAnswer] | None] = [None] * len(outcomes)
    for paired in (False, True):
        for i, missed in enumerate(outcomes):
            if any(r.quantity.startswith(UNSEARCHED) for r in missed.case.requirements):
                continue
            if missed.verdict != PASS and (found[i] == [] or not paired):
                search = None if missed.result is None else _Search(missed, missed.result, estimator)
                found[i] = [] if search is None else search.fixes(paired)
    return found


class _Search:
    """The missed check, and estimating it again with some of its options changed."""

    def __init__(self, missed: Outcome, result: EstimateAnswer, estimator: Estimator):
        self.case, self.result, self.estimator = missed.case, result, estimator
        self.kinds = moves(self.case.options, result)
        self.limits = {(r.file, r.line, r.written) for r in missed.requirements if r.verdict != PASS}

    def fixes(self, paired: bool) -> list[types.FixAnswer] | None:
        """Changes of one kind each, or the first pair; those found before the budget ran out are kept, None where it ran out first."""
        found: list[types.FixAnswer] = []
        try:
            for kind, candidates in ({"pair": pairs(self.kinds)} if paired else self.kinds).items():
                changes = next((c for c in candidates if self.passing(c)), None) if len(found) < ALTERNATIVES else None
                if changes is not None:
                    found.append(self.fix(self.refined(kind, changes)))
        except BudgetExhausted:
            return found or None
        return found

    def passing(self, changes: Options) -> Outcome | None:
        """The outcome with the changes where it passes. The budget is counted and not timed, so that every machine answers the same."""
        options = {k: v for k, v in {**self.case.options, **changes}.items() if v is not None}
        if not self.estimator.knows(options):
            cost = TRAINING if "train" in self.result.phases else 1
            if self.estimator.budget < cost:
                raise BudgetExhausted
            self.estimator.budget -= cost
        try:
            found = outcome(replace(self.case, options=options), self.estimator)
        except RooflineError:
            return None
        return found if found.verdict == PASS else None

    def refined(self, kind: str, changes: Options) -> Options:
        """The smallest such change that still passes, by bisection toward the plan as written."""
        training = "train" in self.result.phases
        option = {"batch": None if training else "batch", "devices": "n" if training else None}.get(kind)
        if option is None:
            return changes
        now = self.result.workload.batch if kind == "batch" else self.result.phases["train"].layout_of_phase.devices
        good, bad = int(changes[option]), int(now or 0)
        step = max(good // FINEST, 1) if kind == "devices" else 1
        while abs(good - bad) > step:
            middle = (good + bad) // 2 // step * step
            if middle in (good, bad):
                break
            tried = {**changes, option: middle}
            good, bad = (middle, bad) if self.passing(tried) else (good, middle)
        return {**changes, option: good}

    def fix(self, changes: Options) -> types.FixAnswer:
        """The changes, and the quantities of the missed limits with them."""
        found = self.passing(changes)
        assert found is not None and found.result is not None  # only changes that passed are refined and shown
        work = self.result.workload
        formats = {
            "kv-dtype": work.kv_dtype,
            "dtype": work.dtype,
            "weight-dtype": self.case.options.get("weight-dtype", work.dtype),
            "batch": int(work.batch if work.batch is not None else work.train_batch or 1),
        }
        changed = [types.FixedOption(option=k, from_=old, to=changes[k]) for k, old in formats.items() if k in changes]
        for phase, before in self.result.phases.items():  # the sizes of the first phase whose layout differs
            old, new = before.layout_of_phase, found.result.phases[phase].layout_of_phase
            moved = [(k, getattr(old, k), getattr(new, k)) for k in _CHANGED if getattr(old, k) != getattr(new, k)]
            if moved:
                changed += [types.FixedOption(option=k.replace("_", "-"), from_=a, to=b) for k, a, b in moved]
                break
        return types.FixAnswer(
            text=", ".join(f"{change.option} {change.from_} -> {change.to}" for change in changed),
            changes=changed,
            values=[
                types.FixedValue.like(r)
                for r in found.requirements
                if (r.file, r.line, r.written) in self.limits and not isinstance(r.value, bool)
            ],
        )
