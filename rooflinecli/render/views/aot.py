"""A compiled function on the roofline: a short table, or the object in another format."""

from __future__ import annotations

from rooflinecli.core.units import si
from rooflinecli.measure.aot import AotAnswer
from rooflinecli.render.answer import to_json
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE, bold, dim
from rooflinecli.render.numbers import interval, text
from rooflinecli.render.views import ops


def render(answer: AotAnswer, format: str, width: int = PIPE) -> str:
    """The text of an answer."""
    if format == "json":
        return to_json(answer)
    data = answer.to_dict()
    if format in ("csv", "markdown"):
        return ops.render(data, format)
    notes = [d.message for d in answer.differences] + answer.counts.loops
    notes += [f"not counted: {name}" for name in dict.fromkeys(answer.counts.uncounted)]
    said = [line for note in notes for line in terminal.prose(note, width)]
    table = ops.table("call", data["phases"]["call"], width)
    return "\n\n".join([*_head(answer, width), table, *["\n".join(said)] * bool(said), *ops.unfit(data, width)])


def _head(answer: AotAnswer, width: int) -> list[str]:
    """The answer, then the two counts side by side."""
    counts, xla, roofs = answer.counts, answer.xla, answer.roofs
    low, high = answer.interval_s
    peaks = ", ".join(f"{si(rate, 'FLOP/s')} {dtype}" for dtype, rate in roofs.peak_flops_per_s.items())
    arguments = ", ".join(map(_shape, answer.arguments))
    intensity = counts.intensity_flops_per_byte
    lines = [
        ("floor", f"{text(answer.floor_s, 'floor_s')}, bound by {answer.bound}"),
        ("expected", f"{text(answer.time_s, 'time_s')}, 80% interval {interval(low, high, 's')}"),
        ("intensity", f"{intensity:,.4g} FLOP/B" if intensity else "none"),
        ("FLOPs", f"{si(counts.matmul_flops, 'FLOP')} of matmuls, {si(counts.elementwise_flops, 'FLOP')} elementwise"),
        ("bytes at least", f"{si(counts.argument_bytes_read, 'B')} read, {si(counts.result_bytes, 'B')} written"),
        (
            "XLA counts",
            f"{'no flops' if xla.flops is None else si(xla.flops, 'FLOP')}, {si(xla.bytes_accessed or 0.0, 'B')} accessed",
        ),
        (
            "memory",
            f"arguments {si(xla.argument_bytes, 'B')}, results {si(xla.output_bytes, 'B')}, temporaries {si(xla.temp_bytes, 'B')}",
        ),
    ]
    about = dim(f"{peaks}, {si(roofs.bandwidth_bytes_per_s, 'B/s')}; compiled for {answer.compiled_for}")
    first = f"{bold(answer.model.name)}({arguments}) on {bold(answer.hardware.name)}"
    return [f"{first}\n{about}", "\n".join(terminal.pairs(lines, width))]


def _shape(shape: str) -> str:
    """ShapeDtypeStruct(shape=(64, 128), dtype=float32) -> float32[64, 128], wherever it stands."""
    import re

    return re.sub(r"ShapeDtypeStruct\(shape=\(([\d, ]*?),?\), dtype=(\w+)\)", r"\2[\1]", shape)
