"""DeepSpeed's throughput timer: samples per second over all devices, in two generations of wording."""

from __future__ import annotations

import re

from rooflinecli.importers.logs.training_common import dotted, matches, settled, whole
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "DeepSpeed"
_STEP = re.compile(r"(?:CurrSamplesPerSec|(?<!RunningAvg)(?<!Curr)\bSamplesPerSec)=([\d.]+)(?=[,\s]|$)")
_ARGUMENTS = {"train_batch_size": "batch", "train_micro_batch_size_per_gpu": "micro-batch", "world_size": "n"}


def claims(source: Source) -> bool:
    return "SamplesPerSec=" in source.plain and "elapsed time per iteration" not in source.plain


def read(source: Source) -> list[MeasuredRow]:
    steps = matches(source, _STEP, "SamplesPerSec=", lambda m: positive(m[1]))
    said = dotted(source, *_ARGUMENTS)
    options = {option: whole(said.get(name)) for name, option in _ARGUMENTS.items()}
    return settled(source, TOOL, steps, "samples/s", {**options, "software": "deepspeed"})
