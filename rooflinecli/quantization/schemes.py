"""Formats of quantized weights by the tensors that their tools write: what a matrix of K inputs and N outputs takes, byte for byte.

Each row of SCHEMES says what stands beside the packed values: scales and zero points per group, per output, per input or per
tensor; and what the tool leaves in 16 bits. Norms, biases and routers stay as they are in all of them, embedding and head in
most. `parse` reads a name as people write it: awq, gptq-8-g32, exl3-3.5, mlx-4-g32, nf4-double.
"""

from __future__ import annotations

import math
import re

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.layers import Quantization


@dataclass(frozen=True)
class Scheme:
    """A format of weights: its default bits and group, those it may have, what it stores, and where that is written down."""

    bits: float
    allowed: tuple[float, ...]
    stored: dict[str, object]
    source: str
    group: int | None = None
    groups: tuple[int, ...] = ()
    between: bool = False  # bits may lie between the allowed ones: a mixture that comes to a mean
    engine: str = ""  # what runs it where nobody says


_GROUPS = (16, 32, 64, 128, 256, 512, 1024)
_HEAD = 6  # bits of the head in exllama's formats, where nothing else is said
ALONE = ("exl", "mlx")  # formats that one tool reads
SCHEMES: dict[str, Scheme] = {
    "awq": Scheme(
        4, (4,), {"scale_bits": 16, "zero_bits": 4}, "AutoAWQ: qweight and qzeros of int32, fp16 scales", 128, _GROUPS, engine="autoawq"
    ),
    "gptq": Scheme(
        4,
        (2, 3, 4, 8),
        {"scale_bits": 16, "zero_packed": True, "input_bits": 32},
        "GPTQ (arXiv 2210.17323), AutoGPTQ: qweight, qzeros, fp16 scales, and g_idx of int32 with or without act-order",
        128,
        _GROUPS,
    ),
    "exl2": Scheme(
        4,
        tuple(range(2, 9)),
        {"head_bits": _HEAD},
        "exllamav2: the mean over its matrices, scales counted; the head 6 bits, the embedding fp16",
        between=True,
        engine="exllamav2",
    ),
    "exl3": Scheme(
        4,
        tuple(range(1, 9)),
        {"head_bits": _HEAD, "input_bits": 16, "output_bits": 16},
        "turboderp-org/exllamav3@4f8ad0121f modules/quant/exl3.py: trellis, suh and svh of fp16; the head 6 bits",
        between=True,
        engine="exllamav3",
    ),
    "mlx": Scheme(
        4,
        (2, 3, 4, 5, 6, 8),
        {"scale_bits": 16, "zero_bits": 16, "covers": "all"},
        "ml-explore/mlx@0154acf14b nn/layers/quantized.py: a scale and a bias of 16 bits per group, embedding and head too",
        64,
        (32, 64, 128),
        engine="mlx",
    ),
    "mlx-mxfp4": Scheme(
        4, (4,), {"dtype": "mxfp4", "scale_bits": 8, "covers": "all"}, "the same: groups of 32, one byte each", 32, (32,), engine="mlx"
    ),
    "mlx-nvfp4": Scheme(
        4, (4,), {"dtype": "nvfp4", "scale_bits": 8, "covers": "all"}, "the same: groups of 16, one byte each", 16, (16,), engine="mlx"
    ),
    "mlx-mxfp8": Scheme(
        8, (8,), {"dtype": "fp8", "scale_bits": 8, "covers": "all"}, "the same: groups of 32, one byte each", 32, (32,), engine="mlx"
    ),
    "nf4": Scheme(
        4,
        (4,),
        {"scale_bits": 32, "tensor_bits": 16 * 32},
        "bitsandbytes (arXiv 2305.14314): fp32 absmax per 64, a table of 16 fp32",
        64,
        (64, 128, 256, 512, 1024, 2048, 4096),
    ),
    "nf4-double": Scheme(
        4,
        (4,),
        {"scale_bits": 8, "nested_group": 256, "nested_bits": 32, "tensor_bits": (16 + 256 + 1) * 32},
        "bitsandbytes: absmax in 8 bits, an fp32 per 256 of them, two tables and an offset",
        64,
        (64, 128, 256, 512, 1024, 2048, 4096),
    ),
    "bnb-int8": Scheme(
        8, (8,), {"output_bits": 32, "tensor_bits": 8}, "bitsandbytes LLM.int8(): int8, fp32 SCB per output, a format byte"
    ),
    "hqq": Scheme(
        4,
        (1, 2, 3, 4, 8),
        {"scale_bits": 16, "zero_bits": 16, "per_word": {3: 10}},
        "mobiusml/hqq: packed uint8 (three bits: ten to an int32), fp16 scale and zero per group",
        64,
        _GROUPS,
    ),
    "torchao-int4": Scheme(
        4, (4,), {"scale_bits": 16, "zero_bits": 16}, "pytorch/ao int4 weight-only: bf16 scale and zero", 128, (32, 64, 128, 256)
    ),
    "torchao-int8": Scheme(8, (8,), {"output_bits": 16}, "pytorch/ao int8 weight-only: a scale of 16 bits per output"),
    "torchao-fp8": Scheme(
        8, (8,), {"dtype": "fp8", "output_bits": 32}, "pytorch/ao float8 weight-only: an fp32 scale per output"
    ),
    "fp8-block": Scheme(
        8,
        (8,),
        {"dtype": "fp8", "block": [128, 128], "scale_bits": 32},
        "DeepSeek-V3 (arXiv 2412.19437, 3.3): an fp32 scale per block of 128 x 128",
    ),
    "fp8-channel": Scheme(
        8, (8,), {"dtype": "fp8", "output_bits": 16}, "compressed-tensors, channel strategy: a scale of 16 bits per output"
    ),
    "fp8-tensor": Scheme(8, (8,), {"dtype": "fp8", "tensor_bits": 32}, "compressed-tensors, tensor strategy: one fp32 scale"),
    "w4a16": Scheme(
        4,
        (4, 8),
        {"scale_bits": 16, "tensor_bits": 128},
        "vllm-project/compressed-tensors pack-quantized, symmetric: 16-bit scale per group, the shape as two int64",
        128,
        _GROUPS,
    ),
    "mxfp4-experts": Scheme(
        4,
        (4,),
        {"dtype": "mxfp4", "scale_bits": 8, "covers": "experts"},
        "gpt-oss model card: experts alone, one byte per 32",
        32,
        (32,),
    ),
    "nvfp4-modelopt": Scheme(
        4,
        (4,),
        {"dtype": "nvfp4", "scale_bits": 8, "tensor_bits": 64},
        "NVIDIA ModelOpt and compressed-tensors: a byte per 16, two fp32 per matrix (weight and input)",
        16,
        (16,),
    ),
}  # fmt: skip
_PART = re.compile(r"(?:-(?P<bits>\d+(?:\.\d+)?)(?:-?bits?|bpw)?)?(?:-g(?P<group>\d+))?(?:-h(?P<head>\d+))?$")
_SPELLED = {
    "gptq-int4": "gptq-4",
    "gptq-int8": "gptq-8",
    "bnb-nf4": "nf4",
    "bnb-nf4-double": "nf4-double",
    "bnb-4bit": "nf4-double",
}


def parse(name: str | None) -> Quantization | None:
    """What a format of the table stores; None for a name that is not of it. Raises UsageError for bits or groups it has not."""
    written = _SPELLED.get((name or "").lower(), (name or "").lower())
    stem = max((s for s in SCHEMES if written == s or written.startswith(f"{s}-")), key=len, default=None)
    if stem is None:
        return None
    found = _PART.match(written[len(stem) :])
    if found is None:
        raise unknown(
            "format", written, SCHEMES, f"written {stem}, {stem}-BITS or {stem}-BITS-gGROUP", option="weight-dtype"
        )
    scheme, bits, group = SCHEMES[stem], found["bits"], found["group"]
    wide = scheme.bits if bits is None else float(bits)
    inside = scheme.between and scheme.allowed[0] <= wide <= scheme.allowed[-1]
    if wide not in scheme.allowed and not inside:
        raise UsageError(f"--weight-dtype {name}: {stem} has {_listed(scheme)} bits, not {wide:g}", "weight-dtype")
    if group is not None and int(group) not in scheme.groups:
        has = f"groups of {', '.join(map(str, scheme.groups))}" if scheme.groups else "no groups"
        raise UsageError(f"--weight-dtype {name}: {stem} has {has}", "weight-dtype")
    if found["head"] and "head_bits" not in scheme.stored:
        raise UsageError(f"--weight-dtype {name}: {stem} has no head of its own", "weight-dtype")
    if found["head"] and not 1 <= int(found["head"]) <= 16:
        raise UsageError(f"--weight-dtype {name}: the head has 1 to 16 bits, not {int(found['head'])}", "weight-dtype")
    return _quantization(stem, scheme, wide, int(group) if group else scheme.group, found["head"])


def _listed(scheme: Scheme) -> str:
    low, high = scheme.allowed[0], scheme.allowed[-1]
    return f"{low:g} to {high:g}" if scheme.between else " or ".join(f"{b:g}" for b in scheme.allowed)


def _quantization(stem: str, scheme: Scheme, bits: float, group: int | None, head: str | None) -> Quantization:
    stored = dict(scheme.stored)
    if stored.pop("zero_packed", False):
        stored["zero_bits"] = int(bits)
    words = stored.pop("per_word", {})
    assert isinstance(words, dict)
    if head:
        stored["head_bits"] = int(head)
    kind = str(stored.pop("dtype", "int8" if bits > 4 else "int4"))
    covers = stored.pop("covers", "linear")
    packed = 32 / words[int(bits)] if bits in words else bits
    base = {"dtype": kind, "group_size": group, "scale_bits": 0, "applies_to": covers, "method": stem, "bits": packed}
    alone = kind.startswith("int") and stem != "bnb-int8"
    return Quantization.model_validate(base | {"weight_only": alone} | stored)


def matrix_bytes(stored: Quantization, inputs: int, outputs: int, bits: float | None = None) -> float:
    """Bytes of a matrix of `inputs` x `outputs` with what stands beside it. bits: those of this very matrix (a head of its own).

    A fraction of bits per weight is the mean of a mixture, so its bytes are a mean too; else they are whole.
    """
    wide = bits if bits is not None else stored.bits
    assert wide is not None
    count = inputs * outputs
    size = count * wide / 8
    if stored.block:
        down, across = stored.block
        size += math.ceil(outputs / down) * math.ceil(inputs / across) * stored.scale_bits / 8
    elif stored.group_size:
        whole = stored.group_size > inputs  # a group over several columns
        scales = math.ceil(count / stored.group_size) if whole else math.ceil(inputs / stored.group_size) * outputs
        size += scales * (stored.scale_bits + stored.zero_bits) / 8
        if stored.nested_group:
            size += math.ceil(scales / stored.nested_group) * stored.nested_bits / 8
    return size + (inputs * stored.input_bits + outputs * stored.output_bits + stored.tensor_bits) / 8
