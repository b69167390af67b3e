"""`roofline scaling`: how large, how long, what batch, what it costs."""

from __future__ import annotations

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.calculator import Answer, calculator
from rooflinecli.interfaces.cli.calculator_inputs import HW, Reader, chip, one_of, parameters, peak_of
from rooflinecli.interfaces.cli.main import QUIET

app = typer.Typer(
    no_args_is_help=True,
    help="Scaling laws and training runs: how large, how long, what batch, what it costs.",
    **QUIET,
)
PARAMS = typer.Option(None, "--params", "-p", help="Parameters (70B), or a model's name.")
TOKENS = typer.Option(None, "--tokens", help="Training tokens (15T).")
FLOPS = typer.Option(None, "--flops", help="Training FLOPs (1e22, '10 ZFLOP').")
FIT = typer.Option("all", "--fit", help="besiroglu (corrected), hoffmann, hoffmann-tex, sardana, or all.")
RATIO = typer.Option("20", "--tokens-per-param", help="Rule of thumb of Hoffmann et al.")


@app.command()
@calculator("scaling-chinchilla")
def chinchilla(
    read: Reader,
    params: str = PARAMS,
    tokens: str = TOKENS,
    flops: str = FLOPS,
    ratio: str = RATIO,
    fit: str = FIT,
) -> Answer:
    """Compute-optimal size and tokens from one of --params, --tokens, --flops."""
    from rooflinecli.questions.scaling.answer import chinchilla as answer

    one_of(params=params, tokens=tokens, flops=flops)
    return answer(
        parameters(read, "--params", params),
        read("--tokens", tokens, "tokens", "D"),
        read("--flops", flops, "FLOP", "C"),
        read("--tokens-per-param", ratio, "1", "r"),
        fit,
    )


@app.command()
@calculator("scaling-loss")
def loss(
    read: Reader,
    params: str = typer.Option(..., "--params", "-p", help="Parameters (70B), or a model's name."),
    tokens: str = typer.Option(..., "--tokens", help="Training tokens (1.4T)."),
    fit: str = FIT,
) -> Answer:
    """Parametric loss of a run by each published fit, beside the optimum for its compute."""
    from rooflinecli.questions.scaling.answer import loss as answer

    return answer(parameters(read, "--params", params), read("--tokens", tokens, "tokens", "D"), fit)


@app.command()
@calculator("scaling-kaplan")
def kaplan(
    read: Reader,
    params: str = PARAMS,
    tokens: str = TOKENS,
    flops: str = FLOPS,
    days: str = typer.Option(None, "--pflop-s-days", help="Compute in PFLOP/s-days, instead of --flops."),
) -> Answer:
    """The three power laws of Kaplan et al.: loss by parameters, tokens, compute."""
    from rooflinecli.formulas.scaling import pflop_s_days_to_flops
    from rooflinecli.questions.scaling.answer import kaplan as answer

    if flops is not None and days is not None:
        raise UsageError("--flops and --pflop-s-days say the same; give one of them")
    compute = read("--flops", flops, "FLOP", "C")
    if days is not None:
        compute = pflop_s_days_to_flops(read("--pflop-s-days", days, "1", "C"))
    return answer(parameters(read, "--params", params), read("--tokens", tokens, "tokens", "D"), compute)


@app.command(name="inference-aware")
@calculator("scaling-inference-aware")
def inference_aware(
    read: Reader,
    served: str = typer.Option(..., "--tokens-served", help="Tokens served over the model's life (2T)."),
    params: str = PARAMS,
    tokens: str = TOKENS,
    target: str = typer.Option(None, "--loss", help="Loss to reach, instead of --params."),
    instead: str = typer.Option(None, "--instead", help="Another size to compare (7B)."),
    fit: str = typer.Option("sardana", "--fit", help="besiroglu, hoffmann, hoffmann-tex or sardana."),
) -> Answer:
    """The size with least training plus inference FLOPs, at the loss of --params (compute-optimal or at --tokens) or --loss."""
    from rooflinecli.questions.scaling.answer import inference_aware as answer

    one_of(params=params, loss=target)
    return answer(
        read("--tokens-served", served, "tokens", "D_inf", zero=True),
        parameters(read, "--params", params),
        read("--tokens", tokens, "tokens", "D"),
        read("--loss", target, "1", "L"),
        fit,
        parameters(read, "--instead", instead),
    )


@app.command()
@calculator("scaling-moe")
def moe(
    read: Reader,
    flops: str = FLOPS,
    active: str = typer.Option(None, "--active-params", help="Parameters a token passes through (1B)."),
    total: str = typer.Option(None, "--params", "-p", help="All parameters: the dense model to compare with."),
    experts: str = typer.Option(None, "--experts", help="Routed experts of a layer."),
    top_k: str = typer.Option(None, "--top-k", help="Experts a token visits."),
    batch_tokens: str = typer.Option(None, "--batch-tokens", help="Tokens routed together (2048)."),
) -> Answer:
    """A mixture of experts: tokens a budget buys by active parameters, and tokens each expert sees."""
    from rooflinecli.questions.scaling.training_run import mixture as answer

    return answer(
        read("--flops", flops, "FLOP", "C"),
        parameters(read, "--active-params", active),
        parameters(read, "--params", total),
        read("--experts", experts, "1", "E"),
        read("--top-k", top_k, "1", "k"),
        read("--batch-tokens", batch_tokens, "tokens", "T"),
    )


@app.command()
@calculator("scaling-run")
def run(
    read: Reader,
    params: str = typer.Option(
        ..., "--params", "-p", help="Parameters (70.6B; active ones for a mixture), or a model's name."
    ),
    tokens: str = typer.Option(..., "--tokens", help="Training tokens (15T)."),
    devices: str = typer.Option(
        None, "--devices", "-n", help="Devices; default 1. Omitted with --mfu and --time: as many as needed."
    ),
    hw: str = HW,
    peak: str = typer.Option(None, "--peak", help="Peak FLOP/s per device, instead of --hw ('990 TFLOP/s')."),
    dtype: str = typer.Option("bf16", "--dtype", help="Which peak of --hw."),
    mfu: str = typer.Option(None, "--mfu", help="Model FLOPs utilisation, 0 to 1."),
    throughput: str = typer.Option(None, "--tokens-per-s", help="Measured tokens/s per device, instead of --mfu."),
    time: str = typer.Option(None, "--time", help="Duration ('91 days'), instead of --mfu."),
    price: str = typer.Option(None, "--price", help="USD per device-hour; default: the chip's."),
) -> Answer:
    """Time and dollars of a training run from its MFU; or the MFU, or the devices, that a deadline takes."""
    from rooflinecli.questions.scaling.training_run import run as answer

    wanted = devices is None and mfu is not None and time is not None and throughput is None
    if not wanted:
        one_of(mfu=mfu, tokens_per_s=throughput, time=time)
    usd = read("--price", price, "USD/h", "price", zero=True)
    if usd is None and hw is not None:
        usd = chip(read, hw).price
    return answer(
        parameters(read, "--params", params),
        read("--tokens", tokens, "tokens", "D"),
        None if wanted else read("--devices", devices or "1", "1", "n"),
        peak_of(read, peak, hw, dtype),
        read("--mfu", mfu, "1", "MFU", at_most=1.0),
        read("--tokens-per-s", throughput, "tokens/s", "R"),
        usd,
        read("--time", time, "s", "t"),
    )


@app.command()
@calculator("scaling-width")
def width(
    read: Reader,
    params: str = typer.Option(..., "--params", "-p", help="Parameter budget without embeddings (10M)."),
    layers: str = typer.Option(..., "--layers", help="Layers."),
    expansion: str = typer.Option("4", "--expansion", help="d_ff / d_model."),
    multiple: str = typer.Option("64", "--multiple", help="Round the width to a multiple of this."),
) -> Answer:
    """The model width for a parameter budget."""
    from rooflinecli.questions.scaling.training_run import width as answer

    return answer(
        read("--params", params, "1", "N"),
        read("--layers", layers, "1", "L"),
        read("--expansion", expansion, "1", "E"),
        read("--multiple", multiple, "1", "m"),
    )


@app.command()
@calculator("scaling-addition")
def addition(
    read: Reader,
    digits: str = typer.Option("3", "--digits", help="Digits of each addend."),
    params: str = typer.Option("10M", "--params", "-p", help="Parameters."),
    ratio: str = RATIO,
) -> Answer:
    """Data for a transformer that learns to add: tokens per example, tokens and examples."""
    from rooflinecli.questions.scaling.training_run import addition as answer

    return answer(
        read("--digits", digits, "1", "n"),
        read("--params", params, "1", "N"),
        read("--tokens-per-param", ratio, "1", "r"),
    )


def _training_batches() -> None:
    """The commands about batches live in their own file and join this group."""
    from rooflinecli.interfaces.cli import scaling_batch

    app.registered_commands.extend(scaling_batch.app.registered_commands)


_training_batches()
