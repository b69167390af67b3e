"""Quantization that differs from module to module: NVIDIA ModelOpt's MIXED_PRECISION, and Intel AutoRound's extra_config.

A list of modules, often thousands, becomes a few expressions: the layers of each name that are in one format. What is not named
is left in 16 bits (ModelOpt), or in the format of the rest (AutoRound).
"""

from __future__ import annotations

import re
from typing import Any

from rooflinecli.specs.field_reader import ConfigFields

Stored = dict[str, Any]
# Formats of ModelOpt: what stands beside the weights; a static scale of the input is one fp32 more a matrix
_FOUR: Stored = {"dtype": "nvfp4", "group_size": 16, "scale_bits": 8}
ALGORITHMS: dict[str, Stored] = {
    "NVFP4": _FOUR | {"tensor_bits": 64},
    "W4A16_NVFP4": _FOUR | {"tensor_bits": 32, "weight_only": True},
    "W4A8_NVFP4_FP8": _FOUR | {"tensor_bits": 64},
    "FP8": {"dtype": "fp8", "scale_bits": 0, "tensor_bits": 64},
    "FP8_PER_CHANNEL_PER_TOKEN": {"dtype": "fp8", "scale_bits": 0, "output_bits": 32},
    "FP8_PB_WO": {"dtype": "fp8", "block": [128, 128], "scale_bits": 32},
    "MXFP8": {"dtype": "fp8", "group_size": 32, "scale_bits": 8},
    "MXFP4": {"dtype": "mxfp4", "group_size": 32, "scale_bits": 8},
}
_EXPERT = re.compile(r"\bexperts\.\d+\b")
_LAYER = re.compile(r"^.*\blayers\.(\d+)\.")
_HEAD = re.compile(r"(^|\.)lm_head$")


def algorithm(f: ConfigFields, kind: str, field: str = "quant_algo") -> Stored:
    """The format that ModelOpt calls by this name. Raises DataError."""
    if kind.upper() not in ALGORITHMS:
        remedy = "give the checkpoint's safetensors index, which has each tensor, or remove quantization_config"
        raise f.fail(field, f"'{kind}' is not read; known: {', '.join(ALGORITHMS)}; {remedy}")
    return ALGORITHMS[kind.upper()]


def mixed(f: ConfigFields) -> Stored:
    """quantized_layers: a format for each module that has one. The one that most of them have comes first."""
    listed = f.raw("quantized_layers")
    if not isinstance(listed, dict) or not listed:
        raise f.fail("quantized_layers", "required beside MIXED_PRECISION: which module has which format; add it")
    found: dict[str, list[str]] = {}
    for name, said in listed.items():
        kind = said.get("quant_algo") if isinstance(said, dict) else None
        found.setdefault(str(kind), []).append(name)
    inner = ConfigFields(listed, {}, f.where, (*f.prefix, "quantized_layers"))
    _one_format_of_experts(inner, found)
    formats = {kind: algorithm(inner, kind, found[kind][0]) for kind in found}
    first, *rest = sorted(found, key=lambda kind: -len(found[kind]))
    named = {kind: patterns(found[kind]) for kind in found}
    others = [{"modules": named[kind], "stored": {"applies_to": "linear", **formats[kind]}} for kind in rest]
    base = {"applies_to": "linear", **formats[first], "only": named[first]}
    return base | ({"others": others} if others else {})


def _one_format_of_experts(f: ConfigFields, found: dict[str, list[str]]) -> None:
    """Raises DataError where experts of a layer differ: they are counted together."""
    seen: dict[str, str] = {}
    for kind, names in found.items():
        for name in names:
            if _EXPERT.search(name) and seen.setdefault(_EXPERT.sub("experts.0", name), kind) != kind:
                raise f.fail(
                    name, "experts of one layer are in several formats, which is not read; give the safetensors index"
                )


def patterns(names: list[str]) -> list[str]:
    """Expressions that mean exactly these modules: for each name inside a layer, the layers that have it."""
    layers: dict[str, set[int]] = {}
    whole = []
    for name in names:
        name = _EXPERT.sub("experts.0", name)
        at = _LAYER.match(name)
        if at:
            layers.setdefault(name[at.end() :], set()).add(int(at[1]))
        else:
            whole.append("lm_head" if _HEAD.search(name) else name)
    made = []
    for inside, numbers in layers.items():
        made.append(rf"re:.*\blayers\.({'|'.join(map(str, sorted(numbers)))})\.{re.escape(inside)}(\.|$)")
    return [*made, *dict.fromkeys(whole)]


def autoround(f: ConfigFields) -> Stored:
    """AutoRound (Intel): GPTQ's or AWQ's packing without g_idx; extra_config names modules of other bits, 16 for those it leaves."""
    if f.text("data_type", default="int") != "int":
        raise f.fail("data_type", f"'{f.text('data_type')}' is not read; known: int; give the safetensors index")
    base = _integers(f)
    extra = f.raw("extra_config")
    kept, others = [], []
    for name, change in extra.items() if isinstance(extra, dict) else ():
        said = change if isinstance(change, dict) else {}
        pattern = f"re:{name}" if re.search(r"[*\\^$]", name) else name
        if said.get("bits", base["bits"]) == 16:
            kept.append(pattern)
        elif said:
            inner = ConfigFields(
                {**{k: f.data[k] for k in ("bits", "group_size", "sym") if k in f.data}, **said},
                {},
                f.where,
                (*f.prefix, "extra_config", name),
            )
            others.append({"modules": [pattern], "stored": {"applies_to": "linear", **_integers(inner)}})
    return (
        {"method": "auto-round", "applies_to": "linear", **base}
        | ({"kept": kept} if kept else {})
        | ({"others": others} if others else {})
    )


def _integers(f: ConfigFields) -> Stored:
    """Packed integers with a 16-bit scale and a packed zero point per group (per output where the group is -1), signed or not."""
    bits = f.whole("bits")
    if bits not in (2, 3, 4, 8):
        raise f.fail("bits", f"{bits}-bit integers are not known; known: 2, 3, 4, 8")
    size = f.whole("group_size", null=128, least=-1)
    wide: Stored = {"dtype": "int4" if bits <= 4 else "int8", "bits": bits, "weight_only": True}
    if size > 0:
        return wide | {"group_size": size, "scale_bits": 16, "zero_bits": bits}
    return wide | {"scale_bits": 0, "output_bits": 16 + bits}
