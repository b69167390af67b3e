"""Formats of quantized weights: bytes of a matrix of K inputs and N outputs, as its tool writes it.

A row of schemes.yaml has the scales and zero points per group, output, input or tensor, and what the tool leaves in 16 bits. Norms, biases
and routers are unquantized in all of them, embedding and head in most. `parse` reads a name as people write it: awq, gptq-8-g32, exl3-3.5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import Json
from rooflinecli.quantization.formats import FORMATS
from rooflinecli.specs.model import Quantization
from rooflinecli.specs.snapshots import table


@dataclass(frozen=True)
class Scheme:
    """A format of weights: default and allowed bits and group sizes, stored tensors, source."""

    bits: float
    allowed: Sequence[float]
    stored: Json
    source: str
    group: int | None = None
    groups: Sequence[int] = ()
    between: bool = False  # bits may lie between the allowed ones: a mixture that comes to a mean
    engine: str = ""  # default engine


ALONE = ("exl", "mlx")  # formats that one tool reads


@cache
def schemes() -> dict[str, Scheme]:
    """The rows of schemes.yaml."""
    rows = table(Path(__file__).with_suffix(".yaml"))
    usual = {
        name: {"allowed": [row["bits"]], "groups": [row["group"]] if "group" in row else []}
        for name, row in rows.items()
    }
    return {name: Scheme(**(usual[name] | row)) for name, row in rows.items()}


_PART = re.compile(r"(?:-(?P<bits>\d+(?:\.\d+)?)(?:-?bits?|bpw)?)?(?:-g(?P<group>\d+))?(?:-h(?P<head>\d+))?$")
_SPELLED = {
    "gptq-int4": "gptq-4",
    "gptq-int8": "gptq-8",
    "bnb-nf4": "nf4",
    "bnb-nf4-double": "nf4-double",
    "bnb-4bit": "nf4-double",
}


def parse(name: str | None) -> Quantization | None:
    """Parse a format name; None for a name that is not in the table. Raises UsageError for unsupported bits or groups."""
    if not name or name in FORMATS:
        return None
    written = _SPELLED.get(name.lower(), name.lower())
    stem = max((s for s in schemes() if written == s or written.startswith(f"{s}-")), key=len, default=None)
    if stem is None:
        return None
    parts = _PART.match(written[len(stem) :])
    if parts is None:
        raise unknown(
            "format", written, schemes(), f"written {stem}, {stem}-BITS or {stem}-BITS-gGROUP", option="weight-dtype"
        )
    scheme, bits, group = schemes()[stem], parts["bits"], parts["group"]
    wide = scheme.bits if bits is None else float(bits)
    inside = scheme.between and scheme.allowed[0] <= wide <= scheme.allowed[-1]
    if wide not in scheme.allowed and not inside:
        low, high = scheme.allowed[0], scheme.allowed[-1]
        has = f"{low:g} to {high:g}" if scheme.between else " or ".join(f"{b:g}" for b in scheme.allowed)
        raise UsageError(f"--weight-dtype {name}: {stem} has {has} bits, not {wide:g}", "weight-dtype")
    if group is not None and int(group) not in scheme.groups:
        has = f"groups of {', '.join(map(str, scheme.groups))}" if scheme.groups else "no groups"
        raise UsageError(f"--weight-dtype {name}: {stem} has {has}", "weight-dtype")
    if parts["head"] and "head_bits" not in scheme.stored:
        raise UsageError(f"--weight-dtype {name}: {stem} has no head of its own", "weight-dtype")
    if parts["head"] and not 1 <= int(parts["head"]) <= 16:
        raise UsageError(f"--weight-dtype {name}: the head has 1 to 16 bits, not {int(parts['head'])}", "weight-dtype")
    return _quantization(stem, scheme, wide, int(group) if group else scheme.group, parts["head"])


def _quantization(stem: str, scheme: Scheme, bits: float, group: int | None, head: str | None) -> Quantization:
    stored = dict(scheme.stored)
    if stored.pop("zero_packed", False):
        stored["zero_bits"] = int(bits)
    words = {float(width): count for width, count in stored.pop("per_word", {}).items()}
    if head:
        stored["head_bits"] = float(head)
    kind = str(stored.pop("dtype", "int8" if bits > 4 else "int4"))
    covers = stored.pop("covers", "linear")
    packed = 32 / words[bits] if bits in words else float(bits)
    base = {"dtype": kind, "group_size": group, "scale_bits": 0, "applies_to": covers, "method": stem, "bits": packed}
    alone = kind.startswith("int") and stem != "bnb-int8"
    return Quantization(**base | {"weight_only": alone} | stored)


def matrix_bytes(stored: Quantization, inputs: int, outputs: int, bits: float | None = None) -> float:
    """Bytes of a matrix of `inputs` x `outputs` with its scales and zero points. bits: those of this matrix, if they differ (a head).

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
