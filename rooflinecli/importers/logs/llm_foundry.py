"""llm-foundry (Composer's console logger): `throughput/batches_per_sec`, after warm-up."""

from __future__ import annotations

import re

from rooflinecli.importers.logs.training_common import dotted, matches, settled, whole
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "llm-foundry"
_STEP = re.compile(r"throughput/batches_per_sec: ([\d.]+(?:e-?\d+)?)\s*$")
_ARGUMENTS = {
    "max_seq_len": "seq",
    "global_train_batch_size": "batch",
    "device_train_microbatch_size": "micro-batch",
    "n_gpus": "n",
}


def claims(source: Source) -> bool:
    return "throughput/batches_per_sec" in source.plain


def read(source: Source) -> list[MeasuredRow]:
    steps = matches(source, _STEP, "throughput/batches_per_sec", lambda m: 1 / float(m[1]) if positive(m[1]) else None)
    said = dotted(source, *_ARGUMENTS)
    options = {option: whole(said.get(name)) for name, option in _ARGUMENTS.items()}
    return settled(source, TOOL, steps, options={**options, "software": "llm-foundry"})
