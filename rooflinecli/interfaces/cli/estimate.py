"""`roofline estimate` and `report`: the question, and its answer as a screen, a launch, a derivation or a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rooflinecli.interfaces.cli.from_question import Explained, Output, Plotted, command, draw
from rooflinecli.interfaces.cli.output import columns, print_error, write
from rooflinecli.questions.estimate.question import Estimate
from rooflinecli.specs.options import OptText, Switch, Text, field

if TYPE_CHECKING:
    from rooflinecli.importers.source import Options
    from rooflinecli.questions.estimate.answer_types import EstimateAnswer
    from rooflinecli.questions.report.question import Report


class EstimateDelivery(Plotted, Explained):
    """The answer itself, the derivation of a quantity, or the launch of the layout."""

    # fmt: off
    explain: OptText = field("free", "Show how a quantity follows, e.g. decode.time_s; `layout`: why this layout.", default=None, metavar="QUANTITY")
    emit: OptText = field("free", "Print the launch of this layout instead: vllm, sglang, megatron, ...; jax: its training step as a program.", default=None, metavar="TOOL")
    plot_kind: Text = field("choice", "What --plot draws: memory of a device, or the pipeline of a training step with its bubbles", default="memory", choices=("memory", "pipeline"))
    partial: Switch = field("switch", "With --emit: accept a launch that leaves part of the layout out; without it the exit code is then 1.", default=False)
    # fmt: on


def run(question: Estimate, how: EstimateDelivery) -> int:
    """Print the answer; the exit code is 1 where what was asked does not fit, or an emitted launch leaves part of it out."""
    out = None if how.out is None else Path(how.out)
    width = columns(how.wide, out)
    if how.explain is not None:
        write(_explained(question, how.explain, int(how.depth), width), out)
        return 0
    options = question.all_options()
    if how.emit is not None and not options.get("phase"):  # a tool serves or trains, and only that has to fit
        from rooflinecli.importers.launch.emit import tool

        options["phase"] = ["train"] if how.emit == "jax" or tool(how.emit).TRAINS else ["prefill", "decode"]
    result = question.answer_to(question.request_of(options))
    if how.emit == "jax":
        from rooflinecli.render.formats.jax_program import program

        write(program(str(options["model"]), result), out)
    elif how.emit is not None:
        from rooflinecli.engine.build_request import warn
        from rooflinecli.questions.estimate.emit import launch

        emitted = launch(how.emit, options, result, question.source)
        write(emitted.text, out)
        if emitted.left_out:
            warn(f"the launch leaves out {emitted.left_out}{'' if how.partial else '; add --partial to accept this'}")
            return 1 if not how.partial else _exit_code(options, result)
    else:
        from rooflinecli.render.answer import render
        from rooflinecli.render.views.estimate import view

        if how.format in ("table", "markdown"):
            from rooflinecli.questions.estimate.changes_to_try import changes

            result.changes_to_try = changes(options, result)
        write(render(result, view, how.format, width, schema=how.schema, details=how.details), out)
        if how.plot:
            from rooflinecli.render.views import pictures

            draw(getattr(pictures, how.plot_kind)(result), how.plot, "\n")
    return _exit_code(options, result)


def _exit_code(options: Options, answer: EstimateAnswer) -> int:
    """1 where what was asked does not fit; without a phase that is asked or implied, where neither serving nor training does."""
    from rooflinecli.engine.build_request import implied
    from rooflinecli.specs.request import kinds_of_work

    failing = kinds_of_work({v.constraint.partition(".")[0] for v in answer.violations})
    given = {name: written for name, written in options.items() if written is not None}
    return int(bool(failing) and ("phase" in given or implied(given) != "" or len(failing) > 1))


def _explained(question: Estimate, quantity: str, depth: int, width: int) -> str:
    """The derivation of a quantity, or why the layout is the one it is."""
    request = question.request()
    if quantity in ("plan", "layout"):
        from rooflinecli.questions.estimate.explain import why
        from rooflinecli.render.formats.terminal import draw
        from rooflinecli.render.views import estimate as views

        return draw(views.why(why(request)), width)
    from rooflinecli.core.derivation_text import explain
    from rooflinecli.questions.estimate.explain import derivation

    return explain(derivation(request, quantity), depth)


class PageDelivery(Output):
    """Where the page goes."""

    # fmt: off
    out: Text = field("file", "The page to write; - for standard output.", default="report.html", short="-o")
    # fmt: on


def report(question: Report, how: PageDelivery) -> int:
    """Write the page; the exit code is 1 where what was asked does not fit."""
    from rooflinecli.questions.search.search_request import estimate_command
    from rooflinecli.render.report.page import page

    answer, derivations = question.explained()
    text = page(answer, derivations, estimate_command(question.options()))
    write(text, None if how.out == "-" else Path(how.out))
    if how.out != "-":
        print(f"wrote {how.out}")
    for violation in answer.estimate.violations:
        print_error(violation.message)
    return _exit_code(question.options(), answer.estimate)


def app(verb: str) -> typer.Typer:
    """The application of a verb."""
    if verb == "estimate":
        return command(Estimate, run, EstimateDelivery)
    from rooflinecli.questions.report.question import Report

    return command(Report, report, PageDelivery)
