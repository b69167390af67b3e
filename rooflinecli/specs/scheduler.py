"""The scheduler of an inference engine: the `scheduler:` section of an engine file, every entry of which can be overridden.

A simulation follows all of it. The formulas of a first token (formulas/serving) take from it what has a mean: the budget, looking ahead, polls,
messages, the front end and what a stream adds to it. What they need beyond that to agree with measured runs stands on the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.specs.figure import Field, Scalar, Spec, Through, Time, Whole


def _sizes(value: object) -> object:
    """As an option has them, with strokes between: commas stand between settings."""
    if not isinstance(value, str):
        return value
    if not all(part.isdecimal() for part in value.split("/")):
        raise ValueError("write batches with strokes between them, such as 1/2/4/8")
    return tuple(int(part) for part in value.split("/"))


def _rising(value: tuple[int, ...]) -> tuple[int, ...]:
    if any(b <= a for a, b in zip((0, *value), value, strict=False)):
        raise ValueError("batches of graphs must be positive and rise")
    return value


class Scheduler(Spec):
    """Scheduler settings of a simulation, apart from step times. Counts are of tokens, steps or sequences; times in seconds."""

    policy: str = Field("vllm", "how a step is formed: a function of simulate/policies.py")
    token_budget: Whole = Field(8192, "most tokens of prompts (and, where they share a step, of decodes) in one step")
    mixed: bool = Field(False, "sglang policy: whether decodes ride along in a step with prompts")
    # fmt: off
    look_ahead: int = Field(0, "1 where a step is put together while the one before it runs, so that an arrival waits one more", ge=0, le=1)
    hold_steps: int = Field(0, "decode steps that prompts are held back while they fill less than hold_share of the budget", ge=0)
    hold_share: Scalar = Field(0.0, "share of the token budget that ends such a wait", ge=0, le=1)
    poll_steps: int = Field(1, "steps between two looks at the queue of arrivals", ge=1)
    stream_steps: int = Field(1, "tokens between two messages to the client; the first one waits for as many", ge=1)
    front: Time = Field(0.0, "seconds of front end per request before the scheduler sees it")
    per_stream: Time = Field(0.0, "seconds that each concurrent stream adds to that")
    per_token: Time = Field(0.0, "seconds that each token of a prompt adds to that: it is tokenized and handed over")
    graph_tokens: int = Field(0, "tokens of a step up to which prompts and decodes are replayed as one graph and share its weights", ge=0)
    one_pass: bool = Field(False, "whether prompts and decodes of a step are one pass, which reads weights once, as in compiled runtimes")
    graph_batches: Annotated[tuple[int, ...], Through(_sizes, before=True), Through(_rising)] = Field((), "sequences of the graphs that steps without a prompt are replayed from, such as 1/2/4/8: fewer are padded up to the next; none: as they come")
    launch: Time = Field(0.0, "seconds of the host to launch an operation of a layer, in a step with prompts and decodes that no graph replays: it takes no less than them all")
    prompt_factor: Scalar = Field(1.0, "a pass over prompts on a replica that decodes, over its price alone: two kinds of attention in a step, no graph replayed", gt=0)
    prompt_factor_moe: Scalar | None = Field(None, "the same where layers have experts", gt=0)
    first_token_error: Scalar = Field(0.5, "share by which first tokens lie beyond what seeds and step prices say, in 80% of measured runs: harness, version, prices of prompts", ge=0)
    reserve_share: Scalar = Field(0.0, "share of the tokens still to be written whose cache is set aside at admission: 0 takes pages as tokens come and preempts where none is left, 1 never preempts", ge=0, le=1)
    memory_share: Scalar = Field(0.0, "share of a device's memory for weights and cache together (vLLM's gpu-memory-utilization, SGLang's mem-fraction-static)", ge=0, le=1)
    cache_share: Scalar = Field(0.0, "share of the memory left after weights and reserve (TensorRT-LLM's free_gpu_memory_fraction); the engine's own rule where neither is given", ge=0, le=1)
    block: Whole = Field(16, "tokens of a block of the cache")
    preemption: str = Field("recompute", "what becomes of a sequence whose cache is taken: computed again, or kept on the host", pattern="^(recompute|swap)$")
    # fmt: on
    source: str = Field("documented defaults of the engine; docs/simulate.md")


OPTION, FLAG = "scheduler", "--scheduler-config"  # its key and its flag
ESTIMATED = ("graph_batches",)  # what an estimate alone follows
NAMES = tuple(name for name in Scheduler.__dataclass_fields__ if name not in ("source", *ESTIMATED))
# what the formulas of a first token follow too; the others act step by step, in a simulation
MEANS = (
    "token_budget", "look_ahead", "hold_steps", "hold_share", "poll_steps", "stream_steps", "front", "per_stream", "per_token",
    "graph_tokens", "one_pass", "launch", "prompt_factor", "prompt_factor_moe", "reserve_share", *ESTIMATED,
)  # fmt: skip


def written(settings: tuple[str, ...], names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """Settings as people write them, NAME=VALUE, several with commas between them. Raises UsageError for one that does not exist."""
    changed: dict[str, str] = {}
    for item in (part for text in settings for part in text.split(",")):
        name, equals, value = item.strip().partition("=")
        name = name.strip().replace("-", "_")
        if name in NAMES and name not in names:
            raise UsageError(
                f"{FLAG} {item}: only `roofline simulate` follows {name}; an estimate takes {', '.join(names)}", OPTION
            )
        if name in ESTIMATED and name not in names:
            raise UsageError(f"{FLAG} {item}: a simulation does not follow {name}; `roofline estimate` does", OPTION)
        if name not in names:
            raise unknown("scheduler setting", name, list(names), option=OPTION)
        if not equals:
            raise UsageError(f"{FLAG} {item}: write {name}=VALUE", OPTION)
        changed[name] = value.strip()
    return changed


def changed(own: Mapping[str, object], settings: Mapping[str, str]) -> Scheduler:
    """A scheduler with some of its entries replaced. Raises UsageError for a value that an entry cannot take."""
    from pydantic import ValidationError

    from rooflinecli.specs.validation import validated, validation_message

    try:
        return validated(Scheduler, {**own, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        text = ",".join(f"{name}={value}" for name, value in settings.items())
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{FLAG} {text}: {where}: {validation_message(first['type'], first['msg'])}", OPTION) from None
