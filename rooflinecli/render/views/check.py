"""Verdicts of `roofline check`: the page, and the sentences that every format of CI shares."""

from __future__ import annotations

from collections.abc import Sequence

from rooflinecli.core.text import plural
from rooflinecli.questions.check import question as types
from rooflinecli.questions.check.answer import UNSEARCHED
from rooflinecli.questions.check.question import FAIL, INCONCLUSIVE, PASS
from rooflinecli.render import numbers
from rooflinecli.render.blocks import Block, Column, Headline, Page, Prose, page, records
from rooflinecli.render.numbers import percent, text

_COLUMNS = (
    Column("verdict", "verdict", text=True),
    Column("quantity", "quantity", text=True),
    Column("value", lambda row: _value(row)),
    Column("required", "written", text=True),
    Column("margin", lambda row: margin_text(row).replace("over by ", "-").removeprefix("margin ")),
)
_MORE = (
    Column("quantity", "quantity", text=True),
    Column("80% interval", lambda row: _interval(row)),
    Column("expected", lambda row: _expected(row)),
    Column("verdict at expected", lambda row: "" if row.interval is None else row.verdict_at_expected, text=True),
)


def view(answer: types.CheckAnswer) -> Page:
    """The summary, a table for every case, and what changed since the baseline."""
    changes: list[Block] = []
    if answer.changes is not None and answer.tolerance is not None:
        beyond = f"{len(answer.changes)} changed since the baseline by more than {percent(answer.tolerance)}"
        changes = [
            Prose(beyond + (":" if answer.changes else "")),
            *(Prose(f"- {change_text(c)}", 2) for c in answer.changes),
        ]
    return page(
        [Headline(summary(answer))],
        *(_case(c, c.verdict != PASS) for c in answer.checks),
        changes,
        details=[_case(c, c.verdict == PASS, _MORE) for c in answer.checks],
        about="intervals, and the requirements of checks that pass",
    )


def _case(case: types.CaseAnswer, whole: bool, more: Sequence[Column] = ()) -> list[Block]:
    """A case in a line, with its requirements where the `whole` of it is wanted, and with the columns of the details."""
    tight = next((row for row in case.requirements if row.quantity == case.binding), None)
    binding = ""
    if tight is not None and not whole and not isinstance(tight.limit, (bool, str)):
        said = f"{_value(tight)}, required {tight.written}"
        binding = f"; binding: {tight.quantity} {said}{f', {margin_text(tight)}' if tight.margin is not None else ''}"
    blocks: list[Block] = [
        Prose(
            f"{case.verdict.upper()} {case.name}: {subject(case)} ({case.file}:{case.line}){binding}",
            2,
            "red" if case.verdict == FAIL else "",
        )
    ]
    between: list[Block] = [records(more, case.requirements, indent=2)] if more and case.requirements else []
    if not whole:
        return [*blocks, *between]
    if case.description:
        blocks.append(Prose(" ".join(case.description.split())))
    if case.requirements:
        blocks += [records(_COLUMNS, case.requirements, indent=2), *between]
    for row in case.requirements:
        reasons = [row.reason or ("" if row.verdict == PASS else row.explanation)]
        blocks += [Prose(f"{row.quantity}: {reason}", 2) for reason in reasons if reason]
    return [*blocks, Prose(fixes_text(case), 2)] if case.verdict != PASS else blocks


def _value(row: types.RequirementAnswer) -> str:
    """The value; of a fraction within a point of its limit hundredths too: 98.83% is no 99%."""
    near = row.unit == "fraction" and row.margin is not None and abs(row.value - row.limit) < 0.01  # type: ignore[operator]
    return f"{row.value:.2%}" if near else text(row.value, row.quantity)


def _interval(row: types.RequirementAnswer) -> str:
    return "" if row.interval is None else numbers.interval(*row.interval, row.unit)


def _expected(row: types.RequirementAnswer) -> str:
    return "" if row.interval is None else text(row.expected, row.quantity)


def margin_text(row: types.RequirementAnswer) -> str:
    """'margin 12%' or 'over by 3 pp', empty where the limit is no amount."""
    if row.margin is None or isinstance(row.limit, str):
        return ""
    size = abs(row.margin)
    amount = (
        f"{100 * size * row.limit:.1f} pp"
        if row.unit == "fraction"
        else percent(size)
        if size < 10
        else f"{size:,.0f}x"
    )
    return f"margin {amount}" if row.margin >= 0 else f"over by {amount}"


def sentence(case: types.CaseAnswer, row: types.RequirementAnswer) -> str:
    """One requirement in full, for an annotation: verdict, value, limit, margin, reason, and the fix."""
    if row.implied:
        head = f"{case.name}: the plan does not fit"
    else:
        bound = "" if row.interval is None else f" at the {row.value_bound} bound"
        head = f"{case.name}: {row.quantity} is {_value(row)}{bound}, required {row.written}"
    other = f" ({row.verdict_at_expected})" if row.verdict_at_expected != row.verdict else ""
    ends = [] if row.interval is None else [f"80% interval {_interval(row)}", f"expected {_expected(row)}{other}"]
    shown = "; ".join(filter(None, [margin_text(row), *ends]))
    parts = [head + (f" ({shown})" if shown else ""), row.reason]
    if row.verdict != PASS:
        parts += [row.explanation, fixes_text(case)]
    return ". ".join(filter(None, parts))


def fixes_text(case: types.CaseAnswer) -> str:
    """The nearest changes that pass, in one line; empty for a case that passes."""
    if case.verdict == PASS:
        return ""
    if unsearched := [row.quantity for row in case.requirements if row.quantity.startswith(UNSEARCHED)]:
        return f"no fixes are searched for a check that limits {' and '.join(unsearched)}"
    if case.fixes is None:
        return "fix search was disabled or ran out of estimates; raise --fix-budget"
    if not case.fixes:
        return "no passing change found (layout, formats, batch, up to 16x the devices, and pairs)"
    values = (", ".join(f"{v.quantity} {text(v.value, v.quantity)}" for v in fix.values) for fix in case.fixes)
    return "passes with: " + "; or ".join(
        f"{f.text} ({v})" if v else f.text for f, v in zip(case.fixes, values, strict=True)
    )


def subject(case: types.CaseAnswer) -> str:
    """Model, hardware and layout in a few words."""
    if case.model is None:
        return case.problem or f"the fleet of {case.options['fleet']}"
    layouts = list(case.layout.values())
    devices = numbers.devices(layouts[0]) if all(other == layouts[0] for other in layouts) else ""
    return f"{case.model} on {case.hardware}" + (f", {devices}" if devices else "")


def findings(answer: types.CheckAnswer) -> list[tuple[types.CaseAnswer, types.RequirementAnswer]]:
    """Every requirement that did not pass, with its case."""
    return [(case, row) for case in answer.checks for row in rows(case) if row.verdict != PASS]


def rows(case: types.CaseAnswer) -> list[types.RequirementAnswer]:
    """The requirements; for a case that no device count fits, that it must fit."""
    feasible = types.RequirementAnswer(
        quantity="feasible", file=case.file, line=case.line, written="true", comparison="==", limit=True, unit="", value=False,
        value_bound="expected", expected=False, floor=None, interval=None, verdict=FAIL, verdict_at_expected=FAIL, margin=None,
        explanation="", reason=case.problem, implied=True,
    )  # fmt: skip
    return case.requirements or [feasible]


def summary(answer: types.CheckAnswer) -> str:
    """'5 checks: 4 pass, 1 fail; the plan fails at the pessimistic bound'."""
    counts = ((answer.summary.pass_, PASS), (answer.summary.fail, FAIL), (answer.summary.inconclusive, INCONCLUSIVE))
    verdicts = ", ".join(f"{count} {verdict}" for count, verdict in counts if count or verdict == PASS)
    bounds = " and ".join(dict.fromkeys(case.bound for case in answer.checks))
    outcome = "passes" if answer.passed else "fails"
    return f"{plural(answer.summary.checks, 'check')}: {verdicts}; the plan {outcome} at the {bounds} bound{'s' if ' and ' in bounds else ''}"


def change_text(change: types.Change) -> str:
    """One change since the baseline."""
    before, now = change.before, change.now
    if change.what == "check":
        return f"{change.check}: {'new' if before is None else 'removed'}"
    if isinstance(before, dict) and isinstance(now, dict):
        before, now = (
            ", ".join(f"{phase} {numbers.devices(sizes)}" for phase, sizes in layout.items()) or "none"
            for layout in (before, now)
        )
    fraction = f" ({change.change:+.1%})" if change.change is not None else ""
    return f"{change.check}: {change.what} {text(before, change.what)} -> {text(now, change.what)}{fraction}"


def level(answer: types.CheckAnswer, verdict: str) -> str:
    """error or warning, for formats that know the two."""
    return "warning" if verdict == INCONCLUSIVE and answer.on_inconclusive == "warn" else "error"
