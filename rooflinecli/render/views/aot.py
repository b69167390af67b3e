"""A compiled function on the roofline: a short table, or the object in another format."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import duration, si
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE, bold, dim
from rooflinecli.render.views import ops


def render(answer: dict[str, Any], format: str, width: int = PIPE) -> str:
    if format == "json":
        return dumps(answer)
    if format in ("csv", "markdown"):
        return ops.render(answer, format)
    table = ops.table("call", answer["phases"]["call"], width)
    return "\n\n".join([*_head(answer, width), table, *_foot(answer, width)])


def _head(answer: dict[str, Any], width: int) -> list[str]:
    """The answer, then the two counts side by side."""
    counts, xla, roofs = answer["counts"], answer["xla"], answer["roofs"]
    low, high = answer["interval_s"]
    peaks = ", ".join(f"{si(rate, 'FLOP/s')} {dtype}" for dtype, rate in roofs["peak_flops_per_s"].items())
    first = f"{bold(answer['model']['name'])}({', '.join(map(_shape, answer['arguments']))}) on {bold(answer['hardware']['name'])}"
    intensity = counts["intensity_flops_per_byte"]
    lines = [
        ("floor", f"{duration(answer['floor_s'])}, bound by {answer['bound']}"),
        ("expected", f"{duration(answer['time_s'])}, 80% interval {duration(low)} to {duration(high)}"),
        ("intensity", f"{intensity:,.4g} FLOP/B" if intensity else "none"),
        (
            "FLOPs",
            f"{si(counts['matmul_flops'], 'FLOP')} of matmuls, {si(counts['elementwise_flops'], 'FLOP')} elementwise",
        ),
        ("bytes at least", f"{si(counts['argument_bytes_read'], 'B')} read, {si(counts['result_bytes'], 'B')} written"),
        (
            "XLA counts",
            f"{'no flops' if xla['flops'] is None else si(xla['flops'], 'FLOP')}, {si(xla['bytes_accessed'] or 0.0, 'B')} accessed",
        ),
        (
            "memory",
            f"arguments {si(xla['argument_bytes'], 'B')}, results {si(xla['output_bytes'], 'B')}, temporaries {si(xla['temp_bytes'], 'B')}",
        ),
    ]
    return [
        f"{first}\n{dim(f'{peaks}, ' + si(roofs['bandwidth_bytes_per_s'], 'B/s') + '; compiled for ' + answer['compiled_for'])}",
        "\n".join(terminal.pairs(lines, width)),
    ]


def _shape(text: str) -> str:
    """ShapeDtypeStruct(shape=(64, 128), dtype=float32) -> float32[64, 128], wherever it stands."""
    import re

    return re.sub(r"ShapeDtypeStruct\(shape=\(([\d, ]*?),?\), dtype=(\w+)\)", r"\2[\1]", text)


def _foot(answer: dict[str, Any], width: int) -> list[str]:
    notes = [d["message"] for d in answer["differences"]] + answer["counts"]["loops"]
    notes += [f"not counted: {name}" for name in dict.fromkeys(answer["counts"]["uncounted"])]
    said = [line for note in notes for line in terminal.prose(note, width)]
    return ["\n".join(said)] * bool(said) + ops.unfit(answer, width)
