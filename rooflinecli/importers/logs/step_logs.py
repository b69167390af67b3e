"""Training logs with a line per step: a pattern that matches it, and the printed arguments that become options."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive

WARM_UP = 2  # steps in which kernels are compiled, or that return before they ran
ROUNDED = 3  # digits of a figure with a fraction: fewer are noted
SPREAD = 0.15  # of the median: a larger spread is noted


def settled(
    source: Source,
    tool: str,
    steps: list[tuple[int, float]],
    unit: str = "s",
    options: Options | None = None,
    probe: Options | None = None,
) -> list[MeasuredRow]:
    """One reading for (line, value) of a run's steps: their median after warm-up, cited at the line that states it."""
    if not steps:
        return []
    kept = steps[min(WARM_UP, len(steps) // 2) :]
    middle = median(value for _, value in kept)
    line, value = min(kept, key=lambda step: abs(step[1] - middle))
    quarter = sorted(v for _, v in kept)
    apart = (quarter[3 * len(kept) // 4] - quarter[len(kept) // 4]) / middle
    notes = [f"median of {len(kept)} steps"] if len(kept) > 1 else ["a single step; warm-up may be in it"]
    if apart > SPREAD:
        notes.append(f"half of the steps lie {apart:.0%} apart")
    given = {key: v for key, v in (options or {}).items() if v is not None}
    return [MeasuredRow(source.at(line), tool, "train", value, unit, given, probe or {}, tuple(notes))]


def matches(
    source: Source, pattern: re.Pattern[str], begins: str, read: Callable[[re.Match[str]], float | None]
) -> list[tuple[int, float]]:
    """(line, value) of every line that matches. Raises DataError where the last line begins as one and is cut short."""
    found = []
    for line, text in enumerate(source.lines, start=1):
        match = pattern.search(text)
        value = read(match) if match else None
        if value is not None and value > 0:
            found.append((line, value))
    end, last = max(((i, text) for i, text in enumerate(source.lines, start=1) if text.strip()), default=(1, ""))
    if begins in last and not pattern.search(last):
        raise DataError(f"{source.at(end)}: a step's line ends before its time; was the file cut short?")
    return found


def dotted(source: Source, *names: str) -> dict[str, str]:
    """Arguments printed as `name ..... value` (Megatron) or `name: value` / `name = value` (YAML dumps), the first of each."""
    found = {}
    for name in names:
        match = re.search(
            rf"^(?:\[?\w+\]?:?\s|\S+:\s|.*\bConfig param\s)?\s*{name}\s*(?:\.{{3,}}|:|=)\s*([^\s,#]+)",
            source.plain,
            re.MULTILINE,
        )
        if match and match[1] not in ("None", "null"):
            found[name] = match[1]
    return found


def whole(text: str | None) -> int | None:
    """A count from text."""
    found = positive(text)
    return int(found) if found is not None and found == int(found) else None


@dataclass(frozen=True)
class StepLog:
    """Reader of one framework's log.

    step: pattern of a step's line, whose first group is its value; begins: text that a line cut short still has;
    marker: pattern that identifies the format; without: pattern of another format; arguments: printed name -> option;
    batch: pattern of the global batch on a step's line, of which steps with the last one count (others ramp up);
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
    batch: re.Pattern[str] | None = None
    more: Callable[[Source], Options] = lambda source: {}
    probe: Callable[[Source], Json] = field(default=lambda source: {})

    def claims(self, source: Source) -> bool:
        other = self.without is not None and re.search(self.without, source.plain)
        return re.search(self.marker, source.plain) is not None and not other

    def read(self, source: Source) -> list[MeasuredRow]:
        """A row of each run in the log. A run that prints no arguments of its own has those of the run before."""
        found: list[MeasuredRow] = []
        options: Options = {}
        for steps, text in _runs(source, matches(source, self.step, self.begins, self.value)):
            stated = dotted(text, *self.arguments)
            given: Options = {
                option: size for name, option in self.arguments.items() if (size := whole(stated.get(name))) is not None
            }
            given = {**{name: value for name, value in self.more(text).items() if value is not None}, **given}
            if (
                self.batch is not None
                and (sizes := [self.batch.search(source.lines[line - 1]) for line, _ in steps])[-1]
            ):
                given["batch"] = int(sizes[-1][1])
                steps = [
                    step for step, size in zip(steps, sizes, strict=True) if size and int(size[1]) == given["batch"]
                ]
            options = {**options, **given, "software": self.software}
            found += [
                self._rounded(row, source)
                for row in settled(source, self.TOOL, steps, self.unit, options, self.probe(text))
            ]
        return found

    def _rounded(self, row: MeasuredRow, source: Source) -> MeasuredRow:
        """The row, with a note where its line has fewer than three digits of it."""
        match = self.step.search(source.lines[int(row.where.rpartition(":")[2]) - 1])
        text = next((group for group in match.groups() if group and group[0].isdigit()), "") if match else ""
        figures = text.replace(".", "").lstrip("0")
        if "." not in text or len(figures) >= ROUNDED:
            return row
        note = f"{text} has {len(figures)} digits, which leave it uncertain by {0.5 / int(figures):.1%}"
        return replace(row, notes=(*row.notes, note))


_NUMBER = re.compile(r"\bglobal_step[=:] ?(\d+)|(?:\biteration[:=\s]+|\bstep: |\[batch=|\bsteps?[ =]+)(\d+)")


def _runs(source: Source, steps: list[tuple[int, float]]) -> list[tuple[list[tuple[int, float]], Source]]:
    """Steps of each run with the part of the log up to its last one: a run begins where the numbers of steps fall back to the first ones,
    and in another listing of a document.

    A run of no more steps than a warm-up is left out where there is another.
    """
    runs: list[list[tuple[int, float]]] = []
    first = last = 0
    fences = [line for line, text in enumerate(source.lines, start=1) if text.lstrip().startswith("```")]
    for line, value in steps:
        found = _NUMBER.findall(source.lines[line - 1])
        number = next((int(whole) for pair in sorted(found, reverse=True) for whole in pair if whole), last + 1)
        apart = bool(runs) and bisect(fences, line) != bisect(fences, runs[-1][-1][0])
        if not runs or apart or number < first or (number == first and last > first + 1):
            runs.append([])
            first = number
        runs[-1].append((line, value))
        last = number
    ends = [0, *(run[-1][0] for run in runs)]
    parts = [
        (run, Source(source.name, "\n".join(source.lines[start:end])))
        for run, start, end in zip(runs, ends, [*ends[1:-1], len(source.lines)], strict=False)
    ]
    return [part for part in parts if len(part[0]) > WARM_UP] or parts


_MAXTEXT = re.compile(
    r"completed step: (?:\d+), seconds: ([\d.]+), TFLOP/s(?:/device)?: ([\d.]+)(?:, Tokens/s/device: ([\d.]+))?"
)
_MEGATRON_2020 = re.compile(  # before 2021, a separate sentence
    r"using world size: (\d+), data-parallel-size: (\d+), tensor-model-parallel size: (\d+), pipeline-model-parallel size: (\d+)"
)
_SEQUENCE = re.compile(r"\bactual[ _]seqlen[:=]\s*(\d+) \|")  # of Megatron-DeepSpeed
_TITAN = re.compile(r"Trainer is initialized with .*?global batch size (\d+), .*?sequence length (\d+)")
_NANOTRON = "elapsed_time_per_iteration_ms: "
_MEGATRON_2019 = re.compile(r"using world size: (\d+) and model-parallel size: (\d+)")
_PARALLEL = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "micro_batch_size": "micro-batch",
    "seq_length": "seq",
}


def _tokens_per_device(source: Source) -> Json:
    """The median of a step's tokens on one device, which gives the batch."""
    tokens = [
        float(m[3]) * float(m[1]) for m in map(_MAXTEXT.search, source.lines) if m and positive(m[3]) and positive(m[1])
    ]
    return {"tokens_per_device": sorted(tokens)[len(tokens) // 2]} if tokens else {}


def _megatron(source: Source) -> Options:
    stated = dotted(source, "bf16", "fp16", "sequence_parallel", "recompute_granularity")
    found: Options = {
        "dtype": next((d for d in ("bf16", "fp16") if stated.get(d) == "True"), None),
        "sequence-parallel": True if stated.get("sequence_parallel") == "True" else None,
        "recompute": {"full": "full", "selective": "selective"}.get(stated.get("recompute_granularity", "")),
    }
    if match := _SEQUENCE.search(source.plain):
        found["seq"] = int(match[1])
    if match := _MEGATRON_2020.search(source.plain):
        found |= dict(zip(("n", "dp", "tp", "pp"), map(int, match.groups()), strict=True))
    elif match := _MEGATRON_2019.search(source.plain):
        found |= {"n": int(match[1]), "tp": int(match[2])}
    return found


def _torchtitan(source: Source) -> Options:
    """Sizes that its trainer states before the first step."""
    match = _TITAN.search(source.plain)
    return {"batch": int(match[1]), "seq": int(match[2])} if match else {}


READERS = (
    StepLog(  # throughput timer: samples per second over all devices, in two generations of wording
        "DeepSpeed",
        re.compile(r"(?:CurrSamplesPerSec|(?<!RunningAvg)(?<!Curr)\bSamplesPerSec)=([\d.]+)(?=[,\s]|$)"),
        "SamplesPerSec=",
        "SamplesPerSec=",
        {"train_batch_size": "batch", "train_micro_batch_size_per_gpu": "micro-batch", "world_size": "n"},
        unit="samples/s",
        software="deepspeed",
        without=r"elapsed[ _]time[ _]per[ _]iteration",
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
        r"(?s)\A(?=.*completed step:)(?=.*TFLOP/s(?:/device)?:)",
        {"max_target_length": "seq"},
        probe=_tokens_per_device,
    ),
    StepLog(  # Megatron-LM, Megatron-DeepSpeed and Megatron-Bridge: pipe-separated lines, arguments in dots
        "Megatron",
        re.compile(
            r"iteration[=\s]+\d+/\s*\d+ \|.*?elapsed[ _]time[ _]per[ _]iteration[ _]\(?(ms|s)(?:\): *|=)([\d.]+)(?:/[\d.]+)? \|"
        ),
        "elapsed time per",
        r"elapsed[ _]time[ _]per[ _]iteration[ _]\(?m?s",
        {
            "batch_size": "micro-batch",
            "model_parallel_size": "tp",
            "pipe_parallel_size": "pp",
            **_PARALLEL,
            "data_parallel_size": "dp",
            "world_size": "n",
        },
        value=lambda match: positive(match[2]) and float(match[2]) * (1e-3 if match[1] == "ms" else 1.0),
        batch=re.compile(r"global[ _]batch[ _]size[:=]\s*(\d+) \|"),
        more=_megatron,
        without=_NANOTRON,
    ),
    StepLog(  # three digits of milliseconds, with K and M
        "nanotron",
        re.compile(r"iteration: \d+ / \d+ \|.*?elapsed_time_per_iteration_ms: ([\d.]+)([KM]?) \|"),
        _NANOTRON,
        _NANOTRON,
        {},
        value=lambda match: positive(match[1]) and float(match[1]) * {"": 1e-3, "K": 1.0, "M": 1e3}[match[2]],
        batch=re.compile(r"global_batch_size: (\d+) \|"),
    ),
    StepLog(  # progress lines, a field of a JSON summary, or wandb's
        "NeMo",
        re.compile(r'"?train_step_timing in s(?:"?[:=]\s*|\s+)([\d.]+)(?=[\s,|}\]]|$)'),
        "train_step_timing in",
        "train_step_timing in s",
        {**_PARALLEL, "global_batch_size": "batch"},
        without=":::MLLOG",
        batch=re.compile(r"\|\s*global_batch_size: (\d+)\s*\|"),  # of NeMo 2
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
        more=_torchtitan,
    ),
)
