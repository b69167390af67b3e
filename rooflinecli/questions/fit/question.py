"""`roofline fit MODEL --hw HW` as a record."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.record import Record
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import EstimateOptions, OptNumber, OptText, Texts, field


class FitModel(Record):
    """The model that is asked for."""

    name: str
    id: str
    parameters: int
    max_context: int | None


class FitDevice(Record):
    """The device; `reserve_bytes` is what the runtime and a desktop take of it."""

    name: str
    id: str
    capacity_bytes: float
    reserve_bytes: float


class FitLoad(Record):
    """One stream of this prompt and output."""

    prompt: Number
    output: Number
    batch: int
    engine: str


class FitRow(Record):
    """One file type: bytes of its tensors, bits per weight, whether it fits, the longest context, and rates at the prompt asked for."""

    file: str
    bytes: int
    bits_per_weight: float
    fits: bool
    max_context: int
    engine: str
    decode_tokens_per_s: float | None = None
    decode_interval_per_s: tuple[float, float] | None = None
    prefill_tokens_per_s: float | None = None
    prefill_interval_per_s: tuple[float, float] | None = None
    layers_on_host: int | None = None
    experts_on_host: int | None = None


class FitAnswer(Record):
    """File types, the largest that holds the prompt and the output among them."""

    schema: str
    model: FitModel
    hardware: FitDevice
    workload: FitLoad
    largest: str | None
    files: list[FitRow]
    notes: list[str]
    command: str | None = None  # the estimate of the best

    @property
    def feasible(self) -> bool:
        """Whether one holds the prompt and the output."""
        return self.largest is not None

    @property
    def best(self) -> FitRow | None:
        """The largest file that holds the prompt and the output; where none does, the largest of the fastest (within 3%),
        the rest of it in host memory."""
        shared = [row for row in self.files if (row.layers_on_host, row.experts_on_host) != (None, None)]
        fastest = max((row.decode_tokens_per_s or 0.0 for row in shared), default=0.0)
        fast = next((row for row in shared if (row.decode_tokens_per_s or 0.0) > 0.97 * fastest), None)
        return next((row for row in self.files if row.file == self.largest), fast)


class Fit(Question["FitAnswer"]):
    """GGUF file types of a model on one device, one stream: size, longest context, tokens per second.

    Exit code 1 when not even the smallest holds the prompt and the output.
    """

    verb = "fit"
    examples = (
        "roofline fit llama-3.1-8b --hw rtx-4060",
        "roofline fit qwen3-30b-a3b --hw m4-pro --device-memory 28GB --prompt 8k",
    )
    # fmt: off
    model: OptText = field("name", EstimateOptions.model.help, positional=True, kw_only=False)
    hw: OptText = field("name", EstimateOptions.hw.help, kw_only=False)
    prompt: OptNumber = field("length", "Prompt tokens (2048); 4k is 4096.", default=None)
    output: OptNumber = field("length", "Output tokens (256).", default=None, least=0)
    kv_dtype: OptText = field("dtype", "Number format of the cache: fp16, q8_0, q4_0, ...", default=None)
    device_memory: OptNumber = field("room", "Memory of a device in bytes, instead of the file's (28GB of a 36GB MacBook).", default=None, name="memory", former=("memory",))
    engine: OptText = field("word", "Instead of what runs the format: llamacpp-2025, llamacpp-rocm, mlx, exllamav3, ...", default=None)
    quantization: Texts = field("free", "Only these, with commas or repeated: Q4_K_M, IQ4_XS, awq, exl3-3.5, mlx-4, ...", default=None, several=True, metavar="FORMAT", former=("file", "quant"))
    host_cpu: OptText = field("name", "The host's CPU and its memory, for what does not fit (ryzen-9-9950x).", default=None, name="host", former=("host",))
    # fmt: on

    def answer(self) -> FitAnswer:
        from rooflinecli.engine import build_request
        from rooflinecli.questions.fit.answer import default_engine_for, fit, parse_file_types
        from rooflinecli.questions.search.search_request import estimate_command
        from rooflinecli.specs.name_lookup import split_count

        if (several := split_count("hardware", self.hw or "")[0] or 1) > 1:
            other = f"`roofline estimate {self.model} --hw {self.hw} --engine llamacpp --weight-dtype q4_k_m`"
            raise UsageError(f"--hw {self.hw}: fit is of one device; {other} lays one file over {several}", "hw")
        given = {"engine": "llamacpp", **self.options(), "batch": 1, "phase": ["prefill", "decode"]}
        request = build_request.request(given)
        found = fit(
            request if self.engine else replace(request, engine=""), parse_file_types(list(self.quantization) or None)
        )
        if self.host_cpu and not any(row.layers_on_host or row.experts_on_host for row in found.files):
            build_request.warn("--host-cpu changes nothing: every file is whole on the device")
        if (best := found.best) is None:
            return found
        engine, dtype = self.engine or default_engine_for(best.file), best.file.lower()
        asked = {**given, "engine": engine, "n": 1, "weight-dtype": dtype}
        if best.experts_on_host is not None:
            asked["expert-offload"] = f"host:{best.experts_on_host}"
        elif best.layers_on_host is not None:
            asked["gpu-layers"] = request.model.n_layers - best.layers_on_host
        return replace(found, command=estimate_command(asked))
