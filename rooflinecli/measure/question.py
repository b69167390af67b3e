"""`roofline measure` as records: a suite of kernels, a model against its prediction, a closed loop against a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.core.record import Json, Record
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptNumber, OptText, OptWhole, Switch, Text, Texts, Whole, field

if TYPE_CHECKING:  # a help page needs neither jax nor numpy
    from rooflinecli.measure.aot import AotAnswer
    from rooflinecli.measure.cases import KernelCase
    from rooflinecli.measure.run import MeasureAnswer


def needs_jax() -> None:
    """Raise UsageError with the pip line where jax is not installed."""
    from importlib.util import find_spec

    if find_spec("jax") is None:
        raise UsageError(
            f"measuring needs jax; install it with: {install('measure')} (on a GPU or TPU: "
            'pip install "jax[cuda13]" or "jax[tpu]")'
        )


# fmt: off
class Suite(Question["MeasureAnswer"]):
    """Kernels of a suite, the constants fitted to them, and a hardware profile."""

    suites: ClassVar[tuple[str, ...]]
    quick: Switch = field("switch", "A short grid, under 30 s on two CPU cores.", default=False)
    out: OptText = field("file", "The profile; omitted: DEVICE.yaml in this folder.", default=None, short="-o")
    log: OptText = field("file", "The log of timings, which an interrupted run resumes; omitted: the profile's name with .jsonl.", default=None)
    restart: Switch = field("switch", "Measure afresh; the old log is kept as .old.", default=False)
    budget: OptNumber = field("seconds", "Seconds for all timing; omitted: 21 with --quick, else 900.", default=None, least=1)
    max_timings: OptWhole = field("whole", "How often a kernel is timed at most, where the machine was busy: 2 with --quick, else 4.", default=None, former=("looks",))
    dtype: Texts = field("free", "fp32, bf16, fp16, fp8, int8, tf32; repeat for several.", default=None, several=True, metavar="CHOICE")
    extends: OptText = field("name", "The known chip this profile extends, or 'none'; omitted: recognized by its name.", default=None)
    pallas: Switch = field("switch", "Pallas kernels next to XLA's, where they compile.", default=True)
    force: Switch = field("switch", "Write the profile though the machine was busy, and fits that are worse than the bare roofline.", default=False)
    coordinator: OptText = field("free", "host:port of process 0, for several hosts.", default=None, metavar="ADDRESS")
    processes: OptWhole = field("whole", "How many processes take part.", default=None)
    process_id: OptWhole = field("whole", "Which of them this is.", default=None, least=0)
    # fmt: on

    def answer(self, progress: Callable[[KernelCase, Json | None, int], None] = lambda *progress: None) -> MeasureAnswer:
        """Measure and fit; `progress` is called before and after each kernel, with its record then, and with how many there are."""
        needs_jax()
        from rooflinecli.measure.run import execute

        return execute(self, progress)


_SUITES = {
    "matmul": "Matmuls: square, skinny as in decode, ragged.", "attention": "Attention: prefill and decode.",
    "bandwidth": "Memory streams: copy, triad, read.", "elementwise": "Norms, activations, reductions, optimizer, gather.",
    "collectives": "All-reduce and other collectives over all local devices, or over hosts.", "all": "Everything (the default).",
}  # fmt: skip
SUITES: dict[str, type[Suite]] = {
    name: type(name, (Suite,), {"__doc__": text, "verb": f"measure {name}", "suites": tuple(_SUITES)[:-1] if name == "all" else (name,)})
    for name, text in _SUITES.items()
}


class ModelReport(Record):
    """Counts that must be equal, and prediction and measurement of the phases of a model."""

    schema: str = "roofline/measure-model/1"
    model: str
    hardware: str
    checks: list[str]
    phases: list[Json]


# fmt: off
class ModelComparison(Question[ModelReport]):
    """Build the model in JAX from its YAML, run it, and compare the prediction with the clock."""

    verb = "measure model"
    model: Text = field("name", "A name or alias (`roofline models`), or a YAML path: attention is MHA or GQA.", positional=True, kw_only=False)
    hw: OptText = field("name", "The profile to predict with; omitted: DEVICE.yaml in this folder.", default=None)
    batch: Whole = field("whole", "Sequences.", default=1)
    seq: Whole = field("whole", "Tokens of the prompt and of a training sequence.", default=256, least=2)
    layers: OptWhole = field("whole", "Scale down: number of layers kept.", default=None)
    d_model: OptWhole = field("whole", "Scale down: model width; heads and d_ff follow.", default=None, least=8)
    vocab: OptWhole = field("whole", "Scale down: vocabulary.", default=None, least=2)
    dtype: OptText = field("free", "fp32 on a CPU, bf16 elsewhere.", default=None, metavar="CHOICE")
    phase: Texts = field("free", "forward, train, prefill, decode; repeat or omit for all.", default=None, several=True, metavar="CHOICE")
    budget: Number = field("seconds", "Seconds of timing per phase.", default=5.0, least=0.1)
    log: OptText = field("file", "Where the results are stored; omitted: roofline-loop.jsonl.", default=None)
    trace: OptText = field("file", "Keep a trace of three runs of each phase there, for `roofline profile`.", default=None, metavar="FOLDER")
    # fmt: on

    def answer(self) -> ModelReport:
        needs_jax()
        from rooflinecli.measure.model.compare import compare_model

        return compare_model(self)


# fmt: off
class OpenAIServer(Question[list[Json]]):
    """A closed loop against a running OpenAI-compatible server: TTFT and TPOT.

    Writes a line of JSON per load, which `roofline calibrate FILE --hw H -n N` reads. OPENAI_API_KEY is sent where it is set.
    """

    verb = "measure openai"
    engine: ClassVar[str | None] = None
    url: Text = field("free", "The server's address, such as http://localhost:8000.", positional=True)
    model: OptText = field("free", "The model to ask for; omitted: the only one that the server lists.", default=None, metavar="NAME")
    concurrency: Text = field("free", "Requests in flight, one run each.", default="1,4,16", metavar="COUNTS")
    prompt: Text = field("free", "Tokens of a prompt, about; the server's own count is kept. Several with commas.", default="512", metavar="TOKENS")
    output: Whole = field("whole", "Tokens of an answer.", default=64, least=2, metavar="TOKENS")
    requests: OptWhole = field("whole", "Requests of a run; omitted: four for each in flight.", default=None)
    timeout: Number = field("seconds", "How long to wait for one answer.", default=120.0, least=1, metavar="SECONDS")
    # fmt: on

    def answer(self) -> list[Json]:
        """Runs, as objects of roofline/serving-run/1."""
        from rooflinecli.measure.openai_load import run_load

        loads, prompts = _counts("--concurrency", self.concurrency), _counts("--prompt", self.prompt)
        return [run_load(self, concurrency, length) for concurrency in loads for length in prompts]


class VLLMServer(OpenAIServer):
    __doc__ = str(OpenAIServer.__doc__).replace("OpenAI-compatible", "vLLM")
    verb = "measure vllm"
    engine = "vllm"


def _counts(flag: str, text: str) -> list[int]:
    """Whole numbers with commas between. Raises UsageError."""
    from rooflinecli.specs import parse_values

    counts = [parse_values.number(flag, part.strip()) for part in text.split(",")]
    if any(value < 1 or value != int(value) for value in counts):
        raise UsageError(f"{flag} {text}: expected whole numbers above zero, such as 1,4,16")
    return [int(value) for value in counts]


class AheadOfTime(Question["AotAnswer"]):
    """Lower and compile a JAX function ahead of time, and put it on the roofline of any chip; nothing is run on arrays.

    FLOPs and bytes come from its jaxpr, next to XLA's own analysis and what that miscounts: loop bodies counted once,
    unused matmuls, elementwise work. Exit code 1 when it does not fit into the chip's memory.
    """

    verb = "aot"
    # fmt: off
    target: Text = field("free", "script.py:function, jitted or not.", positional=True)
    more: Texts = field("free", "Further arguments, as after --args.", default=None, positional=True, several=True, metavar="SHAPE...")
    args: Texts = field("free", "Arguments as shapes: f32[128,256], bf16[8,1024], (f32[8], i32[]), {w: f32[8,8]}, 0.5.", default=None, several=True, metavar="SHAPES")
    hw: Text = field("name", "A chip (`roofline hardware`); it need not be the one that compiles.")
    trips: OptNumber = field("number", "Iterations of a loop whose count is unknown at compile time.", default=None, least=1, metavar="COUNT")
    # fmt: on

    def answer(self) -> AotAnswer:
        from importlib.util import find_spec

        if find_spec("jax") is None:
            raise UsageError(f"aot compiles with jax; install it with: {install('measure')}")
        from rooflinecli.measure.aot import analyse, arguments, load
        from rooflinecli.specs.hardware import load_hardware

        chip, shapes = load_hardware(self.hw), arguments([*self.args, *self.more])
        return analyse(load(self.target), shapes, chip, self.target, self.trips)
