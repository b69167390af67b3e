"""compressed-tensors: groups of modules, each with a format of weights. Source: vllm-project/compressed-tensors quantization/quant_args.py."""

from __future__ import annotations

from typing import Any

from rooflinecli.quantization.packing import Stored, grouping, integers, keeping
from rooflinecli.specs.field_reader import MISSING, ConfigFields


def compressed(f: ConfigFields) -> Stored:
    """compressed-tensors: groups of weights, integer or float, per group, block, channel or tensor. The group of all linear layers
    comes first; the modules that others name have their format instead."""
    _dense(f)
    groups = f.raw("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise f.fail("config_groups", "expected at least one group; write the model as YAML")
    found = [_one_group(f, name, group) for name, group in groups.items()]
    base = next(((stored, only) for stored, only in found if not only), found[0])
    others = [
        {"modules": only, "stored": {"applies_to": "linear", **stored}}
        for stored, only in found
        if (stored, only) != base
    ]
    beside = ({"only": base[1]} if base[1] else {}) | ({"others": others} if others else {})
    return keeping(f, base[0] | beside, "ignore")


def _dense(f: ConfigFields) -> None:
    """Raises DataError for weights stored without their zeros (two of four, a mask beside them): no bytes of those are known here."""
    sparse = f.raw("sparsity_config")
    said = sparse.get("format") if isinstance(sparse, dict) else None
    where = "sparsity_config"
    if said in (None, "dense"):
        said, where = f.raw("format"), "format"
    if isinstance(said, str) and ("24" in said or "bitmask" in said):
        raise f.fail(
            where,
            f"{said} stores weights without their zeros, whose bytes are not counted here; name the dense checkpoint",
        )


def _one_group(f: ConfigFields, name: str, group: Any) -> tuple[Stored, list[str]]:
    """The format of a group, and the modules that it names; none: every linear layer."""
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        raise f.fail("config_groups", "expected `weights` in its group")
    at = (*f.prefix, "config_groups", name)
    w = ConfigFields(weights, {}, f.where, (*at, "weights"))
    wide = w.whole("num_bits")
    own = {"format": group["format"]} if isinstance(group.get("format"), str) else {}
    found = (
        _float(w, wide)
        if w.text("type", default="int") == "float"
        else _packed(w, ConfigFields({**f.data, **own}, {}, f.where, f.prefix))
    )
    targets = ConfigFields(group, {}, f.where, at).items("targets", str) or []
    if found.get("weight_only") and isinstance(group.get("input_activations"), dict):
        found.pop("weight_only")
    return found, [] if "Linear" in targets else targets


def _float(w: ConfigFields, bits: int) -> Stored:
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


def _packed(w: ConfigFields, f: ConfigFields) -> Stored:
    """Integers, packed into int32 with their shape as two int64 where the format says so."""
    wide = integers(w, (4, 8), "num_bits")
    zero = 0 if w.flag("symmetric", True) else wide["bits"]
    found = {**wide, **_spread(w, 16, zero)}
    packed = "pack" in f.text("format", default="pack-quantized")
    return found | ({"tensor_bits": found.get("tensor_bits", 0) + 128} if packed else {})


def _spread(w: ConfigFields, scale: int, zero: int = 0) -> Stored:
    """Where the scales are: per block, per group, per output or per tensor."""
    strategy = w.text("strategy")
    block = w.items("block_structure", int, 2) if strategy == "block" else None
    if block:
        return {"block": block, "scale_bits": scale}
    size = grouping(w) if w.raw("group_size") not in (MISSING, None) else {}
    if size:
        return {**size, "scale_bits": scale, "zero_bits": zero}
    return {"scale_bits": 0} | ({"tensor_bits": 32} if strategy == "tensor" else {"output_bits": scale + zero})
