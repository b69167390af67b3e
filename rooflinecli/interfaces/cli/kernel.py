"""`roofline kernel matmul|attention|elementwise ... --hw HW`: one operation on the roofline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.common_options import EXPLAIN, FORMAT, HW, OUT, levels
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(no_args_is_help=True, help="One operation on the roofline.", **QUIET)
_DTYPE: Any = typer.Option("bf16", help="Number format.")
_ENGINE: Any = typer.Option(
    None, "--engine", metavar="NAME", help="Whose kernels: vllm, sglang, trtllm, llamacpp, gpt-fast ..."
)
_MEASURED: Any = typer.Option(None, help="A measured time such as '0.51 ms'; refused when it beats the floor.")


def _sizes(**written: str | None) -> dict[str, float]:
    """Sizes as numbers, each at least 1."""
    from rooflinecli.specs.parse_values import size

    return {name: size(name, text) for name, text in written.items() if text is not None}


def _share(name: str, text: str) -> float:
    """How often each element is read, written or worked on: any number, not below zero."""
    from rooflinecli.core.errors import UsageError
    from rooflinecli.interfaces.cli.calculator_inputs import quantity

    value = quantity(f"--{name}", text, "1")
    if value < 0:
        raise UsageError(f"--{name} {text}: must not be negative")
    return value


@app.command()
def matmul(
    m: str = typer.Argument(..., help="Rows (tokens)."),
    k: str = typer.Argument(..., help="Contracted dimension."),
    n: str = typer.Argument(..., help="Columns."),
    hw: str = HW,
    dtype: str = _DTYPE,
    engine: str = _ENGINE,
    quantisation: str = typer.Option(
        "dynamic", metavar="CHOICE", help="Input of a narrow matmul: dynamic (a pass of its own), static or none."
    ),
    measured: str = _MEASURED,
    explain: str = EXPLAIN,
    depth: int = levels(4),
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """x[M, K] @ w[K, N]: FLOPs, bytes, intensity, bound, floor and expected time."""
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.kernel.answer import kernel_matmul
    from rooflinecli.render.views.kernel import text
    from rooflinecli.specs.hardware import load_hardware

    sizes, chip = _sizes(m=m, k=k, n=n), load_hardware(hw)
    write(
        text(
            lambda lift: kernel_matmul(sizes["m"], sizes["k"], sizes["n"], dtype, chip, lift, engine, quantisation),
            format.value,
            explain,
            depth,
            measured,
            columns(out=out),
        ),
        out,
    )


@app.command()
def attention(
    q: str = typer.Argument(..., help="Query tokens (1 in decode)."),
    kv: str = typer.Argument(..., help="Key/value tokens."),
    heads: str = typer.Option("1", help="Query heads."),
    kv_heads: str = typer.Option(None, "--kv-heads", help="Key/value heads; as many as heads when omitted."),
    head_dim: str = typer.Option("128", "--head-dim", help="Width of a head."),
    batch: str = typer.Option("1", help="Sequences."),
    causal: bool = typer.Option(False, "--causal/--full", help="Half of the pairs, or all."),
    decode: bool = typer.Option(False, "--decode", help="One new token against a cache."),
    fused: bool = typer.Option(
        True, "--fused/--unfused", help="Flash attention, or scores and probabilities through memory."
    ),
    hw: str = HW,
    dtype: str = _DTYPE,
    engine: str = _ENGINE,
    measured: str = _MEASURED,
    explain: str = EXPLAIN,
    depth: int = levels(4),
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """The attention core: q k^T, softmax, p v."""
    from rooflinecli.core.errors import UsageError
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.kernel.answer import kernel_attention
    from rooflinecli.render.views.kernel import text
    from rooflinecli.specs.hardware import load_hardware

    s, chip = (
        _sizes(q=q, kv=kv, heads=heads, kv_heads=kv_heads or heads, head_dim=head_dim, batch=batch),
        load_hardware(hw),
    )
    if s["heads"] % s["kv_heads"]:
        raise UsageError(f"--kv-heads {kv_heads} does not divide --heads {heads}; use a divisor")
    if causal and s["q"] != s["kv"]:
        raise UsageError(
            f"--causal needs as many queries as keys, got {q} and {kv}; use --full, or --decode for one query"
        )
    write(
        text(
            lambda lift: kernel_attention(
                s["batch"],
                s["q"],
                s["kv"],
                s["heads"],
                s["kv_heads"],
                s["head_dim"],
                causal,
                decode,
                fused,
                dtype,
                chip,
                lift=lift,
                engine=engine,
            ),
            format.value,
            explain,
            depth,
            measured,
            columns(out=out),
        ),
        out,
    )


@app.command()
def elementwise(
    elements: str = typer.Argument(..., help="Elements of the result, e.g. 1e7 or 2048x8192."),
    reads: str = typer.Option("1", help="Tensors of that size read."),
    writes: str = typer.Option("1", help="Tensors of that size written."),
    flops: str = typer.Option("1", "--flops-per-element", help="FLOPs per element."),
    hw: str = HW,
    dtype: str = _DTYPE,
    measured: str = _MEASURED,
    explain: str = EXPLAIN,
    depth: int = levels(4),
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """An elementwise or normalisation pass: bytes in, bytes out."""
    from math import prod

    from rooflinecli.core.errors import UsageError
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.kernel.answer import kernel_elementwise
    from rooflinecli.render.views.kernel import text
    from rooflinecli.specs.hardware import load_hardware

    count = prod(_sizes(elements=part)["elements"] for part in elements.lower().split("x"))
    each, chip = (
        {
            name: _share(name, text)
            for name, text in (("reads", reads), ("writes", writes), ("flops-per-element", flops))
        },
        load_hardware(hw),
    )
    if not each["reads"] + each["writes"]:
        raise UsageError("--reads 0 and --writes 0 move nothing; give one of them above zero")
    write(
        text(
            lambda lift: kernel_elementwise(
                count,
                dtype,
                chip,
                flops_per_element=each["flops-per-element"],
                reads=each["reads"],
                writes=each["writes"],
                lift=lift,
            ),
            format.value,
            explain,
            depth,
            measured,
            columns(out=out),
        ),
        out,
    )


@app.command()
def grouped(
    tokens: str = typer.Argument(..., help="Tokens entering the layer over the whole expert group."),
    d_model: str = typer.Option(..., "--d-model", help="Width of the model."),
    width: str = typer.Option(..., "--width", help="Width of an expert."),
    experts: str = typer.Option(..., "--experts", help="Routed experts."),
    top_k: str = typer.Option(..., "--top-k", help="Experts that a token visits."),
    ep: str = typer.Option("1", help="Ranks over which experts are spread."),
    tp: str = typer.Option("1", help="Devices over which an expert's width is split."),
    redundant: str = typer.Option(
        "0", "--redundant-experts", help="Further copies of busy experts; balances the ranks."
    ),
    gated: bool = typer.Option(True, "--gated/--ungated", help="Three matrices per expert, or two."),
    imbalance: str = typer.Option(
        None, help="Slots of the busiest rank over an even share, instead of what routing makes of it."
    ),
    library: str = typer.Option(
        "vllm", help="Whose kernels: vllm, sglang, trtllm, trtllm-wide, deepep, deepep-low-latency."
    ),
    weight_dtype: str = typer.Option(None, "--weight-dtype", help="Number format of the weights alone (int4, mxfp4)."),
    hw: str = HW,
    dtype: str = _DTYPE,
    measured: str = _MEASURED,
    explain: str = EXPLAIN,
    depth: int = levels(4),
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """A layer of routed experts on the busiest rank: both products, and the passes over routed slots around them."""
    from rooflinecli.core.errors import UsageError, unknown
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.kernel.grouped_gemm import kernel_grouped
    from rooflinecli.render.views.kernel import text
    from rooflinecli.specs.engine import EXPERT_KERNELS
    from rooflinecli.specs.hardware import load_hardware

    s, chip = (
        _sizes(tokens=tokens, d_model=d_model, width=width, experts=experts, top_k=top_k, ep=ep, tp=tp),
        load_hardware(hw),
    )
    copies = _share("redundant-experts", redundant)
    if library not in EXPERT_KERNELS:
        raise unknown("library", library, EXPERT_KERNELS)
    if s["top_k"] > s["experts"]:
        raise UsageError(f"--top-k {top_k} is more than --experts {experts}; a token visits each expert once")
    if (s["experts"] + copies) % s["ep"]:
        raise UsageError(
            f"--ep {ep} does not divide {s['experts'] + copies:g} experts; use a divisor, or other --redundant-experts"
        )
    uneven = None if imbalance is None else _share("imbalance", imbalance)
    if uneven is not None and uneven < 1:
        raise UsageError(f"--expert-imbalance {imbalance}: the busiest rank has at least an even share; give 1 or more")
    write(
        text(
            lambda lift: kernel_grouped(
                **s,
                hardware=chip,
                redundant=copies,
                balanced=copies > 0,
                gated=gated,
                imbalance=uneven,
                dtype=dtype,
                weight_dtype=weight_dtype,
                library=library,
                lift=lift,
            ),
            format.value,
            explain,
            depth,
            measured,
            columns(out=out),
        ),
        out,
    )
