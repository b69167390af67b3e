"""MaxText: `completed step: …, seconds: …, TFLOP/s/device: …`; the first steps are compilation and asynchronous dispatch."""

from __future__ import annotations

import re

from rooflinecli.importers.logs.training_common import dotted, matches, settled, whole
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "MaxText"
_STEP = re.compile(
    r"completed step: (\d+), seconds: ([\d.]+), TFLOP/s/device: ([\d.]+)(?:, Tokens/s/device: ([\d.]+))?"
)
_ARGUMENTS = {"max_target_length": "seq"}


def claims(source: Source) -> bool:
    return "completed step:" in source.plain and "TFLOP/s/device:" in source.plain


def read(source: Source) -> list[MeasuredRow]:
    steps = matches(source, _STEP, "completed step:", lambda m: positive(m[2]))
    said = dotted(source, *_ARGUMENTS)
    tokens = [float(m[4]) * float(m[2]) for m in map(_STEP.search, source.lines) if m and m[4]]
    held = {"tokens_per_device": sorted(tokens)[len(tokens) // 2]} if tokens else {}
    return settled(
        source, TOOL, steps, options={option: whole(said.get(name)) for name, option in _ARGUMENTS.items()}, probe=held
    )
