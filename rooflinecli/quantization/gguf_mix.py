"""GGUF quantization mixes: ggml's tensor types, and how llama-quantize chooses one for each tensor of a file type.

A file type is a mixture: Q4_K_M stores some matrices as Q6_K. What stays in 32 bits (norms, the router, everything with one axis) has no
rule here. Source: ggml-org/llama.cpp src/llama-quant.cpp@007dbbf3fd, ggml/src/ggml-common.h@01243c587f; PyPI gguf 0.19.0 constants.py.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.yaml_loader import Loader


@cache
def _tables() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = yaml.load(Path(__file__).with_name("ggml.yaml").read_text("utf-8"), Loader)
    return tables


def types() -> dict[str, list[int]]:
    """Tensor type -> its id in a file, values per block, bytes per block."""
    return _tables()["types"]


def file_types() -> dict[str, dict[str, Any]]:
    """File type -> `most`, the type of most of its tensors, and `id`, its general.file_type."""
    return _tables()["file_types"]


def tensor_bytes(name: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor (outermost axis first). Raises ValueError where its rows are no whole number of blocks."""
    _, block, size = types()[name]
    columns, rows = shape[-1] if shape else 1, math.prod(shape[:-1])
    if columns % block:
        raise ValueError(f"rows of {columns} values are no whole number of {name} blocks of {block}")
    return rows * (columns // block) * size


_WIDE = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Shape:
    """Model properties that the rules depend on; `native` is the type of experts that every file copies (empty for 16 bits), `groups` the
    query heads per key/value head."""

    layers: int
    groups: int
    experts: int = 0
    tied: bool = False
    width: int = 0
    imatrix: bool = False
    native: str = ""

    def conditions(self, i: int) -> dict[str, bool]:
        """The conditions of ggml.yaml in layer i."""
        eighth, last = self.layers // 8, 7 * self.layers // 8
        return {
            "first2": i < 2,
            "first4": i < 4,
            "early": i < eighth,
            "sixteenth": i < self.layers // 16,
            "middle": eighth <= i < last,
            "more": i < eighth or i >= last or (i - eighth) % 3 == 2,
            "shared": self.groups >= 4,
            "eight": self.experts == 8,
            "experts4": self.experts >= 4,
            "imatrix": self.imatrix,
        }


def file_type(name: str | None) -> str | None:
    """The GGUF file type of a weight format as typed; None for a number format (int4, fp8)."""
    written = (name or "").upper()
    return (
        written
        if written and written in file_types() and written not in _WIDE and written not in ("MXFP4", "NVFP4")
        else None
    )


def tensor_type(file: str, role: str, layer: int, columns: int, shape: Shape) -> str:
    """The type of one matrix: `role` is its name without block number (attn_v, ffn_down, token_embd, output, ...).

    Experts published in MXFP4 (gpt-oss) are copied as they are by convert_hf_to_gguf, and llama-quantize converts nothing twice
    unless forced to (`requantizing from type mxfp4 is disabled`).
    """
    if shape.native and role.endswith("_exps"):
        return shape.native
    wanted = _choose(file, role.removesuffix("_exps").removesuffix("_shexp"), layer, shape, role.endswith("_exps"))
    fallback = _tables()["fallback"]
    if columns % types()[wanted][1] and wanted in fallback:
        wanted = "Q8_0" if role == "output" else fallback[wanted]
    return "F16" if columns % types()[wanted][1] else wanted


def _choose(file: str, role: str, i: int, s: Shape, expert: bool) -> str:
    base: str = file_types()[file]["most"]
    if base in _WIDE:
        return base
    role = "output" if role == "token_embd" and s.tied else role
    if file == "MXFP4_MOE" and role != "output":
        return "MXFP4" if expert else "Q8_0"
    rules = _tables()["rules"].get(role, {})
    holds = s.conditions(i)
    for rule in rules.get(file, rules.get("other", [])):
        condition, _, kind = rule.rpartition(" ")
        if all(holds[c.removeprefix("no-")] != c.startswith("no-") for c in condition.split("&") if c):
            base = kind
            break
    if role in ("attn_v", "attn_qkv", "attn_kv_b") and s.layers == 80 and s.width == 8192 and base in ("Q3_K", "Q4_K"):
        tiny = file.startswith(("IQ1", "IQ2"))
        return base if tiny else "Q5_K"  # llama-quant's 70B rule: eight queries share a value, so more bits are cheap
    return base
