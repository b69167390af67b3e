"""quantization_config -> what the checkpoint stores: bits per weight, what stands beside them, and which modules are left in 16 bits.

Source: transformers 5.23 utils/quantization_config.py; vllm-project/compressed-tensors; OCP Microscaling v1.0 for mxfp4; mlx-lm
utils.py; the formats themselves are rows of specs/checkpoint/schemes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.specs.hf.fields import MISSING, Fields

Stored = dict[str, Any]
NAMES = ("quantization_config", "compression_config", "quantization")
_INT = {n: "int4" if n <= 4 else "int8" for n in range(1, 9)}


def stored(f: Fields) -> Stored | None:
    """The `quantization:` of a spec, or None for an unquantised checkpoint. Raises DataError for an unknown scheme."""
    config = f.raw(*NAMES)
    if config is MISSING or not config:
        return None
    if not isinstance(config, dict):
        raise f.fail("quantization_config", "expected an object")
    inner = Fields(config, {}, f.where, (*f.prefix, next(name for name in NAMES if name in f.data)))
    method = inner.text("quant_method").lower() or _unnamed(config)
    if method not in _METHODS:
        raise inner.fail(
            "quant_method",
            f"unknown scheme '{method}'; known: {', '.join(sorted(_METHODS))}; "
            "remove quantization_config to count 16-bit weights",
        )
    _cached(f, inner)
    return _METHODS[method](inner) | _experts(f, inner)


def _experts(f: Fields, inner: Fields) -> Stored:
    """Routed experts in four bits beside eight for the rest, a scale of powers of two per 32 (DeepSeek-V4's expert_dtype)."""
    said = [place.text("expert_dtype") for place in (f, inner)]
    if not any(said):
        return {}
    if not set(said) <= {"", "fp4"}:
        raise f.fail("expert_dtype", f"'{max(said)}' is not read; known: fp4")
    return {"experts": {"dtype": "mxfp4", "group_size": 32, "scale_bits": 8}}


def _cached(f: Fields, inner: Fields) -> None:
    """What the block says of the cache changes no weight: a note says how to count it."""
    scheme = inner.raw("kv_cache_scheme")
    if isinstance(scheme, dict) and scheme.get("num_bits") == 8:
        f.notes.append("The checkpoint holds scales for keys and values of 8 bits: --kv-dtype fp8 counts such a cache; without it 16 bits are counted.")


def _unnamed(config: Stored) -> str:
    """The tool of a block that does not say: bitsandbytes by its switches, ModelOpt by its algorithm, MLX by its two numbers."""
    if "load_in_4bit" in config or "load_in_8bit" in config:
        return "bitsandbytes"
    if "quant_algo" in config:
        return "modelopt"
    return "mlx" if "bits" in config and "group_size" in config else ""


def _group(f: Fields, name: str = "group_size", null: int = 128) -> Stored:
    """Weights per scale; -1 is one scale per output."""
    size = f.whole(name, null=null, least=-1)
    return {"group_size": size} if size > 0 else {}


def _bits(f: Fields, allowed: tuple[int, ...], *names: str, null: int | None = None) -> Stored:
    """The width of a weight. Raises DataError for one that the format has not."""
    bits = f.whole(*names, null=null)
    if bits not in allowed:
        raise f.fail(names[0], f"{bits}-bit integers are not known; known: {', '.join(map(str, allowed))}")
    return {"dtype": _INT[bits], "bits": bits, "weight_only": True}


def _kept(f: Fields, result: Stored, *skipped: str) -> Stored:
    """Quantised linear layers, but for the modules that the config names."""
    names = [module for name in skipped for module in f.items(name, str) or []]
    return {"applies_to": "linear"} | result | ({"kept": names} if names else {})


def _gptq(f: Fields) -> Stored:
    """Group-wise integers, a 16-bit scale and a packed zero point per group, g_idx with or without act-order (arXiv 2210.17323)."""
    wide = _bits(f, (2, 3, 4, 8), "bits")
    group = _group(f)
    beside = {"scale_bits": 16, "zero_bits": wide["bits"], "input_bits": 32}
    if not group:
        beside |= {"scale_bits": 0, "zero_bits": 0, "output_bits": 16 + wide["bits"]}
    head = {"head_bits": wide["bits"]} if f.flag("lm_head") else {}
    found = _kept(f, {"method": "gptq", **wide, **group, **beside, **head}, "modules_in_block_to_not_quantize")
    left = _dynamic(f)
    return found | ({"kept": [*found.get("kept", []), *left]} if left else {})


def _dynamic(f: Fields) -> list[str]:
    """GPTQModel's rules by module: -: leaves what an expression matches in 16 bits. Raises DataError for other widths, which no row holds."""
    rules = f.raw("dynamic")
    left = []
    for rule, change in rules.items() if isinstance(rules, dict) else ():
        if rule.startswith("-:"):
            left.append(f"re:{rule[2:]}")
        elif change:
            raise f.fail("dynamic", f"'{rule[:60]}' is stored otherwise than the rest, which this importer cannot express; give the safetensors index")
    return left


def _awq(f: Fields) -> Stored:
    """As GPTQ without g_idx; the zero point is optional (Lin et al. 2023, arXiv 2306.00978)."""
    wide = _bits(f, (4, 8), "bits", "w_bit")
    zero = wide["bits"] if f.flag("zero_point", True) else 0
    size = _group(f, "group_size" if "q_group_size" not in f.data else "q_group_size")
    return _kept(f, {"method": "awq", **wide, **size, "scale_bits": 16, "zero_bits": zero}, "modules_to_not_convert")


def _fp8(f: Fields) -> Stored:
    """8-bit floats with a 32-bit scale per block of weight_block_size, or per tensor (DeepSeek-V3, arXiv 2412.19437, 3.3)."""
    block = f.items("weight_block_size", int, 2)
    group = {"block": block, "scale_bits": 32} if block else {"scale_bits": 0, "tensor_bits": 32}
    return _kept(f, {"dtype": "fp8", **group}, "modules_to_not_convert", "ignored_layers")


def _fbgemm(f: Fields) -> Stored:
    """8-bit floats with a 32-bit scale per output (transformers integrations/fbgemm_fp8.py)."""
    return _kept(f, {"dtype": "fp8", "scale_bits": 0, "output_bits": 32}, "modules_to_not_convert")


def _mxfp4(f: Fields) -> Stored:
    """4-bit floats with an 8-bit scale per 32 of them, on the experts only (gpt-oss model card)."""
    return {"dtype": "mxfp4", "group_size": 32, "scale_bits": 8, "applies_to": "experts"}


def _bitsandbytes(f: Fields) -> Stored:
    """NF4: a 32-bit scale per 64 weights, or 8 bits with an fp32 per 256 after double quantisation; int8: a scale per output."""
    if f.flag("load_in_8bit") or f.flag("_load_in_8bit"):
        found: Stored = {"dtype": "int8", "scale_bits": 0, "output_bits": 32, "tensor_bits": 8, "method": "bnb-int8"}
        return _kept(f, found, "llm_int8_skip_modules")
    found = {"dtype": "int4", "bits": 4, "group_size": 64, "weight_only": True}
    if f.flag("bnb_4bit_use_double_quant"):
        found |= {"method": "nf4-double", "scale_bits": 8, "nested_group": 256, "nested_bits": 32}
        return _kept(f, found | {"tensor_bits": (16 + 256 + 1) * 32}, "llm_int8_skip_modules")
    return _kept(f, found | {"method": "nf4", "scale_bits": 32, "tensor_bits": 16 * 32}, "llm_int8_skip_modules")


def _mlx(f: Fields) -> Stored:
    """A scale and a bias of 16 bits per group, embedding and head too; further entries name modules of other bits, or of none."""
    mode = f.text("mode", default="affine")
    if mode != "affine" and mode not in _MLX:
        raise f.fail("mode", f"'{mode}' is not read; known: affine, {', '.join(_MLX)}")
    kept = []
    for name, other in f.data.items():
        if other is False:
            kept.append(name)
        elif isinstance(other, dict) and (other.get("bits"), other.get("group_size")) != (
            f.raw("bits"),
            f.raw("group_size"),
        ):
            raise f.fail(
                name,
                "is stored in other bits than the rest, which this importer cannot express; give the safetensors index",
            )
    if mode in _MLX:
        f.expect("group_size", (_MLX[mode]["group_size"], None), f"{mode} has groups of its own")
        return {"method": "mlx", **_MLX[mode], "scale_bits": 8, "weight_only": True, "applies_to": "all"} | ({"kept": kept} if kept else {})
    found = {"method": "mlx", **_bits(f, (2, 3, 4, 5, 6, 8), "bits"), **_group(f), "scale_bits": 16, "zero_bits": 16}
    return found | {"applies_to": "all"} | ({"kept": kept} if kept else {})


_MLX: dict[str, Stored] = {  # a byte of scale per group, no bias: ml-explore/mlx nn/layers/quantized.py
    "mxfp4": {"dtype": "mxfp4", "group_size": 32},
    "nvfp4": {"dtype": "nvfp4", "group_size": 16},
    "mxfp8": {"dtype": "fp8", "group_size": 32},
}


def _hqq(f: Fields) -> Stored:
    """Packed bytes and a 16-bit scale and zero per group; three bits are packed ten to an int32 (mobiusml/hqq)."""
    config = f.raw("quant_config")
    weights = config.get("weight_quant_params") if isinstance(config, dict) else None
    inner = (
        Fields(weights, {}, f.where, (*f.prefix, "quant_config", "weight_quant_params"))
        if isinstance(weights, dict)
        else f
    )
    wide = _bits(inner, (1, 2, 3, 4, 8), "nbits", null=4)
    if wide["bits"] == 3:
        wide["bits"] = 3.2
    found = {"method": "hqq", **wide, **_group(inner, null=64), "scale_bits": 16, "zero_bits": 16}
    return _kept(f, found, "skip_modules")


def _torchao(f: Fields) -> Stored:
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
            return _kept(f, {"method": "torchao", "scale_bits": 0, **found, **sized}, "modules_to_not_convert")
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


def _exllama(method: str) -> Callable[[Fields], Stored]:
    """A mean of bits over the matrices, scales counted (2) or beside them (3); the head apart."""
    beside = {"input_bits": 16, "output_bits": 16} if method == "exl3" else {}

    def read(f: Fields) -> Stored:
        bits, head = f.raw("bits"), f.raw("head_bits", "lm_head_bits")
        if isinstance(bits, bool) or not isinstance(bits, (int, float)) or not 1 <= bits <= 8:
            raise f.fail("bits", f"expected a number from 1 to 8, got {str(bits)[:40]!r}")
        wide = head if isinstance(head, (int, float)) and not isinstance(head, bool) else 6
        base = {"dtype": "int4" if bits <= 5 else "int8", "bits": bits, "weight_only": True, "scale_bits": 0}
        return {"method": method, "applies_to": "linear", "head_bits": wide, **base, **beside}

    return read


def _modelopt(f: Fields) -> Stored:
    """NVIDIA ModelOpt: nvfp4 with a byte per 16 and two fp32 per matrix; fp8 with two fp32 per matrix."""
    kind = f.text("quant_algo").upper()
    if kind not in ("NVFP4", "FP8"):
        remedy = "give the checkpoint's safetensors index, which has each tensor, or remove quantization_config"
        raise f.fail("quant_algo", f"'{kind}' is not read; known: NVFP4, FP8; {remedy}")
    four = {"dtype": "nvfp4", "group_size": 16, "scale_bits": 8}
    found = (four if kind == "NVFP4" else {"dtype": "fp8", "scale_bits": 0}) | {"tensor_bits": 64}
    return _kept(f, found, "ignore", "exclude_modules")


def _compressed(f: Fields) -> Stored:
    """compressed-tensors: one group of weights, integer or float, per group, block, channel or tensor."""
    groups = f.raw("config_groups")
    if not isinstance(groups, dict) or len(groups) != 1:
        raise f.fail("config_groups", "expected exactly one group; write the model as YAML")
    name, group = next(iter(groups.items()))
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        raise f.fail("config_groups", "expected `weights` in its group")
    w = Fields(weights, {}, f.where, (*f.prefix, "config_groups", name, "weights"))
    wide = w.whole("num_bits")
    found = _float(w, wide) if w.text("type", default="int") == "float" else _packed(w, f)
    targets = Fields(group, {}, f.where, (*f.prefix, "config_groups", name)).items("targets", str) or []
    only = [t for t in targets if t != "Linear"]
    if found.get("weight_only") and isinstance(group.get("input_activations"), dict):
        found.pop("weight_only")
    return _kept(f, found | ({"only": only} if only and len(only) == len(targets) else {}), "ignore")


def _float(w: Fields, bits: int) -> Stored:
    if bits not in (4, 8):
        raise w.fail("num_bits", f"a float of {bits} bits is not known; known: 4, 8")
    if bits == 4:
        size = w.whole("group_size", null=16, least=-1)
        return {
            "dtype": "mxfp4" if size == 32 else "nvfp4",
            "group_size": size,
            "scale_bits": 8,
            "tensor_bits": 0 if size == 32 else 64,
        }
    return {"dtype": "fp8", **_spread(w, 16)}


def _packed(w: Fields, f: Fields) -> Stored:
    """Integers, packed into int32 with their shape as two int64 where the format says so."""
    wide = _bits(w, (4, 8), "num_bits")
    zero = 0 if w.flag("symmetric", True) else wide["bits"]
    found = {**wide, **_spread(w, 16, zero)}
    packed = "pack" in f.text("format", default="pack-quantized")
    return found | ({"tensor_bits": found.get("tensor_bits", 0) + 128} if packed else {})


def _spread(w: Fields, scale: int, zero: int = 0) -> Stored:
    """Where the scales are: per block, per group, per output or per tensor."""
    strategy = w.text("strategy")
    block = w.items("block_structure", int, 2) if strategy == "block" else None
    if block:
        return {"block": block, "scale_bits": scale}
    size = _group(w) if w.raw("group_size") not in (MISSING, None) else {}
    if size:
        return {**size, "scale_bits": scale, "zero_bits": zero}
    return {"scale_bits": 0} | ({"tensor_bits": 32} if strategy == "tensor" else {"output_bits": scale + zero})


_METHODS: dict[str, Callable[[Fields], Stored]] = {
    "gptq": _gptq,
    "awq": _awq,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed,
    "mlx": _mlx,
    "hqq": _hqq,
    "torchao": _torchao,
    "exl2": _exllama("exl2"),
    "exl3": _exllama("exl3"),
    "modelopt": _modelopt,
}
