"""Checkpoint files for tests, written byte by byte from the published formats: headers, and no data."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

# ids and block sizes typed from ggml-common.h, not imported from the package
GGML = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210)}  # fmt: skip


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    kind = 8 if value and isinstance(value[0], str) else 5
    body = b"".join(_string(v) if kind == 8 else struct.pack("<i", v) for v in value)
    return struct.pack("<IIQ", 9, kind, len(value)) + body


def gguf(path: Path, metadata: dict[str, Any], tensors: list[tuple[str, tuple[int, ...], str]]) -> int:
    """Write a header (shapes outermost first); returns the bytes that its tensors would take."""
    body = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        body += _string(key) + _value(value)
    total = 0
    for name, shape, kind in tensors:
        number, block, size = GGML[kind]
        count = 1
        for axis in shape:
            count *= axis
        assert shape[-1] % block == 0
        body += _string(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", a) for a in reversed(shape))
        body += struct.pack("<IQ", number, total)
        total += count // block * size
    path.write_bytes(body)
    return total


SIZES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4}


def safetensors(
    path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]], metadata: dict[str, str] | None = None
) -> int:
    """Write the header of a safetensors file; returns the bytes that its tensors would take."""
    entries: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = SIZES[dtype]
        for axis in shape:
            size *= axis
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    return at


def llama_tensors(
    layers: int, d: int, ff: int, vocab: int, kv: int, kind: str, head: str, tied: bool = False
) -> list[tuple[str, tuple[int, ...], str]]:
    """The tensors of a llama of uniform types."""
    found = [("token_embd.weight", (vocab, d), head if tied else kind), ("output_norm.weight", (d,), "F32")]
    if not tied:
        found.append(("output.weight", (vocab, d), head))
    for i in range(layers):
        rows = {
            "attn_q": (d, d),
            "attn_k": (kv, d),
            "attn_v": (kv, d),
            "attn_output": (d, d),
            "ffn_gate": (ff, d),
            "ffn_up": (ff, d),
            "ffn_down": (d, ff),
        }
        found += [(f"blk.{i}.{name}.weight", shape, kind) for name, shape in rows.items()]
        found += [(f"blk.{i}.{name}_norm.weight", (d,), "F32") for name in ("attn", "ffn")]
    return found


LLAMA = {
    "general.architecture": "llama",
    "general.name": "tiny",
    "general.file_type": 15,
    "llama.block_count": 4,
    "llama.context_length": 4096,
    "llama.embedding_length": 512,
    "llama.feed_forward_length": 1024,
    "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["a", "b"],
    "tokenizer.ggml.token_type": [1, 2, 3],
    "llama.rope.freq_base": 10000.0,
}
