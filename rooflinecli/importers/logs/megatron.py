"""Megatron-LM, Megatron-DeepSpeed and Megatron-Bridge: `elapsed time per iteration (ms)` in pipe-separated lines, arguments in dots."""

from __future__ import annotations

import re

from rooflinecli.importers.logs.training_common import dotted, matches, settled, whole
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive

TOOL = "Megatron"
_STEP = re.compile(r"iteration\s+(\d+)/\s*\d+ \|.*?elapsed time per iteration \((ms|s)\): ([\d.]+) \|")
_BATCH = re.compile(r"elapsed time per iteration.*?global batch size:\s*(\d+) \|")
_ARGUMENTS = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "data_parallel_size": "dp",
    "micro_batch_size": "micro-batch",
    "seq_length": "seq",
    "world_size": "n",
}


def claims(source: Source) -> bool:
    return "elapsed time per iteration (" in source.plain


def read(source: Source) -> list[MeasuredRow]:
    steps = matches(
        source, _STEP, "elapsed time per", lambda m: positive(m[3]) and float(m[3]) * (1e-3 if m[2] == "ms" else 1.0)
    )
    return settled(source, TOOL, steps, options=_options(source))


def _options(source: Source) -> Options:
    said = dotted(source, *_ARGUMENTS, "bf16", "fp16", "sequence_parallel", "recompute_granularity")
    found: Options = {option: whole(said.get(name)) for name, option in _ARGUMENTS.items()}
    sizes = [int(m) for m in _BATCH.findall(source.plain)]
    found["batch"] = sizes[-1] if sizes else None
    found["dtype"] = next((d for d in ("bf16", "fp16") if said.get(d) == "True"), None)
    found["sequence-parallel"] = True if said.get("sequence_parallel") == "True" else None
    found["recompute"] = {"full": "full", "selective": "selective"}.get(said.get("recompute_granularity", ""))
    if "pipeline-model-parallel size" in source.plain:  # before 2021, in a sentence of its own
        match = re.search(
            r"using world size: (\d+), data-parallel-size: (\d+), tensor-model-parallel size: (\d+), pipeline-model-parallel size: (\d+)",
            source.plain,
        )
        if match:
            found |= dict(zip(("n", "dp", "tp", "pp"), map(int, match.groups()), strict=True))
    return found
