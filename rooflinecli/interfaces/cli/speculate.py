"""`roofline speculate`: what a draft model buys."""

from __future__ import annotations

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.calculator import Answer, calculator
from rooflinecli.interfaces.cli.calculator_inputs import Reader, parameters
from rooflinecli.interfaces.cli.main import QUIET

app = typer.Typer(**QUIET)


@app.command()
@calculator("speculate")
def speculate(
    read: Reader,
    acceptance: str = typer.Option(None, "--acceptance", "-a", help="Chance that a draft token is accepted, 0 to 1."),
    draft_cost: str = typer.Option(None, "--draft-cost", "-c", help="Time of a draft step over a target step (0.1)."),
    draft: str = typer.Option(None, "--draft", help="Instead of --draft-cost: the draft's parameters or name."),
    target: str = typer.Option(None, "--target", help="With --draft: the target's parameters or name."),
    length: str = typer.Option(None, "--draft-length", "-k", help="Draft tokens per step; omitted: the best."),
    speedup: str = typer.Option(
        None, "--speedup", help="Instead of --acceptance: the speed-up to reach (1 is break-even)."
    ),
    verify: str = typer.Option(
        "1",
        "--verify-cost",
        help="Time to verify a draft over a plain decode step; above 1 "
        "once large batches make verification compute-bound.",
    ),
    itl: str = typer.Option(None, "--itl", help="Plain inter-token latency ('20 ms'), to get the new one."),
) -> Answer:
    """Speculative decoding: tokens per step, speed-up and best draft length, or the acceptance that a speed-up takes."""
    from rooflinecli.questions.speculate import answer as answers

    if (acceptance is None) == (speedup is None):
        raise UsageError("give --acceptance for the speed-up, or --speedup for the acceptance it takes")
    verifying = read("--verify-cost", verify, "1", "v")
    if draft_cost is not None:
        cost = read("--draft-cost", draft_cost, "1", "c", zero=True)
    elif draft is not None and target is not None:
        answers.written("--draft", draft)
        answers.written("--target", target)
        cost = answers.draft_cost(parameters(read, "--draft", draft), parameters(read, "--target", target))
    else:
        raise UsageError("give --draft-cost, or --draft and --target")
    drafts = read("--draft-length", length, "1", "g")
    if drafts is not None and float(drafts) != int(float(drafts)):
        raise UsageError(f"--draft-length {length}: must be a whole number")
    if speedup is not None:
        if drafts is None:
            raise UsageError("--speedup needs --draft-length; add it")
        answer = answers.break_even(drafts, cost, read("--speedup", speedup, "1", "x"), verifying)
    else:
        share = read("--acceptance", acceptance, "1", "a", at_most=1.0, zero=True)
        answer = answers.speculate(share, cost, drafts, verifying, read("--itl", itl, "s", "t"))
    return answer
