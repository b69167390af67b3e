"""Options of questions: typed fields, grouped by subject, each defined once.

The command line, `--help`, shell completion, plan files and their schemas, MCP tools, sweeps, searches, the web form and the
Python API read these fields; the module is imported whenever a command starts, so it imports nothing slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, dataclass_transform, overload

from rooflinecli.core.errors import unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.layout import EXCHANGES, LORA_TARGETS, OVERLAPS, PLACEMENTS, RECIPES, RECOMPUTE, RINGS, SCHEDULES
from rooflinecli.specs.request import BOUNDS, PHASES

W = TypeVar("W", contravariant=True)
V = TypeVar("V", covariant=True)
MISSING: Any = object()  # default of a field that must be given


@dataclass(frozen=True, eq=False, repr=False)  # the plainest, since every start makes them
class OptionKind:
    """The notation of a value: its placeholder in --help, the unit it is read in ('' for words), and its bounds.

    `above` is a bound that the value itself may not take; `example` is shown where that of the unit is misleading.
    """

    metavar: str
    unit: str = ""
    whole: bool = False
    least: float | None = None
    most: float | None = None
    above: float | None = None
    example: str = ""


KINDS = {
    "name": OptionKind("NAME"),
    "word": OptionKind("NAME"),
    "text": OptionKind("TIERS"),  # as "word", case preserved
    "phases": OptionKind("PHASE"),
    "pixels": OptionKind("WxH"),
    "pictures": OptionKind("COUNT", "tokens", whole=True, least=0, example="4"),
    "choice": OptionKind("CHOICE"),
    "stage": OptionKind("CHOICE", "tokens", whole=True, example="1"),
    "dtype": OptionKind("FORMAT"),
    "list": OptionKind("LIST"),
    "switch": OptionKind(""),
    "count": OptionKind("COUNT", "tokens", whole=True, least=1, example="8"),
    "length": OptionKind("TOKENS", "length", whole=True, least=1),
    "amount": OptionKind("TOKENS", "tokens", least=0),
    "number": OptionKind("NUMBER", "1", least=0, example="1.5"),
    "size": OptionKind("BYTES", "B", least=0),
    "room": OptionKind("BYTES", "B", above=0, least=1e6),
    "rate": OptionKind("RATE", "1", above=0, example="2.5"),
    "price": OptionKind("MONEY", "USD/h", least=0),
    "share": OptionKind("SHARE", "1", above=0, most=1, example="80%"),
    "electricity": OptionKind("MONEY", "USD/kWh", least=0),
    "watts": OptionKind("WATTS", "W", above=0),
    # of questions other than estimates: read as they are written, bounds checked
    "free": OptionKind("TEXT"),
    "file": OptionKind("FILE"),
    "distribution": OptionKind("TOKENS"),
    "whole": OptionKind("COUNT", "tokens", whole=True, least=1),
    "time": OptionKind("TIME", "s", above=0, example="40 ms' or '30d"),
    "usd": OptionKind("MONEY", "USD", above=0),
    "bytes": OptionKind("SIZE", "B", above=0),
    "bytes_per_s": OptionKind("RATE", "B/s", above=0),
    "flops_per_s": OptionKind("RATE", "FLOP/s", above=0),
    "hertz": OptionKind("RATE", "Hz", above=0),
    "flop": OptionKind("COUNT", "FLOP", above=0),
    "tokens_per_s": OptionKind("RATE", "tokens/s", above=0),
    "positive": OptionKind("NUMBER", "1", above=0, example="2.5"),
    "seconds": OptionKind("TIME", "s", above=0),  # as "time", a bare number being seconds
    "tokens": OptionKind("COUNT", "tokens", above=0),
    "usd_per_hour": OptionKind("MONEY", "USD/h", above=0),
    "params": OptionKind("PARAMS", "1", above=0),  # a number, or a model whose active parameters are meant
    "real": OptionKind("NUMBER", "1"),
    "fraction": OptionKind("SHARE", "1", least=0, most=1),
}
LOAD, LAYOUT, NUMBERS, ENGINE, OUTPUT = "Model and load", "Layout", "Numbers", "Engine", "Output"
PANELS = (LOAD, LAYOUT, NUMBERS, ENGINE, OUTPUT)


class Field(Generic[W, V]):
    """One field of a question, a descriptor: on the class it is the field, on a question its value.

    W is what may be written for it, V what a question holds. `long` is its flag without dashes, `parameter` its name in Python,
    `name` its key where options are kept as written, which is that of the first release that had it. `phase` is "train" or "serve" for
    what only training or only serving has: a question that names no phase means it by that (`build_request.implied`). `choices` are the words it may be; for a number, those that may stand instead of one. `least` and `most` replace the kind's bounds.
    `fills` is the field of Request, where it is not the parameter; `also` are other names, `former` names of earlier releases,
    which no help shows; `off` is the flag that turns a switch off, where that is not --no-NAME. `several` fields may be repeated on a command line;
    so may the items of one that is `listed`, text with commas.
    """

    def __init__(
        self, kind: str, help: str, *, default: Any = MISSING, panel: str = "", phase: str = "", choices: Sequence[str] | Callable[[], Sequence[str]] = (),
        least: float | None = None, most: float | None = None, short: str = "", fills: str = "", also: tuple[str, ...] = (),
        former: tuple[str, ...] = (), name: str = "", metavar: str = "", several: bool = False, positional: bool = False, symbol: str = "",
        long: str = "", kw_only: bool = True, off: str = "", listed: bool = False,
    ):  # fmt: skip
        self.kind, self.help, self.default, self.panel, self.phase = kind, help, default, panel, phase
        self._choices, self.least, self.most, self.short, self.fills = choices, least, most, short, fills
        self.also, self.former, self.name, self.metavar, self.several = also, former, name, metavar, several
        self.positional, self.symbol, self.kw_only = positional, symbol, kw_only and not positional
        self.off, self.listed = off, listed
        self.parameter, self.long = "", long

    def __set_name__(self, owner: type, name: str) -> None:
        self.parameter = name
        self.long = self.long or name.replace("_", "-").strip("-")
        self.name = self.name or self.long

    @overload
    def __get__(self, question: None, owner: type) -> Field[W, V]: ...
    @overload
    def __get__(self, question: Any, owner: type) -> V: ...
    def __get__(self, question: Any, owner: type) -> Any:
        return self if question is None else question.value_of(self)

    if TYPE_CHECKING:

        def __set__(self, question: Any, written: W) -> None: ...

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it may be; those of a registry are listed when they are asked for."""
        return tuple(self._choices() if callable(self._choices) else self._choices)

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def flag(self) -> str:
        """As a person types it."""
        if self.positional:
            return self.long
        return self.short if len(self.long) == 1 and self.short else f"--{self.long}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it is read by, its own first."""
        return tuple(dict.fromkeys((self.long, *self.also, self.parameter.replace("_", "-"), self.name, *self.former)))

    def words(self, written: Any) -> list[str]:
        """The field on a command line, with its value."""
        if isinstance(written, bool):
            return [f"--{'' if written else 'no-'}{self.long}"]
        return [
            word for item in (written if isinstance(written, list) else [written]) for word in (self.flag, str(item))
        ]

    @property
    def field(self) -> str:
        """Its field of Request."""
        return self.fills or self.name.replace("-", "_")

    @property
    def numeric(self) -> bool:
        """Whether a sweep runs over it as an array; the others change what is computed."""
        return bool(KINDS[self.kind].unit) and self.kind not in ("stage", "pictures")


Option = Field[Any, Any]
Text = Field[str, str]
OptText = Field[str | None, str | None]
OptNumber = Field[float | str | None, float | None]
Number = Field[float | str, float]
Whole = Field[int | str, int]
OptWhole = Field[int | str | None, int | None]
Switch = Field[bool, bool]
OptSwitch = Field[bool | str | None, bool | None]
Texts = Field[Sequence[str] | str | None, tuple[str, ...]]


def field(kind: str, help: str, **more: Any) -> Any:
    """A field of a group or a question; see Field for what may be said of it. Without a default it must be given."""
    return Field(kind, help, **more)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Group:
    """Fields that belong together, defined once and mixed into questions."""

    _fields: ClassVar[dict[str, Option]]
    without: ClassVar[frozenset[str]] = frozenset()  # inherited fields that a question does not have

    @classmethod
    def fields(cls) -> dict[str, Option]:
        """Fields by parameter, those of the first group first; one defined again keeps its place."""
        found = cls.__dict__.get("_fields")
        if found is None:
            parts = [base for base in reversed(cls.__mro__) if issubclass(base, Group)]
            found = {name: value for base in parts for name, value in vars(base).items() if isinstance(value, Field)}
            found = {name: getattr(cls, name) for name in found if name not in cls.without}
            cls._fields = found
        return found

    def check(self) -> None:
        """Raise UsageError for fields that contradict each other; groups add theirs and call super().check()."""


# fmt: off
class Subject(Group):
    """Model and chip."""

    model: Text = field("name", "A name or alias (`roofline models`), a YAML path, or a Hugging Face config.json.", panel=LOAD, positional=True, kw_only=False)
    hw: Text = field("name", "A name or alias (`roofline hardware`), or a YAML path.", panel=LOAD, fills="hardware", also=("hardware",), kw_only=False)


class Phases(Group):
    """Phases a question is about."""

    phase: Texts = field("phases", "train, prefill, decode; repeat. Omitted: serving or training as the other options imply, else both.", default=None, panel=LOAD, choices=PHASES, fills="phases", several=True)


class Formats(Group):
    """Number formats of matmuls, KV cache, recurrent state and weights."""

    dtype: OptText = field("dtype", "Matmuls with their inputs, weights and activations: bf16, fp16, fp8, int8, ...", default=None, panel=NUMBERS, former=("precision",))
    kv_dtype: OptText = field("dtype", "Number format of the KV cache.", default=None, panel=NUMBERS, phase="serve", former=("kv-cache-dtype",))
    ssm_state_dtype: OptText = field("dtype", "Recurrent state of hybrid models in memory; omitted: the model's own (fp32).", default=None, panel=NUMBERS, former=("mamba-ssm-cache-dtype",), name="state-dtype")
    weight_dtype: OptText = field("dtype", "Weights alone: int8, int4, fp8, a GGUF type (q4_k_m), or as a tool writes them: awq, gptq-4-g32, exl3-3.5, mlx-8, nf4-double, hqq, ...", default=None, panel=NUMBERS, former=("quantization", "quant"))


class Layout(Group):
    """Devices, and the parallel sizes of training and serving."""

    n: OptNumber = field("count", "Devices; omitted: the smallest power of two that fits.", default=None, panel=LAYOUT, most=1e7, short="-n", fills="devices", also=("devices",), former=("num-devices", "num-gpus", "world-size"))
    tp: OptNumber = field("count", "Tensor parallel size.", default=None, panel=LAYOUT, former=("tensor-parallel-size", "tensor-model-parallel-size"))
    pp: OptNumber = field("count", "Pipeline stages.", default=None, panel=LAYOUT, former=("pipeline-parallel-size", "pipeline-model-parallel-size"))
    dp: OptNumber = field("count", "Data parallel replicas.", default=None, panel=LAYOUT, former=("data-parallel-size",))
    cp: OptNumber = field("count", "Context parallel size.", default=None, panel=LAYOUT, former=("context-parallel-size",))


class ServingLayout(Group):
    """Attention data parallelism and where experts run in serving."""

    attention_dp: OptSwitch = field("switch", "Serving: attention data parallel, experts over all ranks that -n or --tp and --dp give.", default=None, panel=LAYOUT, phase="serve", former=("dp-attention", "enable-dp-attention"))
    redundant_experts: OptNumber = field("count", "Serving: further copies of busy experts, over all ranks; balances them.", default=None, panel=LAYOUT, phase="serve", least=0, former=("num-redundant-experts",))
    all2all_backend: OptText = field("choice", "Serving: kernels of the MoE all-to-all", default=None, panel=LAYOUT, phase="serve", choices=EXCHANGES, former=("moe-a2a-backend",), name="exchange")
    overlap: OptText = field("choice", "Serving: two-batch hides the all-to-all of half a batch behind the other half's computation", default=None, panel=LAYOUT, phase="serve", choices=OVERLAPS)


class ExpertLayout(Group):
    """Expert parallel size."""

    ep: OptNumber = field("count", "Expert parallel size (inside dp; in training over tp x dp where dp is too small).", default=None, panel=LAYOUT, former=("expert-parallel-size", "ep-size", "expert-model-parallel-size"))


class TrainingLayout(Group):
    """Micro-batches, pipeline schedule and recomputation of training."""

    expert_tp: OptNumber = field("count", "Tensor ranks that split an expert's matrices; tp, or 1 where ep needs the tensor ranks.", default=None, panel=LAYOUT, former=("etp", "expert-tensor-parallel-size"))
    shared_expert_overlap: OptSwitch = field("switch", "Shared experts overlap with the MoE all-to-all (Megatron-LM's --moe-shared-expert-overlap).", default=None, panel=LAYOUT, phase="train", fills="shared_overlap")
    micro_batch_size: OptNumber = field("count", "Sequences per replica and micro-batch.", default=None, panel=LAYOUT, phase="train", former=("mbs",), name="micro-batch")
    virtual_stages: OptNumber = field("count", "Interleaved stages per device.", default=None, panel=LAYOUT, phase="train", former=("num-virtual-stages-per-pipeline-rank", "vpp"))
    ep_overlap: OptSwitch = field("switch", "Expert all-to-all overlaps other microbatches (Megatron Core's --overlap-moe-expert-parallel-comm); by default as the training stack does.", default=None, panel=LAYOUT, phase="train")
    tp_overlap: OptSwitch = field("switch", "Matmuls overlap the collectives of tensor parallelism inside a host (Megatron-LM's --tp-comm-overlap); by default as the training stack does.", default=None, panel=LAYOUT, phase="train")
    recompute: OptText = field("choice", "Activation recomputation", default=None, panel=LAYOUT, phase="train", choices=RECOMPUTE, former=("recompute-granularity",))
    recompute_modules: OptText = field("list", "With selective: core_attn (default), mla_up_proj, mlp, moe, moe_act, ...", default=None, panel=LAYOUT, phase="train")
    recompute_num_layers: OptNumber = field("count", "With full: layers of the model that are recomputed; all by default.", default=None, panel=LAYOUT, phase="train", name="recompute-layers")
    pipeline_schedule: OptText = field("choice", "Pipeline schedule", default=None, panel=LAYOUT, phase="train", choices=SCHEDULES, name="schedule")
    layers_per_stage: OptText = field("list", "Layers of each pipeline stage when unequal, such as 11,12,12,11; or embedding, loss, embedding+loss: equal, with these counted as layers.", default=None, panel=LAYOUT, phase="train", name="stages")
    cp_algorithm: OptText = field("choice", "How --cp splits the sequence", default=None, panel=LAYOUT, phase="train", choices=RINGS, former=("cp-comm-type",), name="ring")
    placement: OptText = field("choice", "Order of the axes over the devices, innermost first: which axis crosses which network tier", default=None, panel=LAYOUT, phase="train", choices=PLACEMENTS)
    offload: OptText = field("word", "What is offloaded to host memory: none, optimizer, activations, activations:LAYERS or optimizer+activations.", default=None, panel=LAYOUT, phase="train", former=("cpu-offload",))


class HostOffload(Group):
    """Weights, experts and caches in host memory."""

    gpu_layers: OptNumber = field("count", "Serving: layers on the device (llama.cpp -ngl); the others, their cache and the LM head stay on the host.", default=None, panel=LAYOUT, phase="serve", least=0, fills="gpu_layers", also=("ngl",), former=("n-gpu-layers",), name="offload-layers")
    expert_offload: OptText = field("word", "Serving: host, or host:LAYERS (llama.cpp --cpu-moe, --n-cpu-moe): routed experts stay in host memory.", default=None, panel=LAYOUT, phase="serve", name="experts-on")
    host_cpu: OptText = field("name", "The host's CPU and its memory, for what is offloaded (ryzen-9-9950x: two channels of DDR5-5600).", default=None, panel=LAYOUT, name="host")


class TrainingMemory(Group):
    """Chunked loss and MLP, ZeRO and sequence parallelism."""

    loss_chunks: OptNumber = field("count", "Chunks of the loss; only one chunk's logits are in memory.", default=None, panel=LAYOUT, phase="train")
    mlp_chunks: OptNumber = field("count", "With full recomputation: chunks of tokens that an MLP processes one after the other (tiled MLP).", default=None, panel=LAYOUT, phase="train")
    zero: OptNumber = field("stage", "ZeRO stage", default=None, panel=LAYOUT, phase="train", choices=("0", "1", "2", "3"), former=("zero-stage",))
    dp_shard: OptNumber = field("count", "Replicas that ZeRO shards over (HSDP); omitted: all, or fewer where that makes ZeRO-3 faster.", default=None, panel=LAYOUT, phase="train", former=("shard-group",), name="shard")
    sequence_parallel: OptSwitch = field("switch", "Split activations outside TP too.", default=None, panel=LAYOUT, phase="train", former=("sp",))


class Batch(Group):
    """Sequences of a step, and input of a request."""

    batch: OptNumber = field("count", "Sequences: global batch in training, concurrent per replica in serving; 4M-tokens (4 x 2^20) works too.", default=None, panel=LOAD, former=("global-batch-size", "gbs", "batch-size"))
    prompt: OptNumber = field("length", "Prompt tokens; 4k is 4096.", default=None, panel=LOAD, phase="serve", former=("isl", "input-len", "random-input-len"))


class Images(Group):
    """Images of a prompt, or made by a diffusion model."""

    num_images: OptNumber = field("pictures", "Images in each prompt, for a model with a vision encoder (1 with --image-size).", default=None, panel=LOAD, name="images")
    image_size: OptText = field("pixels", "Size of each image, such as 1024x768: it decides patches, tiles and tokens; for a diffusion model, of the image made.", default=None, panel=LOAD, name="image")
    diffusion_steps: OptNumber = field("count", "Diffusion: sampler steps, each a pass over the image; the model's own by default.", default=None, panel=LOAD, name="steps")
    cfg: OptSwitch = field("switch", "Diffusion: classifier-free guidance, which runs every step twice.", default=None, panel=LOAD, name="guidance")


class Lengths(Group):
    """Output of a request; sequences and tokens of a training run."""

    output: OptNumber = field("length", "Output tokens.", default=None, panel=LOAD, phase="serve", least=0, former=("osl", "output-len", "random-output-len"))
    seq_len: OptNumber = field("length", "Training sequence length; 4k is 4096.", default=None, panel=LOAD, phase="train", former=("seq-length",), name="seq")
    doc_lengths: OptText = field("list", "Lengths of documents packed into a training sequence, equally common (2k, or 512,2k,8k); attention is masked between them.", default=None, panel=LOAD, phase="train", name="lengths")
    tokens: OptNumber = field("amount", "Tokens of the whole training run, for its time and cost.", default=None, least=1, panel=LOAD, phase="train", former=("train-tokens",))


class Money(Group):
    """Price of a device-hour, memory of a device and paid utilization."""

    price: OptNumber = field("price", "USD per device-hour; or a provider, a kind (on-demand, spot, reserved-1y, reserved-3y) or both: aws, spot, 'verda spot'.", default=None, panel=LOAD)
    device_memory: OptNumber = field("room", "Memory of a device in bytes, instead of the file's (28GB of a 36GB MacBook).", default=None, panel=LAYOUT, name="memory")
    region: OptText = field("word", "Cloud region or country, for the price and the carbon of its electricity: us-east-1, europe-west4, DEU.", default=None, panel=LOAD)
    electricity: OptNumber = field("electricity", "Price of electricity, such as '0.09 USD/kWh', for its part of the dollars.", default=None, panel=LOAD)
    power_cap: OptNumber = field("watts", "Power limit of a device, such as 500W: peak rates and power fall together, memory bandwidth stays.", default=None, panel=NUMBERS)
    host_factor: OptNumber = field("number", "Power of a server over that of its chips (1.6; measured 1.4 to 2.1).", default=None, panel=NUMBERS, least=1)
    pue: OptNumber = field("number", "Power of the data center over that of its servers (1.09).", default=None, panel=NUMBERS, least=1)
    utilization: OptNumber = field("share", "Fraction of paid time that is busy, for the cost per token.", default=None, panel=LOAD, fills="utilization", name="utilisation")


class Load(Group):
    """Arrivals of requests, and prompt tokens that are cached."""

    concurrency: OptNumber = field("count", "Closed loop: requests in flight per replica, each followed by the next; or max.", default=None, panel=LOAD, phase="serve", choices=("max",), former=("max-concurrency", "users"))
    qps: OptNumber = field("rate", "Open loop: requests per second over all replicas.", default=None, panel=LOAD, phase="serve", former=("request-rate", "rps"))
    prefix_hit_rate: OptNumber = field("fraction", "Fraction of prompt tokens found in the prefix cache: less prefill, no less memory.", default=None, panel=LOAD, phase="serve", former=("hit-rate",), name="prefix-hit")


class KVOffload(Group):
    """Tiers that caches of idle sessions are offloaded to."""

    kv_offload: OptText = field("text", "Where caches of idle sessions are kept, per device, the nearest tier first: host=256GB@50GB/s,disk=2TB@7GB/s.", default=None, panel=LOAD, phase="serve", name="kv-tier")


class Sessions(Group):
    """Sessions that come back."""

    sessions: OptNumber = field("count", "With --kv-offload: sessions of a replica that come back, active or not; omitted: as many as device and tiers keep.", default=None, panel=LOAD, phase="serve", former=("num-sessions",))


class ServedAdapters(Group):
    """LoRA adapters served side by side."""

    num_loras: OptNumber = field("count", "LoRA adapters served together, all resident; each sequence uses one (--lora-rank, --lora-target-modules).", default=None, panel=LOAD, phase="serve", former=("max-loras",), name="adapters")


class ClosedLoop(Group):
    """Further terms of a closed loop."""

    requests_per_client: OptNumber = field("rate", "Closed loop: requests that each client sends in all (10), the first in a burst; inf is steady state.", default=None, panel=LOAD, phase="serve", choices=("inf",), least=1, name="prompts-per-slot")
    fixed_lengths: OptSwitch = field("switch", "Closed loop: all requests have one length, so an engine that prefills first runs in lockstep.", default=None, panel=LOAD, phase="serve", name="equal-lengths")


class TrainingState(Group):
    """Bytes of gradients and optimizer state."""

    gradient_bytes: OptNumber = field("size", "Bytes per parameter of gradients: 2 where the framework's recipes reduce them so (Megatron-Bridge), else 4.", default=None, panel=NUMBERS, phase="train")
    optimizer_bytes: OptNumber = field("size", "Bytes per parameter of optimizer state: what the framework's recipes keep (10 in NeMo of 2024 and on TPUs), else 12.", default=None, panel=NUMBERS, phase="train")
    optimizer: OptText = field("word", "Optimizer, instead of --optimizer-bytes: adamw, adamw-bf16, adamw-8bit, adamw-pure, adafactor, lion, muon, soap, ...", default=None, panel=NUMBERS, phase="train")


class ExpertBalance(Group):
    """Balance of experts."""

    expert_imbalance: OptNumber = field("number", "Tokens of the busiest expert device over the mean; serving estimates it where it is not given.", default=None, panel=NUMBERS, least=1, name="imbalance")


class TrainingRecipe(Group):
    """Expert capacity and what is trained."""

    capacity_factor: OptNumber = field("number", "Training: capacity of an expert over its even share of tokens; tokens above it are dropped, slots below it are padded.", default=None, panel=NUMBERS, phase="train", former=("moe-expert-capacity-factor",))
    recipe: OptText = field("choice", "What is trained", default=None, panel=NUMBERS, phase="train", choices=RECIPES)


class Adapters(Group):
    """Rank and target modules of LoRA adapters."""

    lora_rank: OptNumber = field("count", "Rank of LoRA adapters, trained or served (16).", default=None, panel=NUMBERS)
    lora_target_modules: OptText = field("choice", "Modules that have adapters", default=None, panel=NUMBERS, choices=LORA_TARGETS, name="lora-targets")


class CountedFlops(Group):
    """FLOPs that MFU counts."""

    attention_flops: OptText = field("choice", "Which pairs MFU counts: causal (half of S^2) or full.", default=None, panel=NUMBERS, choices=("causal", "full"))


class ServingEngine(Group):
    """Serving engine."""

    engine: OptText = field("word", "Serving engine: python-server (default), cuda-graph, vllm, sglang, trtllm, trtllm-cpp; llamacpp (GGUF), mlx, exllamav3, ...", default=None, panel=ENGINE, phase="serve")
    gpu_memory_utilization: OptNumber = field("share", "Fraction of memory for weights and KV cache (vllm, sglang), or of what weights leave for the cache (trtllm), instead of the engine's.", default=None, panel=ENGINE, phase="serve", former=("mem-fraction-static", "kv-cache-free-gpu-memory-fraction"))
    max_num_seqs: OptNumber = field("count", "Sequences that a replica runs at once, instead of the engine's; under a load the others queue.", default=None, panel=ENGINE, phase="serve", fills="max_sequences", former=("max-running-requests", "max-batch-size"))


class Scheduling(Group):
    """Speculative decoding, and scheduler settings of an estimate."""

    speculative_method: OptText = field("word", "Speculative decoding: mtp, eagle, or a draft model; with --acceptance-rate.", default=None, panel=ENGINE, phase="serve", former=("speculative-algorithm",), name="speculate")
    num_speculative_tokens: OptNumber = field("count", "Draft tokens of each verification (1).", default=None, panel=ENGINE, phase="serve", former=("speculative-num-draft-tokens",), name="draft-tokens")
    acceptance_rate: OptNumber = field("fraction", "Fraction of draft tokens that the target accepts, each given that those before were accepted.", default=None, panel=ENGINE, phase="serve", name="acceptance")
    max_num_batched_tokens: OptNumber = field("count", "Prompt tokens of one step (chunked prefill), instead of the engine's.", default=None, panel=ENGINE, phase="serve", former=("chunked-prefill-size",), name="token-budget")
    scheduler_config: OptText = field("list", "Settings of the engine's scheduler that TTFT under load depends on: poll_steps=30,stream_steps=10,hold_steps=20,hold_share=0.9, ...", default=None, panel=ENGINE, phase="serve", name="scheduler")


class Framework(Group):
    """Training framework."""

    framework: OptText = field("word", "Training framework: megatron-2022, nemo-2024, deepspeed, llm-foundry, pytorch, torchtitan+async, ...", default=None, panel=ENGINE, phase="train", name="software")


class Bounds(Group):
    """Bound of the interval that limits are held to, and efficiency."""

    bound: OptText = field("choice", "Bound of the 80% interval that ranking, choices and limits use: pessimistic (default), expected or floor.", default=None, panel=NUMBERS, choices=BOUNDS, former=("hold",))
    efficiency: OptText = field("choice", "expected, or ideal: every kernel at the roofline.", default=None, panel=ENGINE, choices=("expected", "ideal"))
    flash_attention: OptSwitch = field("switch", "Fused attention, or scores written to memory.", default=None, panel=ENGINE, name="flash")


class Dropout(Group):
    """Dropout in training."""

    dropout: OptSwitch = field("switch", "Dropout masks in memory and traffic.", default=None, panel=ENGINE, phase="train")
# fmt: on


class Serving(
    Bounds, ServingEngine, Adapters, ExpertBalance, ServedAdapters, KVOffload, Money, Images, HostOffload, ExpertLayout, ServingLayout, Layout, Formats, Subject
):  # fmt: skip
    """Options that estimates and simulations share: model, chip, formats, layout, engine, adapters, price."""


class EstimateOptions(
    Dropout, Bounds, Framework, Scheduling, ServingEngine, CountedFlops, Adapters, TrainingRecipe, ExpertBalance, TrainingState, ClosedLoop,
    ServedAdapters, Sessions, KVOffload, Load, Money, Lengths, Images, Batch, TrainingMemory, HostOffload, TrainingLayout, ExpertLayout,
    ServingLayout, Layout, Formats, Phases, Subject,
):  # fmt: skip
    """Every option of an estimate. The order, the last group first, is that of axes of a sweep, the first outermost."""


OPTIONS: dict[str, Option] = {option.name: option for option in EstimateOptions.fields().values()}
_NAMES = {name: option for option in OPTIONS.values() for name in option.names}


def find(name: str, help: str = "`roofline estimate --help` lists them") -> Option:
    """The option of that name, with dashes or underscores. Raises UsageError with near misses."""
    option = _NAMES.get(name.replace("_", "-"))
    if option is None:
        raise unknown("option", name, [known.long for known in OPTIONS.values()], help)
    return option
