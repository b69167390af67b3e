"""A compiled function on the roofline: the counts of its jaxpr and of XLA, and its operations."""

from __future__ import annotations

from rooflinecli.core.units import si
from rooflinecli.measure.aot import AotAnswer
from rooflinecli.render.blocks import Headline, Page, Pairs, Prose, page
from rooflinecli.render.numbers import interval, text
from rooflinecli.render.views import ops


def view(answer: AotAnswer) -> Page:
    """The answer with the two counts next to each other, its operations, and what was not counted or does not fit."""
    counts, xla = answer.counts, answer.xla
    low, high = answer.interval_s
    arguments = ", ".join(map(_shape, answer.arguments))
    intensity = counts.intensity_flops_per_byte
    flops = "no flops" if xla.flops is None else si(xla.flops, "FLOP")
    rows = [
        ("floor", f"{text(answer.floor_s, 'floor_s')}, bound by {answer.bound}"),
        ("expected", f"{text(answer.time_s, 'time_s')}, 80% interval {interval(low, high, 's')}"),
        ("intensity", f"{intensity:,.4g} FLOP/B" if intensity else "none"),
        ("FLOPs", f"{si(counts.matmul_flops, 'FLOP')} of matmuls, {si(counts.elementwise_flops, 'FLOP')} elementwise"),
        ("bytes at least", f"{si(counts.argument_bytes_read, 'B')} read, {si(counts.result_bytes, 'B')} written"),
        ("XLA counts", f"{flops}, {si(xla.bytes_accessed or 0.0, 'B')} accessed"),
        ("memory", f"arguments {si(xla.argument_bytes, 'B')}, results {si(xla.output_bytes, 'B')}, temporaries {si(xla.temp_bytes, 'B')}"),
    ]  # fmt: skip
    notes = [d.message for d in answer.differences] + counts.loops
    notes += [f"not counted: {name}" for name in dict.fromkeys(counts.uncounted)]
    model, chip = answer.model.name, answer.hardware.name
    return page(
        [
            Headline(f"{model}({arguments}) on {chip}", (model, chip)),
            Prose(f"{ops.peaks(answer.roofs)}; compiled for {answer.compiled_for}", style="dim"),
        ],
        [Pairs(rows)],
        ops.table("call", answer.phases["call"]),
        [Prose(note) for note in notes],
        *([Prose(f"does not fit: {v.message}", style="red")] for v in answer.violations),
    )


def _shape(shape: str) -> str:
    """ShapeDtypeStruct(shape=(64, 128), dtype=float32) -> float32[64, 128], wherever it stands."""
    import re

    return re.sub(r"ShapeDtypeStruct\(shape=\(([\d, ]*?),?\), dtype=(\w+)\)", r"\2[\1]", shape)
