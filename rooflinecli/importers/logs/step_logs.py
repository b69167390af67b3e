"""Training logs with a line per step: a pattern that matches it, and the printed arguments that become options."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rooflinecli.importers.logs.training_common import dotted, matches, settled, whole
from rooflinecli.importers.source import Json, MeasuredRow, Options, Source, positive


@dataclass(frozen=True)
class StepLog:
    """Reader of one framework's log.

    step: pattern of a step's line, whose first group is its value; begins: text that a line cut short still has;
    marker: pattern that identifies the format; without: text that identifies another format; arguments: printed name -> option;
    more, probe: further options and quantities of the whole log.
    """

    TOOL: str
    step: re.Pattern[str]
    begins: str
    marker: str
    arguments: dict[str, str]
    unit: str = "s"
    software: str | None = None
    without: str | None = None
    value: Callable[[re.Match[str]], float | None] = lambda match: positive(match[1])
    more: Callable[[Source], Options] = lambda source: {}
    probe: Callable[[Source], Json] = field(default=lambda source: {})

    def claims(self, source: Source) -> bool:
        other = self.without is not None and self.without in source.plain
        return re.search(self.marker, source.plain) is not None and not other

    def read(self, source: Source) -> list[MeasuredRow]:
        steps = matches(source, self.step, self.begins, self.value)
        stated = dotted(source, *self.arguments)
        options: Options = {option: whole(stated.get(name)) for name, option in self.arguments.items()}
        options |= {name: value for name, value in self.more(source).items() if options.get(name) is None}
        return settled(source, self.TOOL, steps, self.unit, {**options, "software": self.software}, self.probe(source))


_MAXTEXT = re.compile(
    r"completed step: (?:\d+), seconds: ([\d.]+), TFLOP/s/device: ([\d.]+)(?:, Tokens/s/device: ([\d.]+))?"
)
_MEGATRON_BATCH = re.compile(r"elapsed time per iteration.*?global batch size:\s*(\d+) \|")
_NEMO_BATCH = re.compile(r"\|\s*global_batch_size: (\d+)\s*\|")  # of NeMo 2, on every line
_MEGATRON_2020 = re.compile(  # before 2021, a separate sentence
    r"using world size: (\d+), data-parallel-size: (\d+), tensor-model-parallel size: (\d+), pipeline-model-parallel size: (\d+)"
)
_PARALLEL = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "micro_batch_size": "micro-batch",
    "seq_length": "seq",
}


def _last(pattern: re.Pattern[str], source: Source) -> int | None:
    sizes = pattern.findall(source.plain)
    return int(sizes[-1]) if sizes else None


def _tokens_per_device(source: Source) -> Json:
    """The median of a step's tokens on one device, which gives the batch."""
    tokens = [float(m[3]) * float(m[1]) for m in map(_MAXTEXT.search, source.lines) if m and m[3]]
    return {"tokens_per_device": sorted(tokens)[len(tokens) // 2]} if tokens else {}


def _megatron(source: Source) -> Options:
    stated = dotted(source, "bf16", "fp16", "sequence_parallel", "recompute_granularity")
    found: Options = {
        "batch": _last(_MEGATRON_BATCH, source),
        "dtype": next((d for d in ("bf16", "fp16") if stated.get(d) == "True"), None),
        "sequence-parallel": True if stated.get("sequence_parallel") == "True" else None,
        "recompute": {"full": "full", "selective": "selective"}.get(stated.get("recompute_granularity", "")),
    }
    if match := _MEGATRON_2020.search(source.plain):
        found |= dict(zip(("n", "dp", "tp", "pp"), map(int, match.groups()), strict=True))
    return found


READERS = (
    StepLog(  # throughput timer: samples per second over all devices, in two generations of wording
        "DeepSpeed",
        re.compile(r"(?:CurrSamplesPerSec|(?<!RunningAvg)(?<!Curr)\bSamplesPerSec)=([\d.]+)(?=[,\s]|$)"),
        "SamplesPerSec=",
        "SamplesPerSec=",
        {"train_batch_size": "batch", "train_micro_batch_size_per_gpu": "micro-batch", "world_size": "n"},
        unit="samples/s",
        software="deepspeed",
        without="elapsed time per iteration",
    ),
    StepLog(  # Composer's console logger
        "llm-foundry",
        re.compile(r"throughput/batches_per_sec: ([\d.]+(?:e-?\d+)?)\s*$"),
        "throughput/batches_per_sec",
        "throughput/batches_per_sec",
        {
            "max_seq_len": "seq",
            "global_train_batch_size": "batch",
            "device_train_microbatch_size": "micro-batch",
            "n_gpus": "n",
        },
        software="llm-foundry",
        value=lambda match: 1 / float(match[1]) if positive(match[1]) else None,
    ),
    StepLog(  # the first steps are compilation and asynchronous dispatch
        "MaxText",
        _MAXTEXT,
        "completed step:",
        r"(?s)\A(?=.*completed step:)(?=.*TFLOP/s/device:)",
        {"max_target_length": "seq"},
        probe=_tokens_per_device,
    ),
    StepLog(  # Megatron-LM, Megatron-DeepSpeed and Megatron-Bridge: pipe-separated lines, arguments in dots
        "Megatron",
        re.compile(r"iteration\s+(?:\d+)/\s*\d+ \|.*?elapsed time per iteration \((ms|s)\): ([\d.]+) \|"),
        "elapsed time per",
        r"elapsed time per iteration \(",
        {**_PARALLEL, "data_parallel_size": "dp", "world_size": "n"},
        value=lambda match: positive(match[2]) and float(match[2]) * (1e-3 if match[1] == "ms" else 1.0),
        more=_megatron,
    ),
    StepLog(  # progress lines, or a field of a JSON summary
        "NeMo",
        re.compile(r'"?train_step_timing in s"?[:=]\s*([\d.]+)(?=[\s,|}\]]|$)'),
        "train_step_timing in",
        "train_step_timing in s",
        {**_PARALLEL, "global_batch_size": "batch"},
        without=":::MLLOG",
        more=lambda source: {"batch": _last(_NEMO_BATCH, source)},
    ),
    StepLog(  # one line per rank under terminal colors; tps is tokens per second and device
        "torchtitan",
        re.compile(r"\bstep:\s*\d+\s+loss:.*?\b(?:tps|wps): ([\d,]+)(?:\s|$)"),
        "tps:",
        r"\bstep:\s*\d+\s+loss:.*\b(tps|wps):",
        {
            "seq_len": "seq",
            "tensor_parallel_degree": "tp",
            "pipeline_parallel_degree": "pp",
            "context_parallel_degree": "cp",
        },
        unit="tokens/s/device",
        software="torchtitan",
    ),
)
