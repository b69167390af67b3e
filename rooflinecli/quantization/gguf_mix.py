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


_TINY = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M")
_WIDE = ("F32", "F16", "BF16")
_FALLBACK = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}


@dataclass(frozen=True)
class Shape:
    """What the rules ask about a model: layers, heads per key/value head, experts, whether the head is the embedding, and the type that
    its experts were published in and keep in every file (`native`, empty for 16 bits)."""

    layers: int
    groups: int
    experts: int = 0
    tied: bool = False
    width: int = 0
    imatrix: bool = False
    native: str = ""

    def more(self, i: int) -> bool:
        """Layers that get more bits: the first and last eighth, and every third between."""
        eighth = self.layers // 8
        return i < eighth or i >= 7 * self.layers // 8 or (i - eighth) % 3 == 2

    def early(self, i: int, part: int = 8) -> bool:
        return i < self.layers // part


def file_type(name: str | None) -> str | None:
    """The file type that a weight format names, as people write it; None for a format of the machine (int4, fp8)."""
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
    if columns % types()[wanted][1] and wanted in _FALLBACK:
        wanted = "Q8_0" if role == "output" else _FALLBACK[wanted]
    return "F16" if columns % types()[wanted][1] else wanted


def _choose(file: str, role: str, i: int, s: Shape, expert: bool) -> str:
    base: str = file_types()[file]["most"]
    if base in _WIDE:
        return base
    if role == "output" or (role == "token_embd" and s.tied):
        return _output(file, base)
    if file == "MXFP4_MOE":
        return "MXFP4" if expert else "Q8_0"
    if role == "token_embd":
        return _embedding(file, base)
    if file in _TINY:
        return _tiny(file, base, role, i, s)
    rule = _RULES.get("attn_v" if role in ("attn_qkv", "attn_kv_b") else role)
    return (rule(file, i, s) or base) if rule else base


def _output(file: str, base: str) -> str:
    if file == "MXFP4_MOE" or base == "Q8_0":
        return "Q8_0"
    return "Q5_K" if file in (*_TINY, "IQ3_XXS") else "Q6_K"


def _embedding(file: str, base: str) -> str:
    if file in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS"):
        return "Q2_K"
    if file in ("IQ2_S", "IQ2_M", "IQ3_XXS"):
        return "IQ3_S"
    return "Q4_K" if file in ("TQ1_0", "TQ2_0") else base


def _tiny(file: str, base: str, role: str, i: int, s: Shape) -> str:
    """Files of one and two bits."""
    upper = "IQ3_S" if file in ("IQ2_S", "IQ2_M") else "Q2_K"
    if role in ("attn_v", "attn_qkv", "attn_kv_b"):
        return "Q4_K" if s.groups >= 4 or s.experts >= 4 else upper
    if role == "attn_k" and s.experts == 8:
        return "Q4_K"
    if role == "ffn_down":
        return upper if s.early(i) else base
    if role == "attn_output":
        if s.experts == 8:
            return "Q5_K"
        return "IQ2_XXS" if file in ("IQ1_S", "IQ1_M") else "IQ3_S" if upper == "IQ3_S" else base
    return base


def _attn_v(file: str, i: int, s: Shape) -> str | None:
    shared = s.groups >= 4
    choice = {
        "Q2_K": "Q4_K" if shared else "Q3_K",
        "Q2_K_S": "Q4_K" if shared else None,
        "IQ3_XXS": "Q4_K" if shared else "IQ3_XXS" if s.imatrix else "IQ3_S",
        "IQ3_XS": "Q4_K" if shared else None,
        "IQ3_S": "Q4_K" if shared else None,
        "IQ3_M": "Q4_K",
        "Q3_K_M": "Q5_K" if i < 2 else "Q4_K",
        "Q3_K_L": "Q5_K",
        "IQ4_NL": "Q5_K" if shared else None,
        "IQ4_XS": "Q5_K" if shared else None,
        "Q4_K_M": "Q6_K" if s.more(i) else None,
        "Q5_K_M": "Q6_K" if s.more(i) else None,
        "Q4_K_S": "Q5_K" if i < 4 else None,
    }.get(file)
    if s.layers == 80 and s.width == 8192 and (choice or file_types()[file]["most"]) in ("Q3_K", "Q4_K"):
        choice = "Q5_K"  # what the code calls a 70B: eight queries share a value, so it is cheap
    return "Q8_0" if s.experts == 8 else choice


def _attn_k(file: str, i: int, s: Shape) -> str | None:
    return "Q8_0" if s.experts == 8 else _attn_q(file, i, s)


def _attn_q(file: str, i: int, s: Shape) -> str | None:
    return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(file)


def _ffn_down(file: str, i: int, s: Shape) -> str | None:
    early, quarter = s.early(i), s.early(i, 16)
    plain = not s.imatrix
    return {
        "Q2_K": "Q3_K",
        "Q2_K_S": "Q4_K" if early else None,
        "Q3_K_M": "Q5_K" if quarter else "Q4_K",
        "Q3_K_L": "Q5_K",
        "Q4_K_M": "Q6_K" if s.more(i) else None,
        "Q5_K_M": "Q6_K" if s.more(i) else None,
        "Q4_K_S": "Q5_K" if early else None,
        "IQ3_M": "Q4_K" if early or (s.experts == 8 and s.more(i)) else None,
        "IQ3_XXS": ("Q4_K" if early else "Q3_K") if plain else None,
        "IQ4_NL": "Q5_K" if early and plain else None,
        "IQ4_XS": "Q5_K" if early and plain else None,
        "Q4_0": "Q4_1" if early and s.imatrix else None,
        "Q5_0": "Q5_1" if early and s.imatrix else None,
    }.get(file)


def _attn_output(file: str, i: int, s: Shape) -> str | None:
    if s.experts == 8:
        eight = file in ("Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M") or file.startswith(("IQ3", "IQ4"))
        return "Q5_K" if eight else None
    return {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "IQ3_M": "Q4_K", "Q3_K_L": "Q5_K"}.get(file)


def _gate_up(file: str, i: int, s: Shape) -> str | None:
    return "IQ3_XXS" if file == "IQ3_XS" and s.layers // 8 <= i < 7 * s.layers // 8 else None


_RULES = {
    "attn_v": _attn_v,
    "attn_k": _attn_k,
    "attn_q": _attn_q,
    "ffn_down": _ffn_down,
    "attn_output": _attn_output,
    "ffn_gate": _gate_up,
    "ffn_up": _gate_up,
}
