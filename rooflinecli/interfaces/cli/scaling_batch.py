"""`roofline scaling batch`, `noise` and `lr`: the batch of a training run and the learning rate that goes with it."""

from __future__ import annotations

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.calculator import Answer, calculator
from rooflinecli.interfaces.cli.calculator_inputs import Reader
from rooflinecli.interfaces.cli.main import QUIET

app = typer.Typer(**QUIET)


@app.command()
@calculator("scaling-batch")
def batch(
    read: Reader,
    examples_min: str = typer.Option(None, "--examples-min", help="Examples to the target at small batches (E_min)."),
    steps_min: str = typer.Option(None, "--steps-min", help="Steps to the target at huge batches (S_min)."),
    size: str = typer.Option(None, "--batch", help="A batch to judge."),
    per_example: str = typer.Option(None, "--seconds-per-example", help="Time per example (kappa)."),
    per_step: str = typer.Option(None, "--seconds-per-step", help="Fixed time per step (sigma)."),
    loss: str = typer.Option(None, "--loss", help="Instead: Kaplan's critical batch at this loss."),
) -> Answer:
    """Steps against examples, the critical batch, and the batch that trains soonest."""
    from rooflinecli.questions.scaling import training_run as plan

    if loss is not None:
        return plan.kaplan_batch(read("--loss", loss, "1", "L"))
    if examples_min is None or steps_min is None:
        raise UsageError("give --examples-min and --steps-min, or --loss")
    if (per_example is None) != (per_step is None):
        raise UsageError("--seconds-per-example and --seconds-per-step go together; give both or neither")
    return plan.batch_size(
        read("--examples-min", examples_min, "1", "E_min"),
        read("--steps-min", steps_min, "1", "S_min"),
        read("--batch", size, "1", "B"),
        read("--seconds-per-example", per_example, "s", "kappa"),
        read("--seconds-per-step", per_step, "s", "sigma"),
    )


@app.command()
@calculator("scaling-noise")
def noise(
    read: Reader,
    small: str = typer.Option(..., "--small-batch", help="The smaller batch."),
    small_norm: str = typer.Option(..., "--small-norm2", help="Mean squared gradient norm there."),
    big: str = typer.Option(..., "--big-batch", help="The larger batch."),
    big_norm: str = typer.Option(..., "--big-norm2", help="Mean squared gradient norm there."),
) -> Answer:
    """The gradient noise scale, an estimate of the critical batch, from gradient norms at two batch sizes."""
    from rooflinecli.questions.scaling.training_run import measured_noise_scale as answer

    return answer(
        read("--small-batch", small, "1", "b"),
        read("--small-norm2", small_norm, "1", "|G_b|^2"),
        read("--big-batch", big, "1", "B"),
        read("--big-norm2", big_norm, "1", "|G_B|^2"),
    )


@app.command()
@calculator("scaling-lr")
def lr(
    read: Reader,
    rate: str = typer.Option(..., "--lr", help="Learning rate tuned at --batch (3e-4)."),
    size: str = typer.Option(..., "--batch", help="The batch it was tuned at."),
    new: str = typer.Option(..., "--new-batch", help="The batch to move to."),
    scale: str = typer.Option(None, "--noise-scale", help="Gradient noise scale, for the third rule."),
) -> Answer:
    """A learning rate for another batch: square root, linear, and by the noise scale."""
    from rooflinecli.questions.scaling.training_run import learning_rate as answer

    return answer(
        read("--lr", rate, "1", "eta"),
        read("--batch", size, "1", "B"),
        read("--new-batch", new, "1", "B'"),
        read("--noise-scale", scale, "1", "B_noise", zero=True),
    )
