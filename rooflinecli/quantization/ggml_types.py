"""ggml's tensor types: ids, block lengths and bytes. Source: ggml-org/llama.cpp ggml/src/ggml-common.h@01243c587f and PyPI gguf 0.19.0
constants.py. A row of c columns takes c / block x bytes."""

from __future__ import annotations

# name -> (id in a file, values per block, bytes per block)
TYPES: dict[str, tuple[int, int, int]] = {
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "IQ2_XXS": (16, 256, 66),
    "IQ2_XS": (17, 256, 74),
    "IQ3_XXS": (18, 256, 98),
    "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18),
    "IQ3_S": (21, 256, 110),
    "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136),
    "I8": (24, 1, 1),
    "I16": (25, 1, 2),
    "I32": (26, 1, 4),
    "I64": (27, 1, 8),
    "F64": (28, 1, 8),
    "IQ1_M": (29, 256, 56),
    "BF16": (30, 1, 2),
    "TQ1_0": (34, 256, 54),
    "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17),
    "NVFP4": (40, 64, 36),
    "Q1_0": (41, 128, 18),
}
BY_ID = {number: name for name, (number, _, _) in TYPES.items()}


def bits(name: str) -> float:
    """Bits per weight of a type, scales counted."""
    _, block, size = TYPES[name]
    return size * 8 / block


def tensor_bytes(name: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor (outermost axis first). Raises ValueError where its rows are no whole number of blocks."""
    _, block, size = TYPES[name]
    columns, rows = shape[-1] if shape else 1, 1
    for axis in shape[:-1]:
        rows *= axis
    if columns % block:
        raise ValueError(f"rows of {columns} values are no whole number of {name} blocks of {block}")
    return rows * (columns // block) * size
