"""The options of an estimate, once: what each is called, which field of a Request it fills, how it is read, what it may be.

The command line, `--help`, shell completion, plan files and their schema, sweeps, searches and the Python API all read this
table; it is imported whenever a command starts, so it imports nothing slow.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.layout import EXCHANGES, LORA_TARGETS, OVERLAPS, RECIPES, RECOMPUTE, RINGS, SCHEDULES
from rooflinecli.specs.request import HOLDS, PHASES


@dataclass(frozen=True, eq=False, repr=False)  # the plainest, since every start makes them
class OptionKind:
    """What stands for a value in --help, the unit it is read in ('' for words), and the bounds of most such values.

    `above` is a bound that the value itself may not take.
    """

    metavar: str
    unit: str = ""
    whole: bool = False
    least: float | None = None
    most: float | None = None
    above: float | None = None


KINDS = {
    "name": OptionKind("NAME"),
    "word": OptionKind("NAME"),
    "text": OptionKind("TIERS"),  # as "word", with its capitals
    "phases": OptionKind("PHASE"),
    "pixels": OptionKind("WxH"),
    "pictures": OptionKind("COUNT", "tokens", whole=True, least=0),
    "choice": OptionKind("CHOICE"),
    "stage": OptionKind("CHOICE", "tokens", whole=True),
    "dtype": OptionKind("FORMAT"),
    "list": OptionKind("LIST"),
    "switch": OptionKind(""),
    "count": OptionKind("COUNT", "tokens", whole=True, least=1),
    "length": OptionKind("TOKENS", "length", whole=True, least=1),
    "amount": OptionKind("TOKENS", "tokens", least=0),
    "number": OptionKind("NUMBER", "1", least=0),
    "size": OptionKind("BYTES", "B", least=0),
    "room": OptionKind("BYTES", "B", above=0),
    "rate": OptionKind("RATE", "1", above=0),
    "price": OptionKind("MONEY", "USD/h", least=0),
    "share": OptionKind("SHARE", "1", above=0, most=1),
}
LOAD, LAYOUT, NUMBERS, ENGINE, OUTPUT = "Model and load", "Layout", "Numbers", "Engine", "Output"
PANELS = (LOAD, LAYOUT, NUMBERS, ENGINE, OUTPUT)


@dataclass(frozen=True, eq=False, repr=False)
class Option:
    """One option. `phase` is "train" for what only training has: a plan file that names no phase means training by it.

    `choices` are the words it may be; for a number, those that may stand instead of one. `least` and `most` replace the kind's bounds.
    `fills` is the field of Request, where it is not the name; `also` are other names, for the file and the API too.
    """

    name: str
    kind: str
    panel: str
    help: str
    phase: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    short: str = ""
    fills: str = ""
    also: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """As a person types it."""
        return self.short or f"--{self.name}"

    @property
    def parameter(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")

    def words(self, written: Any) -> list[str]:
        """The option on a command line, with its value."""
        if isinstance(written, bool):
            return [f"--{'' if written else 'no-'}{self.name}"]
        return [
            word for item in (written if isinstance(written, list) else [written]) for word in (self.flag, str(item))
        ]

    @property
    def field(self) -> str:
        return self.fills or self.parameter

    @property
    def numeric(self) -> bool:
        """Whether a sweep runs over it as an array; the others change what is computed."""
        return bool(KINDS[self.kind].unit) and self.kind not in ("stage", "pictures")


# The order is that of --help inside a panel, and of the axes of a sweep, the first outermost.
_ROWS = (
    Option("model", "name", LOAD, "A name or alias (`roofline models`), a YAML path, or a Hugging Face config.json."),
    Option("hw", "name", LOAD, "A name or alias (`roofline hardware`), or a YAML path.", fills="hardware", also=("hardware",)),
    Option("phase", "phases", LOAD, "train, prefill, decode; repeat or omit for all.", choices=PHASES, fills="phases"),
    Option("dtype", "dtype", NUMBERS, "Matmuls with their inputs, weights and activations: bf16, fp16, fp8, int8, ..."),
    Option("kv-dtype", "dtype", NUMBERS, "Number format of the KV cache."),
    Option("state-dtype", "dtype", NUMBERS, "Recurrent state of hybrid models in memory; omitted: the model's own (fp32)."),
    Option("weight-dtype", "dtype", NUMBERS, "Weights alone: int8, int4, fp8, a GGUF type (q4_k_m), or as a tool writes them: awq, gptq-4-g32, exl3-3.5, mlx-8, nf4-double, hqq, ..."),
    Option("n", "count", LAYOUT, "Devices; omitted: the fewest that hold it.", most=1e7, short="-n", fills="devices", also=("devices",)),
    Option("tp", "count", LAYOUT, "Tensor parallel size."),
    Option("pp", "count", LAYOUT, "Pipeline stages."),
    Option("dp", "count", LAYOUT, "Data parallel replicas."),
    Option("cp", "count", LAYOUT, "Context parallel size."),
    Option("attention-dp", "switch", LAYOUT, "Serving: attention data parallel, experts over all ranks that -n or --tp and --dp give."),
    Option("redundant-experts", "count", LAYOUT, "Serving: further copies of busy experts, over all ranks; balances them.", least=0),
    Option("exchange", "choice", LAYOUT, "Serving: what moves tokens to experts", choices=EXCHANGES),
    Option("overlap", "choice", LAYOUT, "Serving: two-batch hides the exchange of half a batch behind the other's work", choices=OVERLAPS),
    Option("ep", "count", LAYOUT, "Expert parallel size (inside dp; in training over tp x dp where dp is too small)."),
    Option("expert-tp", "count", LAYOUT, "Tensor ranks that split an expert's matrices; tp, or 1 where ep needs the tensor ranks.", "train"),
    Option("shared-expert-overlap", "switch", LAYOUT, "Shared experts work beside the exchange of tokens (Megatron-LM's --moe-shared-expert-overlap).", "train", fills="shared_overlap"),
    Option("micro-batch", "count", LAYOUT, "Sequences per replica and pipeline slot.", "train"),
    Option("virtual-stages", "count", LAYOUT, "Interleaved stages per device.", "train"),
    Option("recompute", "choice", LAYOUT, "Activation recomputation", "train", RECOMPUTE),
    Option("recompute-modules", "list", LAYOUT, "With selective: core_attn (default), mla_up_proj, mlp, moe, moe_act, ...", "train"),
    Option("recompute-layers", "count", LAYOUT, "With full: layers of the model that compute again; all by default.", "train"),
    Option("schedule", "choice", LAYOUT, "Pipeline schedule", "train", SCHEDULES),
    Option("stages", "list", LAYOUT, "Layers of each pipeline stage when uneven, such as 11,12,12,11; or embedding, loss, embedding+loss: equal, with these counted as layers.", "train"),
    Option("ring", "choice", LAYOUT, "How --cp splits the sequence", "train", RINGS),
    Option("offload", "word", LAYOUT, "What lives on the host: none, optimizer, activations, activations:LAYERS or optimizer+activations.", "train"),
    Option("offload-layers", "count", LAYOUT, "Serving: layers on the device (llama.cpp -ngl); the others, their cache and the head stay on the host.", fills="gpu_layers", least=0, also=("ngl",)),
    Option("experts-on", "word", LAYOUT, "Serving: host, or host:LAYERS (llama.cpp --cpu-moe, --n-cpu-moe): routed experts stay in the host's memory."),
    Option("host", "name", LAYOUT, "The machine's CPU and its memory, for what stays on the host (ryzen-9-9950x: two channels of DDR5-5600)."),
    Option("loss-chunks", "count", LAYOUT, "Parts in which the loss is taken; one part's logits are held.", "train"),
    Option("mlp-chunks", "count", LAYOUT, "With full recomputation: parts of the tokens that a feed-forward takes one after the other (tiled MLP).", "train"),
    Option("zero", "stage", LAYOUT, "ZeRO stage", "train", ("0", "1", "2", "3")),
    Option("shard", "count", LAYOUT, "Replicas that ZeRO shards over (HSDP); all by default.", "train"),
    Option("sequence-parallel", "switch", LAYOUT, "Split activations outside TP too.", "train"),
    Option("batch", "count", LOAD, "Sequences: global batch in training, concurrent per replica in serving; 4M-tokens works too."),
    Option("prompt", "length", LOAD, "Prompt tokens; 4k is 4096."),
    Option("images", "pictures", LOAD, "Images in each prompt, for a model with a tower that reads them (1 with --image).", least=0),
    Option("image", "pixels", LOAD, "Size of each image, such as 1024x768: it decides patches, tiles and tokens; of the one made, for a diffusion model."),
    Option("steps", "count", LOAD, "Diffusion: steps of the sampler, each a pass over the image; the model's own by default."),
    Option("guidance", "switch", LOAD, "Diffusion: classifier-free guidance, which runs every step twice."),
    Option("output", "length", LOAD, "Output tokens.", least=0),
    Option("seq", "length", LOAD, "Training sequence length; 4k is 4096.", "train"),
    Option("lengths", "list", LOAD, "Lengths of documents packed into a training sequence, equally common (2k, or 512,2k,8k); attention is masked between them.", "train"),
    Option("tokens", "amount", LOAD, "Tokens of the whole training run, for its time and bill.", "train"),
    Option("price", "price", LOAD, "USD per device-hour, instead of the file's."),
    Option("memory", "room", LAYOUT, "Memory of a device in bytes, instead of the file's (a MacBook of 36GB lends its GPU 28GB)."),
    Option("utilisation", "share", LOAD, "Share of paid time that is busy, for the cost per token."),
    Option("concurrency", "count", LOAD, "Closed loop: requests in flight per replica, each followed by the next; or max.", choices=("max",)),
    Option("qps", "rate", LOAD, "Open loop: requests per second over all replicas."),
    Option("prefix-hit", "share", LOAD, "Share of prompt tokens found in the prefix cache: less work of prefill, no less memory."),
    Option("kv-tier", "text", LOAD, "Where caches of idle sessions wait, per device, the nearest first: host=256GB@50GB/s,disk=2TB@7GB/s."),
    Option("sessions", "count", LOAD, "With --kv-tier: sessions of a replica that come back, under way or not; omitted: as many as device and tiers keep."),
    Option("adapters", "count", LOAD, "LoRA adapters served side by side, all resident; each sequence uses one (--lora-rank, --lora-targets)."),
    Option("prompts-per-slot", "rate", LOAD, "Closed loop: requests that each slot sends in all (10), the first in a burst; inf is steady state.", choices=("inf",), least=1),
    Option("equal-lengths", "switch", LOAD, "Closed loop: all requests are equally long, so an engine that reads prompts first runs in lockstep."),
    Option("gradient-bytes", "size", NUMBERS, "Bytes per parameter of gradients (4).", "train"),
    Option("optimizer-bytes", "size", NUMBERS, "Bytes per parameter of optimizer state (12).", "train"),
    Option("optimizer", "word", NUMBERS, "Optimizer, instead of --optimizer-bytes: adamw, adamw-bf16, adamw-8bit, adamw-pure, adafactor, lion, muon, soap, ...", "train"),
    Option("imbalance", "number", NUMBERS, "Tokens of the busiest expert device over an even share; serving works it out where it is not given.", least=1),
    Option("capacity-factor", "number", NUMBERS, "Training: every expert works on so many times its even share of tokens; those above are dropped, room below is padded.", "train", least=0),
    Option("recipe", "choice", NUMBERS, "What is trained", "train", RECIPES),
    Option("lora-rank", "count", NUMBERS, "Rank of LoRA adapters, trained or served (16)."),
    Option("lora-targets", "choice", NUMBERS, "What carries adapters", choices=LORA_TARGETS),
    Option("attention-flops", "choice", NUMBERS, "Which pairs MFU counts: causal (half of S^2) or full.", choices=("causal", "full")),
    Option("engine", "word", ENGINE, "Serving engine: python-server (default), cuda-graph, vllm, sglang, trtllm, trtllm-cpp; llamacpp (GGUF), mlx, exllamav3, ..."),
    Option("speculate", "word", ENGINE, "Speculative decoding: mtp, eagle, or a draft model; with --acceptance."),
    Option("draft-tokens", "count", ENGINE, "Tokens that the draft writes before each verification (1)."),
    Option("acceptance", "share", ENGINE, "Share of draft tokens that the target keeps, each given that those before were kept."),
    Option("token-budget", "count", ENGINE, "Tokens of prompts that one step takes in (chunked prefill), instead of the engine's."),
    Option("scheduler", "list", ENGINE, "Settings of the engine's scheduler that first tokens under load wait for: poll_steps=30,stream_steps=10,hold_steps=20,hold_share=0.9, ..."),
    Option("software", "word", ENGINE, "Training framework: megatron-2022, nemo-2024, deepspeed, llm-foundry, pytorch, torchtitan+async, ...", "train"),
    Option("hold", "choice", NUMBERS, "Which end of the interval ranks, chooses and is held to limits: pessimistic (default), expected or floor.", choices=HOLDS),
    Option("efficiency", "choice", ENGINE, "expected, or ideal: every kernel at the roofline.", choices=("expected", "ideal")),
    Option("flash", "switch", ENGINE, "Fused attention, or scores written to memory."),
    Option("dropout", "switch", ENGINE, "Dropout masks in memory and traffic.", "train"),
)  # fmt: skip
# what a simulation does not take: training's, what speaks of means, or of work that the simulated engine does not do
NOT_SIMULATED = (
    *(option.name for option in _ROWS if option.phase == "train"),
    "phase", "batch", "tokens", "attention-flops", "prompts-per-slot", "equal-lengths", "token-budget", "scheduler", "prefix-hit",
    "sessions", "speculate", "draft-tokens", "acceptance",
)  # fmt: skip
FLAGS = {"shard": "--shard-group"}  # where they differ in a sweep: its own --shard says which part of it to run
OPTIONS = {option.name: option for option in _ROWS}
_NAMES = {name: option for option in _ROWS for name in (option.name, *option.also)}


def find(name: str, help: str = "`roofline estimate --help` lists them") -> Option:
    """The option of that name, with dashes or underscores. Raises UsageError with near misses."""
    option = _NAMES.get(name.replace("_", "-"))
    if option is None:
        raise unknown("option", name, _NAMES, help)
    return option
