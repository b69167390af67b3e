"""quantization_config of a checkpoint: bits per weight, scales and zero points, unquantized modules, overrides by module.

Source: transformers 5.23 utils/quantization_config.py; vllm-project/compressed-tensors quantization/quant_args.py; NVIDIA ModelOpt;
OCP Microscaling v1.0 for mxfp4; mlx-lm utils.py. quantization/schemes.yaml has the formats by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from rooflinecli.core.record import Json
from rooflinecli.specs.field_reader import MISSING, ConfigFields
from rooflinecli.specs.snapshots import packaged

Stored = Json
NAMES = ("quantization_config", "compression_config", "quantization")


def stored(f: ConfigFields) -> Stored | None:
    """The `quantization:` of a spec, or None for an unquantized checkpoint. Raises DataError for an unknown scheme."""
    config = f.raw(*NAMES)
    if config is MISSING or not config:
        return None
    if not isinstance(config, dict):
        raise f.fail("quantization_config", "expected an object")
    inner = ConfigFields(config, {}, f.where, (*f.prefix, next(name for name in NAMES if name in f.data)))
    method = inner.text("quant_method").lower()
    if not method:  # bitsandbytes by its switches, ModelOpt by its algorithm, MLX by its two numbers
        signs = {"load_in_4bit": "bitsandbytes", "load_in_8bit": "bitsandbytes", "quant_algo": "modelopt"}
        mlx = "mlx" if "bits" in config and "group_size" in config else ""
        method = next((tool for sign, tool in signs.items() if sign in config), mlx)
    method = "auto-round" if method in ("intel/auto-round", "auto_round") else method
    if method not in _METHODS:
        raise inner.fail(
            "quant_method",
            f"unknown scheme '{method}'; known: {', '.join(sorted(_METHODS))}; "
            "remove quantization_config to count 16-bit weights",
        )
    scheme = inner.raw("kv_cache_scheme")
    if isinstance(scheme, dict) and scheme.get("num_bits") == 8:
        f.notes.append(
            "The checkpoint has scales for an 8-bit KV cache: add --kv-dtype fp8 to count it; otherwise the cache is counted in 16 bits."
        )
    reader, skipped = _METHODS[method]
    weights: Stored = {"applies_to": "linear"} | (reader if isinstance(reader, dict) else reader(inner))
    unquantized = [module for name in skipped for module in inner.items(name, str) or []] + weights.get("kept", [])
    return weights | ({"kept": unquantized} if unquantized else {}) | _experts(f, inner)


def _experts(f: ConfigFields, inner: ConfigFields) -> Stored:
    """Routed experts in four bits and the rest in eight: a power-of-two scale per 32 weights (DeepSeek-V4's expert_dtype), or as
    ModelOpt has written them since (moe_quant_algo)."""
    if inner.text("quant_method").lower() == "fp8" and inner.text("moe_quant_algo"):
        return {"experts": _algorithm(inner, inner.text("moe_quant_algo"), "moe_quant_algo")}
    dtypes = [place.text("expert_dtype") for place in (f, inner)]
    if not any(dtypes):
        return {}
    if not set(dtypes) <= {"", "fp4"}:
        raise f.fail("expert_dtype", f"'{max(dtypes)}' is not supported; supported: fp4")
    return {"experts": {"dtype": "mxfp4", "group_size": 32, "scale_bits": 8}}


def _override(modules: list[str], stored: Stored, applies_to: str = "linear") -> Stored:
    """A format for some modules."""
    return {"modules": modules, "stored": {"applies_to": applies_to, **stored}}


def _exceptions(unquantized: list[str], overrides: list[Stored]) -> Stored:
    return ({"kept": unquantized} if unquantized else {}) | ({"others": overrides} if overrides else {})


def _integers(f: ConfigFields, allowed: tuple[int, ...], *names: str, null: int | None = None) -> Stored:
    """The bits of a weight. Raises DataError for a width that the format does not have."""
    bits = f.integer(*names, null=null)
    if bits not in allowed:
        raise f.fail(names[0], f"{bits}-bit integers are not known; known: {', '.join(map(str, allowed))}")
    return {"dtype": "int4" if bits <= 4 else "int8", "bits": bits, "weight_only": True}


def _group(f: ConfigFields, name: str = "group_size", null: int = 128) -> Stored:
    """Weights per scale; -1 is one scale per output."""
    size = f.integer(name, null=null, least=-1)
    return {"group_size": size} if size > 0 else {}


def _gptq(f: ConfigFields) -> Stored:
    """GPTQ (arXiv 2210.17323), g_idx with or without act-order, and GPTQModel's rules by module: -: leaves matching modules unquantized, +:
    (or no sign) overrides their bits."""
    stored = _packed_integers(f, input_bits=32)
    head = {"head_bits": stored["bits"]} if f.flag("lm_head") else {}
    rules = f.raw("dynamic")
    unquantized, overrides = [], []
    for rule, change in rules.items() if isinstance(rules, dict) else ():
        name = f"re:{rule.removeprefix('-:').removeprefix('+:')}"
        if rule.startswith("-:"):
            unquantized.append(name)
        elif change:
            own = {k: f.data[k] for k in ("bits", "group_size") if k in f.data} | change
            inner = ConfigFields(own, {}, f.where, (*f.prefix, "dynamic", rule))
            overrides.append(_override([name], _packed_integers(inner, input_bits=32)))
    return {"method": "gptq", **stored, **head} | _exceptions(unquantized, overrides)


def _packed_integers(f: ConfigFields, **g_idx: int) -> Stored:
    """Integers with a 16-bit scale and a packed zero point per group, or per output where the group is -1."""
    weights = _integers(f, (2, 3, 4, 8), "bits")
    if group := _group(f):
        return {**weights, **group, "scale_bits": 16, "zero_bits": weights["bits"], **g_idx}
    return {**weights, "scale_bits": 0, "output_bits": 16 + weights["bits"], **g_idx}


def _awq(f: ConfigFields) -> Stored:
    """As GPTQ without g_idx; the zero point is optional (Lin et al. 2023, arXiv 2306.00978)."""
    weights = _integers(f, (4, 8), "bits", "w_bit")
    zero = weights["bits"] if f.flag("zero_point", True) else 0
    group = _group(f, "group_size" if "q_group_size" not in f.data else "q_group_size")
    return {"method": "awq", **weights, **group, "scale_bits": 16, "zero_bits": zero}


def _autoround(f: ConfigFields) -> Stored:
    """AutoRound (Intel): GPTQ's or AWQ's packing without g_idx; extra_config has modules of other bits, 16 for unquantized ones."""
    if f.text("data_type", default="int") != "int":
        raise f.fail(
            "data_type", f"'{f.text('data_type')}' is not supported; supported: int; give the safetensors index"
        )
    base = _packed_integers(f)
    extra = f.raw("extra_config")
    unquantized, overrides = [], []
    for name, change in extra.items() if isinstance(extra, dict) else ():
        change = change if isinstance(change, dict) else {}
        pattern = f"re:{name}" if re.search(r"[*\\^$]", name) else name
        if change.get("bits", base["bits"]) == 16:
            unquantized.append(pattern)
        elif change:
            own = {k: f.data[k] for k in ("bits", "group_size", "sym") if k in f.data} | change
            inner = ConfigFields(own, {}, f.where, (*f.prefix, "extra_config", name))
            overrides.append(_override([pattern], _packed_integers(inner)))
    return {"method": "auto-round", **base} | _exceptions(unquantized, overrides)


def _fp8(f: ConfigFields) -> Stored:
    """8-bit floats with a 32-bit scale per block of weight_block_size, or per tensor (DeepSeek-V3, arXiv 2412.19437, 3.3)."""
    block = f.items("weight_block_size", int, 2)
    return {"dtype": "fp8", **({"block": block, "scale_bits": 32} if block else {"scale_bits": 0, "tensor_bits": 32})}


def _bitsandbytes(f: ConfigFields) -> Stored:
    wide = f.flag("load_in_8bit") or f.flag("_load_in_8bit")
    method = "bnb-int8" if wide else "nf4-double" if f.flag("bnb_4bit_use_double_quant") else "nf4"
    return {"method": method, **packaged(__file__)["bitsandbytes"][method]}


def _mlx(f: ConfigFields) -> Stored:
    """MLX, embedding and head too; further entries are modules of other bits (mlx-lm's mixed recipes, the routers of gpt-oss), or false for
    unquantized ones."""
    weights = _mlx_mode(f, f.text("mode", default="affine"))
    if "zero_bits" not in weights:
        f.expect("group_size", (weights["group_size"], None), f"{f.text('mode')} has groups of its own")
    unquantized = [name for name, entry in f.data.items() if entry is False]
    overrides = []
    for name, entry in f.data.items():
        if isinstance(entry, dict) and "bits" in entry:
            inner = ConfigFields({"mode": "affine", **entry}, {}, f.where, (*f.prefix, name))
            overrides.append(_override([name], _mlx_mode(inner, inner.text("mode")), "all"))
    return {"method": "mlx", **weights, "applies_to": "all"} | _exceptions(unquantized, overrides)


def _mlx_mode(f: ConfigFields, mode: str) -> Stored:
    """affine: a scale and a bias of 16 bits per group."""
    known = packaged(__file__)["mlx"]
    if mode in known:
        return {**known[mode], "scale_bits": 8, "weight_only": True}
    if mode != "affine":
        raise f.fail("mode", f"'{mode}' is not supported; supported: affine, {', '.join(known)}")
    return {**_integers(f, (2, 3, 4, 5, 6, 8), "bits"), **_group(f), "scale_bits": 16, "zero_bits": 16}


def _hqq(f: ConfigFields) -> Stored:
    """Packed bytes and a 16-bit scale and zero per group; three bits are packed ten to an int32 (mobiusml/hqq)."""
    config = f.raw("quant_config")
    params = config.get("weight_quant_params") if isinstance(config, dict) else None
    inner = f
    if isinstance(params, dict):
        inner = ConfigFields(params, {}, f.where, (*f.prefix, "quant_config", "weight_quant_params"))
    weights = _integers(inner, (1, 2, 3, 4, 8), "nbits", null=4)
    if weights["bits"] == 3:
        weights["bits"] = 3.2
    group = _group(inner, null=64)
    return {"method": "hqq", **weights, **group, "scale_bits": 16, "zero_bits": 16}


def _torchao(f: ConfigFields) -> Stored:
    """int4 by groups with a 16-bit scale and zero; int8 and float8 with a scale per output (pytorch/ao)."""
    kind = f.raw("quant_type")
    options = f.raw("quant_type_kwargs")
    if isinstance(kind, dict):  # since torchao 0.10: the class that describes it
        described: object = next(iter(kind.values()), {})
        described = described if isinstance(described, dict) else {}
        options, kind = described.get("_data"), described.get("_type", "")
    elif kind is MISSING:
        raise f.fail("quant_type", "required, but missing; add it")
    group = options.get("group_size", 128) if isinstance(options, dict) else 128
    written = str(kind).lower().replace("_", "")
    for name, weights in packaged(__file__)["torchao"].items():
        if name in written:
            size = {"group_size": group} if weights["dtype"] == "int4" else {}
            return {"method": "torchao", "scale_bits": 0, **weights, **size}
    raise f.fail(
        "quant_type",
        f"'{str(kind)[:60]}' is not supported; supported: int4, int8 and float8 weight-only or with dynamic activations",
    )


def _exllama(f: ConfigFields, method: str, **scales: int) -> Stored:
    """A mean of bits over the matrices, with its scales (2) or without (3); the head apart."""
    bits, head = f.raw("bits"), f.raw("head_bits", "lm_head_bits")
    if bits is MISSING:
        raise f.fail("bits", "required, but missing; add it")
    if isinstance(bits, bool) or not isinstance(bits, (int, float)) or not 1 <= bits <= 8:
        raise f.fail("bits", f"expected a number from 1 to 8, got {str(bits)[:40]!r}")
    head = head if isinstance(head, (int, float)) and not isinstance(head, bool) else 6
    weights = {"dtype": "int4" if bits <= 5 else "int8", "bits": bits, "weight_only": True, "scale_bits": 0}
    return {"method": method, "head_bits": head, **weights, **scales}


_EXPERT = re.compile(r"\bexperts\.\d+\b")
_LAYER = re.compile(r"^.*\blayers\.(\d+)\.")
_HEAD = re.compile(r"(^|\.)lm_head$")


def _modelopt(f: ConfigFields) -> Stored:
    """NVIDIA ModelOpt: one format for all linear layers, or one per module."""
    kind = f.text("quant_algo")
    return _mixed_precision(f) if kind.upper() == "MIXED_PRECISION" else _algorithm(f, kind)


def _algorithm(f: ConfigFields, kind: str, field: str = "quant_algo") -> Stored:
    """The format that ModelOpt calls by this name. Raises DataError."""
    known: dict[str, Stored] = packaged(__file__)["modelopt"]
    if kind.upper() not in known:
        remedy = "give the checkpoint's safetensors index, which has each tensor, or remove quantization_config"
        raise f.fail(field, f"'{kind}' is not supported; supported: {', '.join(known)}; {remedy}")
    return known[kind.upper()]


def _mixed_precision(f: ConfigFields) -> Stored:
    """quantized_layers: a format for each module, often thousands, as a few expressions; the most frequent format comes first."""
    listed = f.raw("quantized_layers")
    if not isinstance(listed, dict) or not listed:
        raise f.fail("quantized_layers", "required with MIXED_PRECISION: which module has which format; add it")
    inner = ConfigFields(listed, {}, f.where, (*f.prefix, "quantized_layers"))
    modules: dict[str, list[str]] = {}
    of_expert: dict[str, str] = {}
    for name, entry in listed.items():
        modules.setdefault(str(entry.get("quant_algo") if isinstance(entry, dict) else None), []).append(name)
    for kind, names in modules.items():
        for name in names:  # experts of a layer are counted together
            if _EXPERT.search(name) and of_expert.setdefault(_EXPERT.sub("experts.0", name), kind) != kind:
                raise inner.fail(
                    name,
                    "experts of one layer are in several formats, which is not supported; give the safetensors index",
                )
    formats = {kind: _algorithm(inner, kind, names[0]) for kind, names in modules.items()}
    first, *rest = sorted(modules, key=lambda kind: -len(modules[kind]))
    overrides = [_override(patterns(modules[kind]), formats[kind]) for kind in rest]
    return {**formats[first], "only": patterns(modules[first])} | _exceptions([], overrides)


def patterns(names: list[str]) -> list[str]:
    """Expressions that mean exactly these modules: for each name inside a layer, the layers that have it."""
    layers: dict[str, list[int]] = {}
    outside: dict[str, None] = {}
    for name in names:
        name = _EXPERT.sub("experts.0", name)
        if at := _LAYER.match(name):
            layers.setdefault(name[at.end() :], []).append(int(at[1]))
        else:
            outside["lm_head" if _HEAD.search(name) else name] = None
    return [
        rf"re:.*\blayers\.({'|'.join(map(str, sorted(set(numbers))))})\.{re.escape(inside)}(\.|$)"
        for inside, numbers in layers.items()
    ] + list(outside)


def _compressed_tensors(f: ConfigFields) -> Stored:
    """compressed-tensors: groups of modules, integer or float, with scales per group, block, channel or tensor. The group of all linear
    layers comes first; the modules that others name are overrides.

    Raises DataError for weights stored without their zeros (2:4, bitmask): their bytes are not counted here.
    """
    sparse = f.raw("sparsity_config")
    kind, where = sparse.get("format") if isinstance(sparse, dict) else None, "sparsity_config"
    if kind in (None, "dense"):
        kind, where = f.raw("format"), "format"
    if isinstance(kind, str) and ("24" in kind or "bitmask" in kind):
        raise f.fail(where, f"{kind} is sparse storage, which is not supported; give the dense checkpoint")
    groups = f.raw("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise f.fail("config_groups", "expected at least one group; write the model as YAML")
    read = [_compressed_group(f, name, group) for name, group in groups.items()]
    base = next((group for group in read if not group[1]), read[0])
    overrides = [_override(targets, weights) for weights, targets in read if (weights, targets) != base]
    return base[0] | ({"only": base[1]} if base[1] else {}) | _exceptions([], overrides)


def _compressed_group(f: ConfigFields, name: str, group: Any) -> tuple[Stored, list[str]]:
    """The format of a group, and the modules that it names; none: every linear layer."""
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        raise f.fail("config_groups", "expected `weights` in its group")
    at = (*f.prefix, "config_groups", name)
    w = ConfigFields(weights, {}, f.where, (*at, "weights"))
    bits = w.integer("num_bits")
    if w.text("type", default="int") == "float":
        result = _compressed_float(w, bits)
    else:  # integers, packed into int32 with their shape as two int64 where the format says so
        own = {"format": group["format"]} if isinstance(group.get("format"), str) else {}
        integers = _integers(w, (4, 8), "num_bits")
        result = {**integers, **_scales(w, 0 if w.flag("symmetric", True) else integers["bits"])}
        outer = ConfigFields({**f.data, **own}, {}, f.where, f.prefix)
        if "pack" in outer.text("format", default="pack-quantized"):
            result["tensor_bits"] = result.get("tensor_bits", 0) + 128
    targets = ConfigFields(group, {}, f.where, at).items("targets", str) or []
    if isinstance(group.get("input_activations"), dict):
        result.pop("weight_only", None)
    return result, [] if "Linear" in targets else targets


def _compressed_float(w: ConfigFields, bits: int) -> Stored:
    if bits not in (4, 8):
        raise w.fail("num_bits", f"a float of {bits} bits is not known; known: 4, 8")
    if bits == 8:
        return {"dtype": "fp8", **_scales(w)}
    size = w.integer("group_size", null=16, least=-1)
    if size == 32:
        return {"dtype": "mxfp4", "group_size": size, "scale_bits": 8, "tensor_bits": 0}
    return {"dtype": "nvfp4", "group_size": size, "scale_bits": 8, "tensor_bits": 64}


def _scales(w: ConfigFields, zero: int = 0) -> Stored:
    """Scales of 16 bits and zero points per block, per group, per output or per tensor."""
    strategy = w.text("strategy")
    if block := w.items("block_structure", int, 2) if strategy == "block" else None:
        return {"block": block, "scale_bits": 16}
    if group := _group(w) if w.raw("group_size") not in (MISSING, None) else {}:
        return {**group, "scale_bits": 16, "zero_bits": zero}
    return {"scale_bits": 0} | ({"tensor_bits": 32} if strategy == "tensor" else {"output_bits": 16 + zero})


# method -> its format, or what reads it, and the fields that list modules in 16 bits
_METHODS: dict[str, tuple[Stored | Callable[[ConfigFields], Stored], tuple[str, ...]]] = {
    "gptq": (_gptq, ("modules_in_block_to_not_quantize",)),
    "awq": (_awq, ("modules_to_not_convert",)),
    "fp8": (_fp8, ("modules_to_not_convert", "ignored_layers")),
    # transformers integrations/fbgemm_fp8.py: a 32-bit scale per output
    "fbgemm_fp8": ({"dtype": "fp8", "scale_bits": 0, "output_bits": 32}, ("modules_to_not_convert",)),
    # gpt-oss model card: an 8-bit scale per 32 weights, on the experts only
    "mxfp4": ({"dtype": "mxfp4", "group_size": 32, "scale_bits": 8, "applies_to": "experts"}, ()),
    "bitsandbytes": (_bitsandbytes, ("llm_int8_skip_modules",)),
    "compressed-tensors": (_compressed_tensors, ("ignore",)),
    "mlx": (_mlx, ()),
    "hqq": (_hqq, ("skip_modules",)),
    "torchao": (_torchao, ("modules_to_not_convert",)),
    "exl2": (partial(_exllama, method="exl2"), ()),
    "exl3": (partial(_exllama, method="exl3", input_bits=16, output_bits=16), ()),
    "modelopt": (_modelopt, ("ignore", "exclude_modules")),
    "auto-round": (_autoround, ()),
}
