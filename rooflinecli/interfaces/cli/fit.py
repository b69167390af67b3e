"""`roofline fit MODEL --hw HW`: which quantisations fit, with what context, how fast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from rooflinecli.interfaces.cli.common_options import FORMAT, HW, MODEL, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command(
    epilog="roofline fit llama-3.1-8b --hw rtx-4060\nroofline fit qwen3-30b-a3b --hw m4-pro --memory 36GB --prompt 8k",
)
def fit(
    model: str = MODEL,
    hw: str = HW,
    prompt: str = _Opt(None, metavar="TOKENS", help="Prompt tokens (2048); 4k is 4096."),
    output: str = _Opt(None, metavar="TOKENS", help="Output tokens (256)."),
    kv_dtype: str = _Opt(None, metavar="FORMAT", help="Number format of the cache: fp16, q8_0, q4_0, ..."),
    memory: str = _Opt(
        None,
        "--device-memory",
        "--memory",
        metavar="BYTES",
        help="Memory that the device lends, instead of the file's.",
    ),
    engine: str = _Opt(
        None, metavar="NAME", help="Instead of what runs the format: llamacpp-2025, llamacpp-rocm, mlx, exllamav3, ..."
    ),
    files: list[str] = _Opt(
        None,
        "--file",
        metavar="TYPE",
        help="Only these, with commas or repeated: Q4_K_M, IQ4_XS, awq, exl3-3.5, mlx-4, ...",
    ),
    host: str = _Opt(
        None, metavar="NAME", help="The machine's CPU and its memory, for what does not fit (ryzen-9-9950x)."
    ),
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """GGUF file types of a model on one device, one stream: size, longest context, tokens per second.

    Exit code 1 when not even the smallest holds the prompt and the answer.
    """
    from rooflinecli.engine import build_request
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.fit.answer import fit as answer
    from rooflinecli.questions.fit.answer import parse_file_types
    from rooflinecli.render.views.fit import render

    given = {
        "model": model,
        "hw": hw,
        "prompt": prompt,
        "output": output,
        "kv-dtype": kv_dtype,
        "memory": memory,
        "host": host,
    }
    request = build_request.request(
        {**given, "engine": engine or "llamacpp", "batch": 1, "phase": ["prefill", "decode"]}
    )
    request = request if engine else replace(request, engine="")
    result = answer(request, parse_file_types(files))
    write(render(result, format.value, columns(wide, out)), out)
    if result["largest"] is None:
        raise typer.Exit(1)
