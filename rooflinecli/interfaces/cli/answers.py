"""Verbs whose answer is printed by a view: decisions, calculators, operations, profiles; a row of VERBS says what is their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from rooflinecli.core.errors import Infeasible
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import TracedLift
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.cli.from_question import Delivery, Explained, Parallel, Plotted, Study, add, command, show
from rooflinecli.interfaces.cli.main import PlainGroup, application
from rooflinecli.interfaces.cli.output import INTERRUPTED, Progress, counting, write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Option, OptText, Switch, Whole, field

if TYPE_CHECKING:
    from rooflinecli.core.record import Record
    from rooflinecli.questions.compare.question import Compare
    from rooflinecli.questions.formula.question import FormulaQuestion
    from rooflinecli.questions.plan.question import Plan, PlanAnswer
    from rooflinecli.questions.rl.answer_types import RlAnswer
    from rooflinecli.questions.rl.question import Rl
    from rooflinecli.questions.search.question import Search, SearchAnswer

Q = TypeVar("Q", "Search", "Compare")


def plotted(delivery: type[Delivery], without: tuple[str, ...] = ()) -> type[Delivery]:
    """A delivery with a picture of the answer; `without` some of its fields."""
    return type(f"Plotted{delivery.__name__}", (Plotted, delivery), {"without": frozenset(without)})


class Launched(Delivery):
    """An answer, or the launch of its layout."""

    # fmt: off
    emit: OptText = field("free", "Print the launch of this layout instead: verl or nemo-rl.", default=None, metavar="TOOL")
    # fmt: on


class Derived(Delivery):
    """A delivery that may be the derivation of the value instead."""

    # fmt: off
    explain: Switch = field("switch", "Show how the value follows from the arguments.", default=False)
    depth: Option = field("count", "Levels of an explanation.", default=3, least=0)
    # fmt: on


class Top(Explained):
    """A table of the kernels that take longest, or the derivation of one quantity."""

    # fmt: off
    top: Whole = field("whole", "Kernels to list.", default=15)
    # fmt: on


def _search(question: Search, how: Study) -> SearchAnswer:
    with Progress(unit="layouts") as bar:
        answer = _without_sensitivity(question, how).answer(bar.advance, how.workers(question))
    if answer.interrupted:
        print(f"interrupted: {answer.layouts:,} layouts were searched", file=sys.stderr)
    return answer


def _rl(question: Rl, how: Delivery) -> RlAnswer:
    """A step, or the best of its layouts, and changes of it, which this process tries alone."""
    tried = [unit for unit, asked in (("layouts", question.search), ("changes", question.changes)) if asked]
    with Progress(unit=" and ".join(tried) or "layouts") as bar:
        return question.answer(bar.advance)


def _plan(question: Plan, how: Parallel) -> PlanAnswer:
    chips = ",".join(question.hw).count(",") + 1
    with Progress(unit="layouts") as bar:

        def searched(layouts: int, planned: int) -> None:
            bar.unit = f"layouts, {planned} of {chips} chips"
            bar.add(layouts)

        answer = question.answer(searched, how.workers(question))
    if answer.interrupted:
        print(f"interrupted: {len(answer.rows)} of {chips} chips were planned", file=sys.stderr)
    return answer


def _compare(question: Compare, how: Delivery) -> Record:
    """The comparison, or measured rows next to the estimate on one chip."""
    return verbs.compared(_without_sensitivity(question, how))


def _without_sensitivity(question: Q, how: Delivery) -> Q:
    if not question.sensitivity or how.format != "csv":
        return question
    from rooflinecli.engine.build_request import warn

    warn("--sensitivity has no place in csv, which holds the rows alone; table, markdown and json have it")
    return question.replace(sensitivity=None)


def _formula(question: FormulaQuestion, how: Derived) -> None:
    found = question.answer(evaluated=how.explain)
    if how.explain and question.name is not None:
        from rooflinecli.core.derivation_text import explain

        write(explain(found["value"], int(how.depth)), None if how.out is None else Path(how.out))
    else:
        show(found, "calculators.formula", how, table="" if question.name else "formulas")


@dataclass(frozen=True)
class Verb:
    """The view of an answer in render/views, the list that CSV has as rows, how the answer goes out and how it is made.

    help: of a verb with sub-commands, one for each of the module's QUESTIONS; former: their names of earlier releases;
    best: the command of the first row, or the nearest miss, whose limits and changes to try the view shows; devices_chosen: whether an
    answer with rows has chosen its devices, so that more of them are no change to try.
    """

    view: str
    table: str = ""
    delivery: type[Delivery] = Explained
    answer: Callable[[Any, Any], Any] = lambda question, how: question.answer()
    help: str = ""
    former: tuple[tuple[str, str], ...] = ()
    best: Callable[[Any], str] | None = None
    devices_chosen: bool = False

    def first(self, answer: Any) -> dict[str, object]:
        """The estimate of the first row with the changes to try, as the view takes it."""
        if self.best is None:
            return {}
        from rooflinecli.questions.estimate.changes_to_try import of_command

        miss = getattr(answer, "nearest_miss", None)
        short_of_devices = miss is not None and miss.missing_requests_per_s is not None
        chosen = self.devices_chosen and (bool(getattr(answer, self.table)) or short_of_devices)
        return {"estimate": of_command(self.best(answer), not chosen)}


VERBS = {
    "search": Verb(
        "search",
        "results",
        plotted(Study),
        _search,
        best=lambda a: next((row.estimate or row.command for row in (*a.results, a.nearest_miss) if row), ""),
        devices_chosen=True,
    ),
    "plan": Verb(
        "plan",
        "rows",
        plotted(Parallel),
        _plan,
        best=lambda a: next((row.command for row in a.sized), ""),
        devices_chosen=True,
    ),
    "fleet": Verb("plan.fleet", "rows", Study, lambda q, how: q.answer(counting(how.workers(q), "models on groups"))),
    "compare": Verb(
        "compare", "rows", plotted(Delivery), _compare, best=lambda a: next((row.command for row in a.ranked), "")
    ),
    "fit": Verb("calculators.fit", "files", Delivery, best=lambda a: a.command or ""),
    "ops": Verb("ops", "rows", plotted(Delivery)),
    "rl": Verb("rl", "rows", Launched, _rl),
    "profile": Verb("profile", "kernels", Top),
    "collective": Verb("calculators.collective"),
    "goodput": Verb("calculators.goodput"),
    "partitioning": Verb("calculators.partitioning"),
    "shard": Verb("calculators.shard"),
    "speculate": Verb("calculators.quantities"),
    "formula": Verb("calculators.formula", delivery=Derived),
    "aot": Verb("ops.compiled", "rows", plotted(Delivery, ("schema",))),
    "kernel": Verb("calculators.kernel", help="One operation on the roofline.", former=(("grouped", "grouped-gemm"),)),
    "occupancy": Verb(
        "calculators.quantities", help="How full a GPU's multiprocessor (sm) or a systolic array (systolic) is."
    ),
    "scaling": Verb(
        "calculators.quantities", help="Scaling laws and training runs: how large, how long, what batch, what it costs."
    ),
    "serving": Verb(
        "calculators.quantities",
        help="Serving arithmetic: cost per token, break-even, batching, beams, prefix caches, prefill and decode pools, quantization.",
        former=(("quantise", "quantize"),),
    ),
}
# answers of another kind than their verb's -> their view and rows
OTHERS = {"MeasuredAnswer": ("compare.measured", "rows"), "TraceComparison": ("profile.against", "rows")}


def app(verb: str) -> typer.Typer:
    """The application of a verb."""
    one = VERBS[verb]
    if not one.help:
        return command(verbs.question(verb), _formula if verb == "formula" else _run(one), one.delivery)
    found = application(cls=PlainGroup, no_args_is_help=True, help=one.help)
    for question in verbs.several(verb):
        name = question.verb.partition(" ")[2]
        add(found, question, _run(one), one.delivery, name)
        for old in (old for old, new in one.former if new == name):
            add(found, question, _run(one), one.delivery, old, hidden=True)
    return found


def _run(verb: Verb) -> Callable[[Any, Any], int]:
    """The run of a question: its answer printed, one of its quantities explained, or its launch; the exit code is 1 where nothing is feasible."""

    def run(question: Question[Any], how: Any) -> int:
        out = None if how.out is None else Path(how.out)
        if isinstance(how, Explained) and how.explain is not None:
            from rooflinecli.core.derivation_text import derivation, explain

            lift = TracedLift()
            answer = question.lifted(lift).answer(lift)  # type: ignore[call-arg]
            write(explain(derivation(answer, how.explain), int(how.depth)), out)
            return 0
        if isinstance(how, Launched) and how.emit is not None:
            write(question.launch(how.emit), out)  # type: ignore[attr-defined]
            return 0
        answer = verb.answer(question, how)
        view, table = OTHERS.get(type(answer).__name__, (verb.view, verb.table))
        shown: dict[str, object] = {"top": how.top} if isinstance(how, Top) else {}
        if view == verb.view and how.format not in ("json", "csv"):
            shown |= verb.first(answer)
        show(answer, view, how, table=table, **shown)
        if getattr(answer, "interrupted", False):
            return INTERRUPTED
        problem = question.infeasible(answer)
        if problem:
            raise Infeasible(problem)
        return int(getattr(answer, "feasible", None) is False)

    return run
