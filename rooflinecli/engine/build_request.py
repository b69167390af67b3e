"""Options as written (command line, plan file, sweep axis, Python) -> Request: parsing, and options that exclude each other."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import RooflineWarning, UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.formulas.training import batch_sequences
from rooflinecli.quantization.formats import FORMATS, SPELLINGS, experts_alone
from rooflinecli.specs import prices
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import split_count
from rooflinecli.specs.options import OPTIONS, Option, find
from rooflinecli.specs.parse_values import as_text, broken_bound, in_tokens, number
from rooflinecli.specs.request import MOST, OUTPUT, PHASES, SEQ, Request, kinds_of_work

MOST_PIXELS = 65536  # a side of an image
MANY_SEQUENCES = 1e6  # a batch of as many is mostly meant in tokens
SERVING = ("prefill", "decode")
HEADS_SPELLED = {
    "eagle3": "eagle",
    "eagle-3": "eagle",
    "eagle2": "eagle",
    "nextn": "mtp",
    "deepseek_mtp": "mtp",
}  # of vLLM and SGLang
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off")


def request(options: dict[str, Any]) -> Request:
    """Build a Request from options by any of their names; None values are as if not given.

    Raises UsageError, with the option, for one that does not exist, a value it cannot take and options that exclude each
    other; DataError for a broken file. Warns (RooflineWarning) of values that are seldom meant.
    """
    given = named(options)
    fields = {OPTIONS[name].field: value(OPTIONS[name], text) for name, text in given.items()}
    fields.setdefault("phases", {"train": ("train",), "serve": SERVING}.get(implied(given), PHASES))
    check_conflicts(given, fields["phases"])
    model = fields["model"]
    if only_engine := engine_implied(model, fields.get("weight_dtype")):
        if str(given.get("weight-dtype")).lower() == "f16" and "engine" not in given:
            raise UsageError("--weight-dtype f16: a file type of llama.cpp; add --engine llamacpp, or write fp16", "weight-dtype")  # fmt: skip
        fields.setdefault("engine", only_engine)
    # a server computes one token of each sequence
    if "batch" in given and in_tokens(given["batch"]) and "train" in fields["phases"]:
        fields["batch"] = whole_sequences(fields["batch"], fields.get("seq"), model)
    if "decode" in fields["phases"] and model.writes:
        _check_output(fields)
    _check_rates(fields["hardware"])
    _check_power(fields["hardware"], fields.get("power_cap"))
    warn_about(model, fields)
    warn_of_offer(fields["hardware"], fields.get("price"), fields.get("region"))
    return Request(**fields)


def implied(given: Collection[str], quantities: Iterable[str] = ()) -> str:
    """Which of "train" and "serve" the options mean without --phase, by those that only one of them has and by the quantities that are
    named; empty where none or both do."""
    phases = {name.partition(".")[0] for name in quantities} & {*PHASES, "serve"}
    meant = {OPTIONS[name].phase for name in given if name in OPTIONS} - {""}
    meant |= kinds_of_work(phases)
    if isinstance(given, Mapping) and (stored := given.get("weight-dtype")):
        from rooflinecli.quantization.gguf import file_type

        meant |= {"serve"} if file_type(str(stored)) is not None else set()  # llama.cpp's files, which nothing trains
    return meant.pop() if len(meant) == 1 else ""


def named(options: dict[str, Any], help: str = "`roofline estimate --help` lists them") -> dict[str, Any]:
    """Options by the names of the table. Raises UsageError for one that does not exist, and without a model or a chip."""
    given: dict[str, object] = {}
    for name, written in options.items():
        option = find(name, help)
        if option.kind == "name" and isinstance(written, (list, tuple)):
            if len(written) != 1:
                raise UsageError(
                    f"{option.flag} takes one name here, not {len(written)}; compare and plan take several", option.name
                )
            (written,) = written
        if written is not None and given.setdefault(option.name, written) is not written:
            raise UsageError(f"{option.name} is given twice, once as {name}; keep one", option.name)
    count, chip = split_count("hardware", str(given.get("hw", "")))
    if count is not None:  # `--hw 8xH100` is `--hw H100 -n 8`
        if "n" in given and value(OPTIONS["n"], given["n"]) != count:
            raise UsageError(f"--hw {given['hw']} says {count} devices, -n {given['n']}; leave one of them out", "hw")
        given |= {"hw": chip, "n": count}
    for name, what in (("model", "model"), ("hw", "--hw")):
        if name not in given:
            registry = "models" if name == "model" else "hardware"
            raise UsageError(f"no {what} given; name one (`roofline {registry}` lists them)", name)
    return given


def value(option: Option, written: Any, flag: str = "") -> Any:
    """Value of an option in SI. `flag` is how it was typed where that is not its own. Raises UsageError."""
    flag = flag or option.flag
    if option.kind == "price" and isinstance(written, str) and written.strip()[:1].isalpha():
        words = prices.parse(written)
        if words:
            return words
    if option.numeric or option.kind in ("stage", "pictures"):
        parsed = parse_number(option, written, flag)
        check_bounds(option, parsed, flag)
        return parsed if option.numeric else int(parsed)
    if option.kind == "name":
        if "," in str(written) and not Path(str(written)).exists():
            raise UsageError(
                f"{option.flag} {written}: takes one here; `roofline sweep` and `compare` take several", option.name
            )
        try:
            if option.name == "model":
                return load_model(str(written))
            chip = load_hardware(str(written))
            if forced := chip.measured.get("forced"):
                warn(f"--hw {written} was written with --force: {forced}")
            return chip
        except UsageError as error:
            error.option = option.name
            raise
    if option.kind == "phases":
        return phases(written)
    if option.kind == "pixels":
        return _pixels(option, written, flag)
    if option.kind == "switch":
        text = str(written).strip().lower()
        if text not in (*_YES, *_NO):
            raise UsageError(f"{flag} {written}: expected yes or no", option.name)
        return text in _YES
    return parse_choice(option, written, flag)


def parse_number(option: Option, written: object, flag: str) -> float:
    """The number of an option, or the meaning of a word that may stand for one. Raises UsageError."""
    if option.numeric and written in option.choices:
        return MOST
    return number(flag, written, option.kind, option.name)


def check_bounds(option: Option, number: float, flag: str) -> None:
    """Raises UsageError for a number outside the option's bounds."""
    if violation := broken_bound(option, number):
        raise UsageError(f"{flag} {number:g}: {violation}", option.name)


def parse_choice(option: Option, written: object, flag: str = "") -> str:
    """A named choice as written; raises UsageError for one that does not exist."""
    written = as_text(flag or option.flag, written, option.name)
    text = written if option.kind == "text" else written.lower()
    text = (SPELLINGS if option.kind == "dtype" else HEADS_SPELLED if option.name == "speculate" else {}).get(
        text, text
    )
    if option.kind == "choice" and text not in option.choices:
        raise UsageError(f"{flag or option.flag} {written}: expected {' or '.join(option.choices)}", option.name)
    if option.kind == "dtype" and text not in FORMATS:
        if option.name != "weight-dtype":
            raise unknown("dtype", text, FORMATS, option=option.name)
        from rooflinecli.quantization.gguf import file_type
        from rooflinecli.quantization.schemes import parse, schemes

        if file_type(text) is None and parse(text) is None:  # which raises UsageError for bits that a format has not
            raise unknown("dtype", text, (*FORMATS, *schemes()), option=option.name)
    return text


def engine_implied(model: ModelSpec, weight_dtype: str | None) -> str:
    """The engine that alone runs a model or reads a weight format (a GGUF file type, exl2, exl3, mlx); empty where several do."""
    if model.denoising is not None:
        return "diffusers"  # servers of language models run no sampler
    if model.checkpoint is not None and model.checkpoint.format == "gguf":
        return "llamacpp"
    if weight_dtype is None:
        return ""
    from rooflinecli.quantization.gguf import file_type
    from rooflinecli.quantization.schemes import ALONE, parse, schemes

    if file_type(weight_dtype) is not None:
        return "llamacpp"
    stored = parse(weight_dtype)
    method = (stored.method or "") if stored is not None else ""
    return schemes()[method].engine if method.startswith(ALONE) else ""


def phases(written: Any) -> tuple[str, ...]:
    """Phases in the order they are reported. Raises UsageError for an unknown one."""
    items = [written] if isinstance(written, str) else written
    wanted = [p.strip() for item in items for p in item.split(",")]
    for phase in wanted:
        if phase not in PHASES:
            raise unknown("phase", phase, PHASES, option="phase")
    return tuple(p for p in PHASES if p in wanted)


def _pixels(option: Option, written: object, flag: str) -> str:
    """WIDTHxHEIGHT in pixels. Raises UsageError."""
    sides = str(written).strip().lower().split("x")
    if len(sides) != 2 or not all(side.isdecimal() and 1 <= int(side) <= MOST_PIXELS for side in sides):
        raise UsageError(
            f"{flag} {written}: expected WIDTHxHEIGHT in pixels, up to {MOST_PIXELS} each, such as 1024x768",
            option.name,
        )
    return "x".join(str(int(side)) for side in sides)


def check_conflicts(given: Collection[str], phases: tuple[str, ...]) -> None:
    """Raises UsageError for two options that say the same thing, of which one would be dropped."""
    if {"concurrency", "qps"} <= set(given):
        raise UsageError("--concurrency and --qps each say the load; give one of them", "qps")
    if {"optimizer", "optimizer-bytes"} <= set(given):
        raise UsageError("--optimizer says how many bytes it keeps; leave --optimizer-bytes out", "optimizer-bytes")
    for load in {"concurrency", "qps"} & set(given) if "batch" in given and "train" not in phases else ():
        raise UsageError(f"--batch and --{load} each say how many sequences are served; give one of them", load)
    for kind, work, asked in (("train", "training", {"train"}), ("serve", "serving", set(SERVING))):
        idle = [OPTIONS[name].flag for name in given if OPTIONS[name].phase == kind] if not asked & set(phases) else []
        if idle:
            s = "s" if len(idle) == 1 else ""
            warn(f"{', '.join(idle)} belong{s} to {work} and change{s} nothing here")


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
    """Warn of sizes that a config lacks, a context longer than the model's, and a format that is seldom meant."""
    if model.assumed:
        warn(f"{model.assumed}; they decide the parameters, add what the model has")
    prompt, output = fields.get("prompt", 0.0), fields.get("output")
    default = output is None and "prompt" in fields and "decode" in fields["phases"] and model.writes
    longest = prompt + (OUTPUT if default else output or 0.0)
    if model.max_context and longest > model.max_context and model.positions.kind != "learned":  # those are refused
        warn(
            f"--prompt and --output{f' (by default {OUTPUT:g})' if default else ''} come to {longest:,.0f} tokens, more than the {model.max_context:,} of {model.name}"
        )
    batch = fields.get("batch")
    if num.plain(batch) and batch is not None and batch >= MANY_SEQUENCES:
        warn(f"--batch counts sequences: {batch:,.0f} of them; write --batch {batch / 1e6:g}M-tokens for tokens")
    dtype = fields.get("dtype")
    only_experts = experts_alone(dtype, fields.get("weight_dtype"), model.quantization, training=True)
    if dtype and FORMATS[dtype][0] < 1 and "weight_dtype" not in fields and not only_experts:
        warn(
            f"--dtype {dtype} narrows activations too; for quantized weights alone (GPTQ, AWQ, GGUF) use --weight-dtype {dtype}"
        )


def _check_output(fields: dict[str, Any]) -> None:
    """Raises UsageError for a load of requests without output; warns where one step is left of a decode."""
    load, output = next((name for name in ("concurrency", "qps") if name in fields), None), fields.get("output", 1.0)
    if not num.plain(output) or output >= 1:
        return
    if load is None:
        warn(
            "--output 0: no token is written, and decode is one step after the prompt; --phase prefill is the prompt alone"
        )
    else:
        raise UsageError(
            f"--output {output:g}: requests of a --{load} write a token at least; give --output 1", "output"
        )


def _check_rates(spec: HardwareSpec) -> None:
    """Warn of a chip that moves about as many bytes a second as it does FLOPs, or very few: mostly a unit slip in its own file."""
    ridge = max(peak.si for peak in spec.peak.values()) / spec.memory.bandwidth.si
    if not 1 <= ridge <= 1e5:
        warn(
            f"{spec.document.location('memory', 'bandwidth')}: {spec.name} does {ridge:.3g} FLOPs for each byte that its memory moves; "
            "check the units of its rates"
        )


def _check_power(spec: HardwareSpec, cap: Number | None) -> None:
    """Raises UsageError for a power limit below what an idle device draws; warns of one above TDP, which limits nothing."""
    if cap is None or spec.power is None or not num.plain(cap):
        return
    from rooflinecli.engine.evaluate import IDLE_DRAW

    if cap < IDLE_DRAW * spec.power.si:
        raise UsageError(
            f"--power-cap {cap:g}W: {spec.name} draws about {IDLE_DRAW * spec.power.si:.0f} W idle; give more",
            "power-cap",
        )
    if cap > spec.power.si:
        warn(f"--power-cap {cap:g}W exceeds the {spec.power.si:g} W of {spec.name}")


def warn_of_offer(spec: HardwareSpec, price: Number | str | None, region: str | None) -> None:
    """Warn where the offer behind the dollars is not of --region, and where one that words chose is old."""
    if not (isinstance(price, str) or (price is None and region is not None)):
        return
    chosen = prices.choose(spec, price or "", region or "")
    one = None if chosen is None or price is None else chosen.offer
    if one is not None and one.age_days is not None and one.age_days > prices.STALE_DAYS:
        who = f"{one.provider} {one.kind}"
        warn(
            f"the price of {spec.name} ({who}) is of {one.date}, {one.age_days} days old; `roofline prices import` reads newer ones"
        )
    if region is not None and chosen is not None and chosen.offer.region.lower() != region.lower():
        stated = f"for {chosen.offer.region}" if chosen.offer.region else "without a region"
        warn(
            f"the price of {spec.name} is stated {stated}, not for --region {region}; --price USD gives the region's own"
        )


def warn(text: str) -> None:
    """Warn once for each text."""
    warnings.warn(text, RooflineWarning, stacklevel=2)
