"""`roofline serving`: what a token costs, what pays, and what batching, beams, caches, pools and formats buy."""

from __future__ import annotations

from typing import Any

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.calculator import Answer, calculator
from rooflinecli.interfaces.cli.calculator_inputs import HW, Reader, cache_bytes, chip, parameters, quantity, width_of
from rooflinecli.interfaces.cli.main import QUIET

app = typer.Typer(
    no_args_is_help=True,
    help="Serving arithmetic: cost per token, break-even, batching, beams, prefix caches, "
    "prefill and decode pools, quantisation.",
    **QUIET,
)
PRICE = typer.Option(..., "--usd-per-hour", help="Price of all devices of the server.")
BUSY = typer.Option("1", "--utilization", "-u", help="Share of time the server is busy, 0 to 1.")
PER_TOKEN = typer.Option(None, "--kv-per-token", help="KV-cache bytes per token ('320 KiB').")


@app.command()
@calculator("serving-cost")
def cost(
    read: Reader,
    price: str = PRICE,
    busy: str = BUSY,
    rate: str = typer.Option(None, "--tokens-per-s", help="Output tokens per second."),
    prefill: str = typer.Option(None, "--prefill-tokens-per-s", help="Prompt tokens per second."),
) -> Answer:
    """Dollars per million input and output tokens."""
    from rooflinecli.questions.serving.answer import token_cost

    return token_cost(
        read("--usd-per-hour", price, "USD/h", "price"),
        read("--utilization", busy, "1", "u", at_most=1.0),
        read("--tokens-per-s", rate, "tokens/s", "R"),
        read("--prefill-tokens-per-s", prefill, "tokens/s", "R_p"),
    )


@app.command(name="break-even")
@calculator("serving-break-even")
def break_even(
    read: Reader,
    price: str = PRICE,
    busy: str = BUSY,
    sell: str = typer.Option(..., "--usd-per-million", help="What a million output tokens sell for."),
    rate: str = typer.Option(..., "--tokens-per-s", help="Tokens per second of one sequence (batch 1)."),
    model: str = typer.Option(None, "--model", help="Model whose weights and KV cache must fit."),
    seq: str = typer.Option(None, "--seq", help="Tokens per sequence (8192)."),
    per_token: str = PER_TOKEN,
    dtype: str = typer.Option("bf16", "--dtype", help="Format of weights and cache."),
    hw: str = HW,
    devices: str = typer.Option("1", "--devices", "-n", help="Devices of the server."),
    memory: str = typer.Option(None, "--memory", help="Memory per device, instead of --hw ('80 GB')."),
) -> Answer:
    """The batch at which a price per token pays for the hardware, and whether memory holds it."""
    from rooflinecli.questions.serving import answer as batching

    room: tuple[Any, Any, Any] = (None, None, None)
    if seq is not None:
        if (model is None) == (per_token is None):
            raise UsageError("--seq needs the cache per token; give --model or --kv-per-token")
        length, each = read("--seq", seq, "tokens", "S"), read("--memory", memory, "B", "M")
        cache = (
            batching.size(length, read("--kv-per-token", per_token, "B", "b"))
            if model is None
            else cache_bytes(read, model, float(length), dtype)
        )
        weights = None if model is None else batching.size(parameters(read, "--model", model), width_of(read, dtype))
        each = chip(read, hw).capacity if hw else each
        room = cache, weights, None if each is None else batching.size(read("--devices", devices, "1", "n"), each)
    answer = batching.break_even(
        read("--usd-per-hour", price, "USD/h", "price"),
        read("--usd-per-million", sell, "USD", "$"),
        read("--utilization", busy, "1", "u", at_most=1.0),
        read("--tokens-per-s", rate, "tokens/s", "r"),
        *room,
    )
    if answer.get("feasible") is False:
        problem = (
            f"break-even takes {float(answer['batch']):g} sequences and memory holds "
            f"{float(answer['largest_batch']):g}; take more devices, shorter sequences or a narrower cache"
        )
        return answer, problem
    return answer


@app.command(name="batching")
@calculator("serving-batching")
def static(
    read: Reader,
    mean: str = typer.Option(None, "--mean-output", help="Mean answer length in tokens."),
    longest: str = typer.Option(None, "--max-output", help="Longest answer of a batch."),
    lengths: str = typer.Option(None, "--lengths", help="Instead: the answer lengths of a batch (100,200,500)."),
    batch: str = typer.Option(None, "--batch", help="Concurrent sequences, for the cache freed per step."),
    prompt: str = typer.Option(None, "--prompt", help="Prompt tokens, for the cache freed per step."),
) -> Answer:
    """Static against continuous batching: the share of slots that do useful work."""
    from rooflinecli.questions.serving.answer import static_batching

    if lengths is not None:
        sizes = [quantity("--lengths", part, "tokens") for part in lengths.split(",")]
        mean, longest = repr(sum(sizes) / len(sizes)), repr(max(sizes))
    if mean is None or longest is None:
        raise UsageError("give --mean-output and --max-output, or --lengths")
    return static_batching(
        read("--mean-output", mean, "tokens", "o"),
        read("--max-output", longest, "tokens", "o_max"),
        read("--batch", batch, "1", "B"),
        read("--prompt", prompt, "tokens", "P"),
    )


@app.command()
@calculator("serving-beam")
def beam(
    read: Reader,
    beams: str = typer.Option(..., "--beams", "-k", help="Beams per sequence."),
    batch: str = typer.Option("1", "--batch", help="Sequences."),
    prompt: str = typer.Option("0", "--prompt", help="Prompt tokens."),
    output: str = typer.Option(..., "--output", help="Output tokens."),
    per_token: str = PER_TOKEN,
) -> Answer:
    """Beam search: how it multiplies the decode batch and the KV cache."""
    from rooflinecli.questions.serving.answer import beam_search

    return beam_search(
        read("--batch", batch, "1", "B"),
        read("--beams", beams, "1", "k"),
        read("--prompt", prompt, "tokens", "P", zero=True),
        read("--output", output, "tokens", "G"),
        read("--kv-per-token", per_token, "B", "b"),
    )


@app.command(name="prefix-cache")
@calculator("serving-prefix-cache")
def prefix_cache(
    read: Reader,
    requests: str = typer.Option(..., "--requests", help="Requests that share the prefix."),
    prompt: str = typer.Option(..., "--prompt", help="Prompt tokens, prefix included."),
    shared: str = typer.Option(..., "--shared", help="Tokens of the shared prefix."),
    hits: str = typer.Option("1", "--hit-rate", help="Chance that the prefix is still cached, 0 to 1."),
    rate: str = typer.Option(None, "--prefill-tokens-per-s", help="Prefill rate, for the time to first token."),
    params: str = typer.Option(None, "--params", "-p", help="Parameters or a model's name, for the FLOPs."),
) -> Answer:
    """Prefix caching: prompt tokens, FLOPs and time to first token saved."""
    from rooflinecli.questions.serving.answer import prefix_cache as answer

    return answer(
        read("--requests", requests, "1", "n"),
        read("--prompt", prompt, "tokens", "P"),
        read("--shared", shared, "tokens", "P_s", zero=True),
        read("--hit-rate", hits, "1", "h", at_most=1.0, zero=True),
        read("--prefill-tokens-per-s", rate, "tokens/s", "R_p"),
        parameters(read, "--params", params),
    )


@app.command()
@calculator("serving-disaggregate")
def disaggregate(
    read: Reader,
    prefill: str = typer.Option(..., "--prefill", help="Prefill time of one prompt ('0.91 s')."),
    step: str = typer.Option(..., "--step", help="Decode step time ('19 ms')."),
    output: str = typer.Option(..., "--output", help="Output tokens per request."),
    batch: str = typer.Option(..., "--batch", help="Concurrent sequences of a decode server."),
    chips: str = typer.Option(None, "--devices", "-n", help="Devices of a decode server, for the rate per device."),
) -> Answer:
    """Disaggregated serving: prefill servers per decode server, requests per second."""
    from rooflinecli.questions.serving.answer import disaggregation

    return disaggregation(
        read("--prefill", prefill, "s", "t_p"),
        read("--step", step, "s", "t_d"),
        read("--output", output, "tokens", "G"),
        read("--batch", batch, "1", "B"),
        read("--devices", chips, "1", "n"),
    )


@app.command(name="quantize", hidden=True)
@app.command()
@calculator("serving-quantise")
def quantise(
    read: Reader,
    params: str = typer.Option(..., "--params", "-p", help="Parameters (70B), or a model's name."),
    before: str = typer.Option("bf16", "--from", help="Number format before."),
    after: str = typer.Option(..., "--to", help="Number format after."),
    cache: str = typer.Option(None, "--kv-per-sequence", help="KV-cache bytes of a sequence ('2.68 GB')."),
    cache_after: str = typer.Option(None, "--kv-after", help="The same after, if the cache is quantised too."),
    hw: str = HW,
    memory: str = typer.Option(None, "--memory", help="Memory per device, instead of --hw ('16 GB')."),
    devices: str = typer.Option(None, "--devices", "-n", help="Devices, for the sequences that fit."),
) -> Answer:
    """Quantisation: weight bytes, devices, sequences and memory-bound decode speed in two formats."""
    from rooflinecli.questions.serving.answer import quantise as answer

    if before == after:
        raise UsageError(f"--from and --to are both {after}; give two formats")
    capacity = chip(read, hw).capacity if hw else read("--memory", memory, "B", "M")
    widths = [(name, width_of(read, name)) for name in (before, after)]
    return answer(
        parameters(read, "--params", params),
        widths[0],
        widths[1],
        read("--kv-per-sequence", cache, "B", "b_kv"),
        read("--kv-after", cache_after, "B", "b_kv'"),
        capacity,
        read("--devices", devices, "1", "n"),
    )
