"""Options as written (command line, plan file, sweep axis, Python) -> Request: how each option is read, and what does not go together."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import RooflineWarning, UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.formulas.training import batch_sequences
from rooflinecli.quantization.formats import FORMATS, experts_alone
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import split_count
from rooflinecli.specs.options import KINDS, OPTIONS, Option, find
from rooflinecli.specs.parse_values import LARGEST, MOST_THINGS, in_tokens, number
from rooflinecli.specs.request import MOST, PHASES, SEQ, Request

MOST_PIXELS = 65536  # a side of an image
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off")


def request(options: dict[str, Any]) -> Request:
    """A Request from options by any of their names; None values are as if not given.

    Raises UsageError, with the option, for one that does not exist, a value it cannot take and options that exclude each
    other; DataError for a broken file. Warns with a Remark of what a person may not have meant.
    """
    given = named(options)
    fields = {OPTIONS[name].field: value(OPTIONS[name], text) for name, text in given.items()}
    check_conflicts(given, fields.get("phases", PHASES))
    model = fields["model"]
    reader = (
        "llamacpp"
        if model.checkpoint is not None and model.checkpoint.format == "gguf"
        else _reader(fields.get("weight_dtype"))
    )
    if reader:
        fields.setdefault("engine", reader)
    if "batch" in given and in_tokens(given["batch"]):
        fields["batch"] = whole_sequences(fields["batch"], fields.get("seq"), model)
    warn_about(model, fields)
    return Request(**fields)


def named(options: dict[str, Any], help: str = "`roofline estimate --help` lists them") -> dict[str, Any]:
    """Options by the names of the table. Raises UsageError for one that does not exist, and without a model or a chip."""
    given: dict[str, Any] = {}
    for name, written in options.items():
        option = find(name, help)
        if written is not None and given.setdefault(option.name, written) is not written:
            raise UsageError(f"{option.name} is given twice, once as {name}; keep one", option.name)
    _spread(given)
    for name, what in (("model", "model"), ("hw", "--hw")):
        if name not in given:
            registry = "models" if name == "model" else "hardware"
            raise UsageError(f"no {what} given; name one (`roofline {registry}` lists them)", name)
    return given


def _spread(given: dict[str, Any]) -> None:
    """`--hw 8xH100` is `--hw H100 -n 8`. Raises UsageError where -n says otherwise."""
    count, chip = split_count("hardware", str(given.get("hw", "")))
    if count is None:
        return
    if "n" in given and value(OPTIONS["n"], given["n"]) != count:
        raise UsageError(f"--hw {given['hw']} says {count} devices, -n {given['n']}; leave one of them out", "hw")
    given |= {"hw": chip, "n": count}


def value(option: Option, written: Any, flag: str = "") -> Any:
    """What an option means, in SI. `flag` is how it was typed where that is not its own. Raises UsageError."""
    flag = flag or option.flag
    if option.numeric or option.kind in ("stage", "pictures"):
        found = parse_number(option, written, flag)
        check_bounds(option, found, flag)
        return found if option.numeric else int(found)
    if option.kind == "name":
        return _loaded(option, str(written))
    if option.kind == "phases":
        return phases(written)
    if option.kind == "pixels":
        return _pixels(option, written, flag)
    return _switch(option, written, flag) if option.kind == "switch" else parse_choice(option, written, flag)


def parse_number(option: Option, written: Any, flag: str) -> float:
    """The number an option was given, or what the word that may stand for one means. Raises UsageError."""
    if option.numeric and written in option.choices:
        return MOST
    return number(flag, written, option.kind, option.name)


def check_bounds(option: Option, found: float, flag: str) -> None:
    """Raises UsageError for a number outside the option's bounds."""
    why = _outside(option, found)
    if why:
        raise UsageError(f"{flag} {found:g}: {why}", option.name)


def _outside(option: Option, found: float) -> str:
    """The bound that a number breaks, or nothing."""
    kind = KINDS[option.kind]
    least = kind.least if option.least is None else option.least
    if option.kind == "stage":
        return "" if f"{found:g}" in option.choices else f"expected {', '.join(option.choices)}"
    if kind.most is not None and not (kind.above or 0.0) < found <= kind.most:
        return "expected a share above 0 and up to 1"
    if kind.above is not None and found <= kind.above:
        return "must be above zero"
    if least is not None and found < least:
        return f"must be at least {least:g}" if least else "must not be negative"
    largest = option.most or (MOST_THINGS if kind.whole else LARGEST)
    return f"exceeds the supported maximum of {largest:g}" if largest < found < MOST else ""


def parse_choice(option: Option, written: Any, flag: str = "") -> str:
    """A named choice as written; raises UsageError for one that does not exist."""
    said = str(written) if option.kind == "text" else str(written).lower()
    if option.kind == "choice" and said not in option.choices:
        raise UsageError(f"{flag or option.flag} {written}: expected {' or '.join(option.choices)}", option.name)
    if option.kind == "dtype" and said not in FORMATS and not (option.name == "weight-dtype" and _weights(said)):
        known = (*FORMATS, *_schemes()) if option.name == "weight-dtype" else FORMATS
        raise unknown("dtype", said, known, option=option.name)
    return said


def _schemes() -> Collection[str]:
    from rooflinecli.quantization.schemes import schemes

    return schemes()


def _reader(said: str | None) -> str:
    """The engine that alone reads a format of weights (a GGUF file type, exl2, exl3, mlx); empty where several do."""
    if said is None:
        return ""
    from rooflinecli.quantization.gguf_mix import file_type
    from rooflinecli.quantization.schemes import ALONE, parse, schemes

    if file_type(said) is not None:
        return "llamacpp"
    stored = parse(said)
    method = (stored.method or "") if stored is not None else ""
    return schemes()[method].engine if method.startswith(ALONE) else ""


def _weights(said: str) -> bool:
    """Whether it is a format of weights alone: a GGUF file type or what a tool writes. Raises UsageError for bits that it has not."""
    from rooflinecli.quantization.gguf_mix import file_type
    from rooflinecli.quantization.schemes import parse

    return file_type(said) is not None or parse(said) is not None


def phases(written: Any) -> tuple[str, ...]:
    """Phases in the order they are reported. Raises UsageError for an unknown one."""
    items = [written] if isinstance(written, str) else written
    wanted = [p.strip() for item in items for p in item.split(",")]
    for phase in wanted:
        if phase not in PHASES:
            raise unknown("phase", phase, PHASES, option="phase")
    return tuple(p for p in PHASES if p in wanted)


def _loaded(option: Option, name: str) -> Any:
    try:
        return load_model(name) if option.name == "model" else load_hardware(name)
    except UsageError as error:
        error.option = option.name
        raise


def _pixels(option: Option, written: Any, flag: str) -> str:
    """WIDTHxHEIGHT in pixels. Raises UsageError."""
    sides = str(written).strip().lower().split("x")
    if len(sides) != 2 or not all(side.isdecimal() and 1 <= int(side) <= MOST_PIXELS for side in sides):
        raise UsageError(
            f"{flag} {written}: expected WIDTHxHEIGHT in pixels, up to {MOST_PIXELS} each, such as 1024x768",
            option.name,
        )
    return "x".join(str(int(side)) for side in sides)


def _switch(option: Option, written: Any, flag: str) -> bool:
    said = str(written).strip().lower()
    if said not in (*_YES, *_NO):
        raise UsageError(f"{flag} {written}: expected yes or no", option.name)
    return said in _YES


def check_conflicts(given: Collection[str], phases: tuple[str, ...]) -> None:
    """Raises UsageError for two options that say the same thing, of which one would be dropped."""
    if {"concurrency", "qps"} <= set(given):
        raise UsageError("--concurrency and --qps each say the load; give one of them", "qps")
    if {"optimizer", "optimizer-bytes"} <= set(given):
        raise UsageError("--optimizer says how many bytes it keeps; leave --optimizer-bytes out", "optimizer-bytes")
    for load in {"concurrency", "qps"} & set(given) if "batch" in given and "train" not in phases else ():
        raise UsageError(f"--batch and --{load} each say how many sequences are served; give one of them", load)
    idle = [OPTIONS[name].flag for name in given if OPTIONS[name].phase == "train"] if "train" not in phases else []
    if idle:
        warn(
            f"{', '.join(idle)} belong{'s' if len(idle) == 1 else ''} to training and change{'s' if len(idle) == 1 else ''} nothing here"
        )


def whole_sequences(tokens: Number, seq: Number | None, model: ModelSpec) -> Number:
    """The whole number of sequences nearest to a batch in tokens; warns where that is not the batch asked for."""
    length = seq if seq is not None else min(SEQ, float(model.max_context or SEQ))
    count = batch_sequences(tokens, length)
    if num.plain(count) and tokens % length:
        warn(
            f"--batch of {tokens:.15g} tokens is taken as {count:.15g}, the nearest number of whole sequences of {length:g}"
        )
    return count


def warn_about(model: ModelSpec, fields: dict[str, Any]) -> None:
    """Warn of a context longer than the model's and of a format that is seldom meant."""
    longest = fields.get("prompt", 0.0) + fields.get("output", 0.0)
    if model.max_context and longest > model.max_context and model.positions.kind != "learned":  # those are refused
        warn(
            f"--prompt and --output come to {longest:,.0f} tokens, more than the {model.max_context:,} of {model.name}"
        )
    dtype = fields.get("dtype")
    theirs = experts_alone(dtype, fields.get("weight_dtype"), model.quantization, training=True)
    if dtype and FORMATS[dtype][0] < 1 and "weight_dtype" not in fields and not theirs:
        warn(
            f"--dtype {dtype} narrows activations too; for quantized weights alone (GPTQ, AWQ, GGUF) use --weight-dtype {dtype}"
        )


def warn(text: str) -> None:
    """A Remark, once for each text."""
    warnings.warn(text, RooflineWarning, stacklevel=2)
