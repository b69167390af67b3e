"""NeMo: `train_step_timing in s` on progress lines, or as a field of the JSON that its summaries are."""

from __future__ import annotations

import re

from rooflinecli.importers.logs.training_common import dotted, matches, settled, whole
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "NeMo"
_STEP = re.compile(r'"?train_step_timing in s"?[:=]\s*([\d.]+)(?=[\s,|}\]]|$)')
_BATCH = re.compile(r"\|\s*global_batch_size: (\d+)\s*\|")  # of NeMo 2, on every line
_ARGUMENTS = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "micro_batch_size": "micro-batch",
    "global_batch_size": "batch",
    "seq_length": "seq",
}


def claims(source: Source) -> bool:
    return "train_step_timing in s" in source.plain and ":::MLLOG" not in source.plain


def read(source: Source) -> list[MeasuredRow]:
    steps = matches(source, _STEP, "train_step_timing in", lambda m: positive(m[1]))
    said = dotted(source, *_ARGUMENTS)
    options = {option: whole(said.get(name)) for name, option in _ARGUMENTS.items()}
    if options["batch"] is None and (sizes := _BATCH.findall(source.plain)):
        options["batch"] = int(sizes[-1])
    return settled(source, TOOL, steps, options=options)
