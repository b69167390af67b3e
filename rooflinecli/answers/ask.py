"""Options as written (command line, plan file, sweep axis) -> Request. The one place that knows how each is read."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli import units
from rooflinecli.errors import UsageError, unknown
from rooflinecli.specs.dtypes import FORMATS
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.plan import LORA_TARGETS, OFFLOADS, RECIPES, RECOMPUTE, RINGS, SCHEDULES
from rooflinecli.specs.request import MOST, PHASES, Request

# option -> (field of Request, how it is read)
NUMBERS = {
    "n": "devices",
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "cp": "cp",
    "ep": "ep",
    "micro-batch": "micro_batch",
    "virtual-stages": "virtual_stages",
    "batch": "batch",
    "prompt": "prompt",
    "output": "output",
    "seq": "seq",
    "tokens": "tokens",
    "price": "price",
    "utilisation": "utilisation",
    "gradient-bytes": "gradient_bytes",
    "optimizer-bytes": "optimizer_bytes",
    "shard": "shard",
    "recompute-layers": "recompute_layers",
    "imbalance": "imbalance",
    "lora-rank": "lora_rank",
    "concurrency": "concurrency",
    "qps": "qps",
}
WHOLE = tuple(
    "n tp pp dp cp ep micro-batch virtual-stages batch prompt output seq shard recompute-layers lora-rank concurrency".split()
)
WORDS = {
    "dtype": "dtype",
    "kv-dtype": "kv_dtype",
    "weight-dtype": "weight_dtype",
    "recompute": "recompute",
    "attention-flops": "attention_flops",
    "efficiency": "efficiency",
    "engine": "engine",
    "schedule": "schedule",
    "ring": "ring",
    "offload": "offload",
    "stages": "stages",
    "software": "software",
    "recipe": "recipe",
    "lora-targets": "lora_targets",
    "recompute-modules": "recompute_modules",
}
SWITCHES = {"sequence-parallel": "sequence_parallel", "flash": "flash", "dropout": "dropout"}
CHOICES = {
    "attention-flops": ("causal", "full"),
    "efficiency": ("expected", "ideal"),
    "recompute": RECOMPUTE,
    "schedule": SCHEDULES,
    "ring": RINGS,
    "offload": OFFLOADS,
    "recipe": RECIPES,
    "lora-targets": LORA_TARGETS,
}
OPTIONS = ("model", "hw", "phase", "zero", *NUMBERS, *WORDS, *SWITCHES)


def number(option: str, written: Any) -> float:
    """A count, length or price as people write it: 512, 4k, 70B, 15T, 2.5 (USD/h), 80 %. Raises UsageError with the flag."""
    if option == "concurrency" and written == "max":
        return MOST
    if isinstance(written, str):
        text = written.strip().replace(" USD/h", "").replace("-tokens", "").replace(" tokens", "")
        factor = 1024.0 if option in ("prompt", "output", "seq") and text[-1:] in "kK" and text[:-1].isdigit() else 1.0
        try:
            value = (
                float(text[:-1]) * factor
                if factor != 1.0
                else units.parse(_numeric(text), "tokens" if "%" not in text else "1")
            )
        except ValueError as error:
            raise UsageError(f"--{option} {written}: {error}") from None
    elif isinstance(written, (int, float)) and not isinstance(written, bool):
        value = float(written)
    else:
        raise UsageError(f"--{option} {written!r}: expected a number")
    if not math.isfinite(value):
        raise UsageError(f"--{option} {written}: expected a finite number")
    if option in WHOLE and value != int(value):
        raise UsageError(f"--{option} {written}: expected a whole number")
    return value


def _numeric(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def request(options: dict[str, Any]) -> Request:
    """A Request from options by their long names without dashes in front; None values are as if not given.

    Raises UsageError for an unknown option or value, DataError for a broken file.
    """
    given = {key.replace("_", "-"): value for key, value in options.items() if value is not None}
    for key in given:
        if key not in OPTIONS:
            raise unknown("option", key, OPTIONS, "`roofline estimate --help` lists them")
    for key in ("model", "hw"):
        if key not in given:
            raise UsageError(
                f"no {'model' if key == 'model' else '--hw'} given; name one (`roofline {'models' if key == 'model' else 'hardware'}` lists them)"
            )
    fields: dict[str, Any] = {NUMBERS[k]: number(k, v) for k, v in given.items() if k in NUMBERS}
    for key, name in WORDS.items():
        if key in given:
            fields[name] = word(key, given[key])
    fields |= {SWITCHES[k]: bool(v) for k, v in given.items() if k in SWITCHES}
    if "zero" in given:
        fields["zero"] = int(number("zero", given["zero"]))
    if "phase" in given:
        fields["phases"] = phases(given["phase"])
    if "batch" in given and str(given["batch"]).endswith("-tokens"):
        fields["batch"] = fields["batch"] / (fields.get("seq") or 4096.0)
    return Request(load_model(str(given["model"])), load_hardware(str(given["hw"])), **fields)


def word(key: str, value: Any) -> str:
    """A named choice as written; raises UsageError for one that does not exist."""
    word = str(value).lower()
    if key in CHOICES and word not in CHOICES[key]:
        raise UsageError(f"--{key} {value}: expected {' or '.join(CHOICES[key])}")
    if key.endswith("dtype") and word not in FORMATS:
        raise unknown("dtype", word, FORMATS)
    return word


def phases(value: Any) -> tuple[str, ...]:
    """Phases in the order they are reported. Raises UsageError for an unknown one."""
    wanted = [p.strip() for p in (value.split(",") if isinstance(value, str) else value)]
    for phase in wanted:
        if phase not in PHASES:
            raise unknown("phase", phase, PHASES)
    return tuple(p for p in PHASES if p in wanted)
