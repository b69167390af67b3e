"""torchtitan: `step: … tps: … mfu: …` under terminal colors, one line per rank; tps is tokens per second and device."""

from __future__ import annotations

import re

from rooflinecli.importers.logs.training_common import dotted, matches, settled, whole
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "torchtitan"
_STEP = re.compile(r"\bstep:\s*\d+\s+loss:.*?\b(?:tps|wps): ([\d,]+)(?:\s|$)")
_ARGUMENTS = {
    "seq_len": "seq",
    "tensor_parallel_degree": "tp",
    "pipeline_parallel_degree": "pp",
    "context_parallel_degree": "cp",
}


def claims(source: Source) -> bool:
    return bool(re.search(r"\bstep:\s*\d+\s+loss:.*\b(tps|wps):", source.plain))


def read(source: Source) -> list[MeasuredRow]:
    steps = matches(source, _STEP, "tps:", lambda m: positive(m[1]))
    said = dotted(source, *_ARGUMENTS)
    options = {option: whole(said.get(name)) for name, option in _ARGUMENTS.items()}
    return settled(source, TOOL, steps, "tokens/s/device", {**options, "software": "torchtitan"})
