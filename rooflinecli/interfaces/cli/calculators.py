"""The calculators: questions whose answer is arithmetic on their fields, one to a verb or one to a sub-command."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import typer

from rooflinecli.core.errors import Infeasible
from rooflinecli.core.lift import TracedLift
from rooflinecli.interfaces.cli.from_question import Explained, add, command
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import write
from rooflinecli.interfaces.cli.show import explained, show
from rooflinecli.questions.question import Question

# verb -> its question, and its view in render/views/calculators
ONE = {
    "collective": ("collective.question:Collective", "collective"),
    "goodput": ("goodput.question:TrainingGoodput", "goodput"),
    "partitioning": ("layouts.question:Partitioning", "partitioning"),
    "shard": ("shard.question:Shard", "shard"),
    "speculate": ("speculate.question:Speculate", "quantities"),
}
# verb with sub-commands -> its help, its view, and hidden names of earlier releases
SEVERAL: dict[str, tuple[str, str, dict[str, str]]] = {
    "kernel": ("One operation on the roofline.", "kernel", {"grouped": "grouped-gemm"}),
    "occupancy": ("How full a GPU's multiprocessor (sm) or a systolic array (systolic) is.", "quantities", {}),
    "scaling": (
        "Scaling laws and training runs: how large, how long, what batch, what it costs.",
        "quantities",
        {},
    ),
    "serving": (
        "Serving arithmetic: cost per token, break-even, batching, beams, prefix caches, prefill and decode pools, quantization.",
        "quantities",
        {"quantise": "quantize"},
    ),
}


def app(verb: str) -> typer.Typer:
    """The application of a verb."""
    if verb in ONE:
        place, view = ONE[verb]
        module, _, name = place.partition(":")
        return command(getattr(import_module(f"rooflinecli.questions.{module}"), name), _run(view), Explained)
    help, view, former = SEVERAL[verb]
    found = typer.Typer(no_args_is_help=True, help=help, **QUIET)
    for one in import_module(f"rooflinecli.questions.{verb}.question").QUESTIONS:
        name = one.verb.partition(" ")[2]
        add(found, one, _run(view), Explained, name)
        for old in (old for old, new in former.items() if new == name):
            add(found, one, _run(view), Explained, old, hidden=True)
    return found


def _run(view: str) -> Callable[[Question[object], Explained], int]:
    """The run of a question: its answer printed, or one of its quantities explained."""

    def run(question: Question[object], how: Explained) -> int:
        if how.explain is None:
            answer = question.answer()
            show(answer, f"calculators.{view}", how)
            problem = question.infeasible(answer)
            if problem:
                raise Infeasible(problem)
            return 0
        lift = TracedLift()
        answer = question.lifted(lift).answer(lift)  # type: ignore[call-arg]
        write(explained(answer, how.explain, int(how.depth)), None if how.out is None else Path(how.out))
        return 0

    return run
