"""quantization_config -> what the checkpoint stores: bits per weight, what stands beside them, and which modules are left in 16 bits.

Source: transformers 5.23 utils/quantization_config.py; vllm-project/compressed-tensors; OCP Microscaling v1.0 for mxfp4; mlx-lm
utils.py; the formats themselves are rows of specs/checkpoint/schemes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.quantization.compressed_tensors import compressed
from rooflinecli.quantization.packing import Stored, grouping, integers, keeping
from rooflinecli.quantization.per_module import algorithm, autoround, mixed
from rooflinecli.specs.field_reader import MISSING, ConfigFields

NAMES = ("quantization_config", "compression_config", "quantization")


def stored(f: ConfigFields) -> Stored | None:
    """The `quantization:` of a spec, or None for an unquantized checkpoint. Raises DataError for an unknown scheme."""
    config = f.raw(*NAMES)
    if config is MISSING or not config:
        return None
    if not isinstance(config, dict):
        raise f.fail("quantization_config", "expected an object")
    inner = ConfigFields(config, {}, f.where, (*f.prefix, next(name for name in NAMES if name in f.data)))
    method = inner.text("quant_method").lower() or _unnamed(config)
    method = "auto-round" if method in ("intel/auto-round", "auto_round") else method
    if method not in _METHODS:
        raise inner.fail(
            "quant_method",
            f"unknown scheme '{method}'; known: {', '.join(sorted(_METHODS))}; "
            "remove quantization_config to count 16-bit weights",
        )
    _cached(f, inner)
    return _METHODS[method](inner) | _experts(f, inner)


def _experts(f: ConfigFields, inner: ConfigFields) -> Stored:
    """Routed experts in four bits beside eight for the rest: a scale of powers of two per 32 (DeepSeek-V4's expert_dtype), or as
    ModelOpt has written them since (moe_quant_algo)."""
    if inner.text("quant_method").lower() == "fp8" and inner.text("moe_quant_algo"):
        return {"experts": algorithm(inner, inner.text("moe_quant_algo"), "moe_quant_algo")}
    said = [place.text("expert_dtype") for place in (f, inner)]
    if not any(said):
        return {}
    if not set(said) <= {"", "fp4"}:
        raise f.fail("expert_dtype", f"'{max(said)}' is not read; known: fp4")
    return {"experts": {"dtype": "mxfp4", "group_size": 32, "scale_bits": 8}}


def _cached(f: ConfigFields, inner: ConfigFields) -> None:
    """What the block says of the cache changes no weight: a note says how to count it."""
    scheme = inner.raw("kv_cache_scheme")
    if isinstance(scheme, dict) and scheme.get("num_bits") == 8:
        f.notes.append(
            "The checkpoint holds scales for keys and values of 8 bits: --kv-dtype fp8 counts such a cache; without it 16 bits are counted."
        )


def _unnamed(config: Stored) -> str:
    """The tool of a block that does not say: bitsandbytes by its switches, ModelOpt by its algorithm, MLX by its two numbers."""
    if "load_in_4bit" in config or "load_in_8bit" in config:
        return "bitsandbytes"
    if "quant_algo" in config:
        return "modelopt"
    return "mlx" if "bits" in config and "group_size" in config else ""


def _gptq(f: ConfigFields) -> Stored:
    """Group-wise integers, a 16-bit scale and a packed zero point per group, g_idx with or without act-order (arXiv 2210.17323)."""
    stored = _grouped(f)
    head = {"head_bits": stored["bits"]} if f.flag("lm_head") else {}
    found = keeping(f, {"method": "gptq", **stored, **head}, "modules_in_block_to_not_quantize")
    return found | _dynamic(f, found)


def _dynamic(f: ConfigFields, base: Stored) -> Stored:
    """GPTQModel's rules by module: -: leaves what an expression matches in 16 bits, +: (or none) stores it in bits of its own."""
    rules = f.raw("dynamic")
    kept, others = list(base.get("kept", [])), []
    for rule, change in rules.items() if isinstance(rules, dict) else ():
        name = f"re:{rule.removeprefix('-:').removeprefix('+:')}"
        if rule.startswith("-:"):
            kept.append(name)
        elif change:
            own = {k: f.data[k] for k in ("bits", "group_size") if k in f.data} | change
            inner = ConfigFields(own, {}, f.where, (*f.prefix, "dynamic", rule))
            others.append({"modules": [name], "stored": {"applies_to": "linear", **_grouped(inner)}})
    return ({"kept": kept} if kept else {}) | ({"others": others} if others else {})


def _grouped(f: ConfigFields) -> Stored:
    """Bits, groups and what stands beside them in GPTQ's packing."""
    wide = integers(f, (2, 3, 4, 8), "bits")
    if group := grouping(f):
        return {**wide, **group, "scale_bits": 16, "zero_bits": wide["bits"], "input_bits": 32}
    return {**wide, "scale_bits": 0, "input_bits": 32, "output_bits": 16 + wide["bits"]}


def _awq(f: ConfigFields) -> Stored:
    """As GPTQ without g_idx; the zero point is optional (Lin et al. 2023, arXiv 2306.00978)."""
    wide = integers(f, (4, 8), "bits", "w_bit")
    zero = wide["bits"] if f.flag("zero_point", True) else 0
    size = grouping(f, "group_size" if "q_group_size" not in f.data else "q_group_size")
    return keeping(f, {"method": "awq", **wide, **size, "scale_bits": 16, "zero_bits": zero}, "modules_to_not_convert")


def _fp8(f: ConfigFields) -> Stored:
    """8-bit floats with a 32-bit scale per block of weight_block_size, or per tensor (DeepSeek-V3, arXiv 2412.19437, 3.3)."""
    block = f.items("weight_block_size", int, 2)
    group = {"block": block, "scale_bits": 32} if block else {"scale_bits": 0, "tensor_bits": 32}
    return keeping(f, {"dtype": "fp8", **group}, "modules_to_not_convert", "ignored_layers")


def _fbgemm(f: ConfigFields) -> Stored:
    """8-bit floats with a 32-bit scale per output (transformers integrations/fbgemm_fp8.py)."""
    return keeping(f, {"dtype": "fp8", "scale_bits": 0, "output_bits": 32}, "modules_to_not_convert")


def _mxfp4(f: ConfigFields) -> Stored:
    """4-bit floats with an 8-bit scale per 32 of them, on the experts only (gpt-oss model card)."""
    return {"dtype": "mxfp4", "group_size": 32, "scale_bits": 8, "applies_to": "experts"}


def _bitsandbytes(f: ConfigFields) -> Stored:
    """NF4: a 32-bit scale per 64 weights, or 8 bits with an fp32 per 256 after double quantization; int8: a scale per output."""
    if f.flag("load_in_8bit") or f.flag("_load_in_8bit"):
        found: Stored = {"dtype": "int8", "scale_bits": 0, "output_bits": 32, "tensor_bits": 8, "method": "bnb-int8"}
        return keeping(f, found, "llm_int8_skip_modules")
    found = {"dtype": "int4", "bits": 4, "group_size": 64, "weight_only": True}
    if f.flag("bnb_4bit_use_double_quant"):
        found |= {"method": "nf4-double", "scale_bits": 8, "nested_group": 256, "nested_bits": 32}
        return keeping(f, found | {"tensor_bits": (16 + 256 + 1) * 32}, "llm_int8_skip_modules")
    return keeping(f, found | {"method": "nf4", "scale_bits": 32, "tensor_bits": 16 * 32}, "llm_int8_skip_modules")


def _mlx(f: ConfigFields) -> Stored:
    """A scale and a bias of 16 bits per group, embedding and head too; further entries name modules of other bits, or of none."""
    mode = f.text("mode", default="affine")
    if mode != "affine" and mode not in _MLX:
        raise f.fail("mode", f"'{mode}' is not read; known: affine, {', '.join(_MLX)}")
    kept = [name for name, other in f.data.items() if other is False]
    others = [
        _mlx_module(f, name, other) for name, other in f.data.items() if isinstance(other, dict) and "bits" in other
    ]
    beside = ({"kept": kept} if kept else {}) | ({"others": others} if others else {})
    if mode in _MLX:
        f.expect("group_size", (_MLX[mode]["group_size"], None), f"{mode} has groups of its own")
        return {"method": "mlx", **_MLX[mode], "scale_bits": 8, "weight_only": True, "applies_to": "all"} | beside
    return {"method": "mlx", **_affine(f), "applies_to": "all"} | beside


def _affine(f: ConfigFields) -> Stored:
    return {**integers(f, (2, 3, 4, 5, 6, 8), "bits"), **grouping(f), "scale_bits": 16, "zero_bits": 16}


def _mlx_module(f: ConfigFields, name: str, said: Stored) -> Stored:
    """A module of other bits (mlx-lm's mixed recipes, the routers of gpt-oss)."""
    inner = ConfigFields({"mode": "affine", **said}, {}, f.where, (*f.prefix, name))
    mode = inner.text("mode")
    if mode != "affine" and mode not in _MLX:
        raise inner.fail("mode", f"'{mode}' is not read; known: affine, {', '.join(_MLX)}")
    stored = _affine(inner) if mode == "affine" else {**_MLX[mode], "scale_bits": 8, "weight_only": True}
    return {"modules": [name], "stored": {"applies_to": "all", **stored}}


_MLX: dict[str, Stored] = {  # a byte of scale per group, no bias: ml-explore/mlx nn/layers/quantized.py
    "mxfp4": {"dtype": "mxfp4", "group_size": 32},
    "nvfp4": {"dtype": "nvfp4", "group_size": 16},
    "mxfp8": {"dtype": "fp8", "group_size": 32},
}


def _hqq(f: ConfigFields) -> Stored:
    """Packed bytes and a 16-bit scale and zero per group; three bits are packed ten to an int32 (mobiusml/hqq)."""
    config = f.raw("quant_config")
    weights = config.get("weight_quant_params") if isinstance(config, dict) else None
    inner = (
        ConfigFields(weights, {}, f.where, (*f.prefix, "quant_config", "weight_quant_params"))
        if isinstance(weights, dict)
        else f
    )
    wide = integers(inner, (1, 2, 3, 4, 8), "nbits", null=4)
    if wide["bits"] == 3:
        wide["bits"] = 3.2
    found = {"method": "hqq", **wide, **grouping(inner, null=64), "scale_bits": 16, "zero_bits": 16}
    return keeping(f, found, "skip_modules")


def _torchao(f: ConfigFields) -> Stored:
    """int4 by groups with a 16-bit scale and zero; int8 and float8 with a scale per output (pytorch/ao)."""
    kind = f.raw("quant_type")
    if isinstance(kind, dict):  # since torchao 0.10: the class that describes it
        inner: Any = next(iter(kind.values()), {})
        inner = inner if isinstance(inner, dict) else {}
        data = inner.get("_data")
        group, kind = (data if isinstance(data, dict) else {}).get("group_size", 128), inner.get("_type", "")
    else:
        options = f.raw("quant_type_kwargs")
        group = options.get("group_size", 128) if isinstance(options, dict) else 128
    said = str(kind).lower().replace("_", "")
    for name, found in _AO.items():
        if name in said:
            sized = {"group_size": group} if found["dtype"] == "int4" else {}
            return keeping(f, {"method": "torchao", "scale_bits": 0, **found, **sized}, "modules_to_not_convert")
    raise f.fail(
        "quant_type",
        f"'{str(kind)[:60]}' is not read; known: int4, int8 and float8 weight-only or with dynamic activations",
    )


_AO: dict[str, Stored] = {
    "int4": {"dtype": "int4", "bits": 4, "scale_bits": 16, "zero_bits": 16, "weight_only": True},
    "int8weightonly": {"dtype": "int8", "bits": 8, "output_bits": 16, "weight_only": True},
    "int8dynamicactivationint8": {"dtype": "int8", "bits": 8, "output_bits": 16},
    "float8": {"dtype": "fp8", "output_bits": 32},
}


def _exllama(method: str) -> Callable[[ConfigFields], Stored]:
    """A mean of bits over the matrices, scales counted (2) or beside them (3); the head apart."""
    beside = {"input_bits": 16, "output_bits": 16} if method == "exl3" else {}

    def read(f: ConfigFields) -> Stored:
        bits, head = f.raw("bits"), f.raw("head_bits", "lm_head_bits")
        if isinstance(bits, bool) or not isinstance(bits, (int, float)) or not 1 <= bits <= 8:
            raise f.fail("bits", f"expected a number from 1 to 8, got {str(bits)[:40]!r}")
        wide = head if isinstance(head, (int, float)) and not isinstance(head, bool) else 6
        base = {"dtype": "int4" if bits <= 5 else "int8", "bits": bits, "weight_only": True, "scale_bits": 0}
        return {"method": method, "applies_to": "linear", "head_bits": wide, **base, **beside}

    return read


def _modelopt(f: ConfigFields) -> Stored:
    """NVIDIA ModelOpt: one format for all linear layers, or for each module its own."""
    kind = f.text("quant_algo")
    if kind.upper() == "MIXED_PRECISION":
        return keeping(f, mixed(f), "ignore", "exclude_modules")
    return keeping(f, algorithm(f, kind), "ignore", "exclude_modules")


_METHODS: dict[str, Callable[[ConfigFields], Stored]] = {
    "gptq": _gptq,
    "awq": _awq,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": compressed,
    "mlx": _mlx,
    "hqq": _hqq,
    "torchao": _torchao,
    "exl2": _exllama("exl2"),
    "exl3": _exllama("exl3"),
    "modelopt": _modelopt,
    "auto-round": autoround,
}
