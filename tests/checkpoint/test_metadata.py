"""Values of a GGUF header of every kind and byte order, keys of layers, and what a header comes to."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.importers.checkpoint import gguf_header
from rooflinecli.importers.checkpoint.gguf_header import GgufMetadata
from rooflinecli.importers.checkpoint.tensor_header import Header, Tensor

SCALARS = {0: ("B", 200), 1: ("b", -3), 2: ("H", 60000), 3: ("h", -300), 4: ("I", 4_000_000_000), 5: ("i", -5), 6: ("f", 1.5), 7: ("?", True), 10: ("Q", 1 << 60), 11: ("q", -(1 << 60)), 12: ("d", 0.1)}  # fmt: skip


def text(order: str, words: str) -> bytes:
    return struct.pack(f"{order}Q", len(words.encode())) + words.encode()


def written(order: str = "<", version: int = 3, tensors: bytes = b"", count: int = 0) -> bytes:
    """A header with a value of each kind, of ggml's docs/gguf.md."""
    pairs = [
        text(order, f"k{kind}") + struct.pack(f"{order}I{code}", kind, value) for kind, (code, value) in SCALARS.items()
    ]
    pairs.append(text(order, "s") + struct.pack(f"{order}I", 8) + text(order, "wörd"))
    pairs.append(text(order, "a") + struct.pack(f"{order}IIQ3i", 9, 5, 3, 1, -2, 3))
    nested = (
        struct.pack(f"{order}IIQ", 9, 9, 2)
        + struct.pack(f"{order}IQ", 8, 1)
        + text(order, "x")
        + struct.pack(f"{order}IQ2B", 0, 2, 7, 8)
    )
    pairs.append(text(order, "n") + nested)
    return b"GGUF" + struct.pack(f"{order}IQQ", version, count, len(pairs)) + b"".join(pairs) + tensors


@pytest.mark.parametrize("order, version", [("<", 3), ("<", 2), (">", 3), (">", 2)])
def test_values_of_every_kind_in_both_orders(tmp_path: Path, order: str, version: int) -> None:
    tensor = text(order, "t") + struct.pack(f"{order}I2QIQ", 2, 64, 3, 8, 0)  # Q8_0, innermost axis first
    path = tmp_path / "a.gguf"
    path.write_bytes(written(order, version, tensor, 1))
    found = gguf_header.read(path)
    assert {f"k{kind}": value for kind, (_, value) in SCALARS.items()}.items() <= found.metadata.items()
    assert (found.metadata["s"], found.metadata["a"], found.metadata["n"]) == ("wörd", [1, -2, 3], [["x"], [7, 8]])
    (one,) = found.tensors
    assert (one.name, one.shape, one.bytes, one.elements) == ("t", (3, 64), 3 * 2 * 34, 192)


@pytest.mark.parametrize(
    "raw, says",
    [
        (b"GGML" + b"\0" * 20, "does not start with 'GGUF'"), (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1 is not supported"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "version 4 is not supported"), (b"GGUF" + struct.pack("<IQQ", 3, (1 << 28) + 1, 0), "tensors are more than any file has"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("<", "k") + struct.pack("<I", 13), "a value of unknown type 13"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("<", "k") + struct.pack("<IH", 4, 1), "ends after 39 bytes, in the middle of a value"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("<", "t") + struct.pack("<I", 9), "tensor 't' has 9 axes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("<", "t") + struct.pack("<IQIQ", 1, 4, 99, 0), "is of type 99, which is not known here"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("<", "k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 10, "arrays nest too deeply"),
    ],
)  # fmt: skip
def test_what_is_no_header(tmp_path: Path, raw: bytes, says: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=says):
        gguf_header.read(path)


def keys(metadata: dict[str, Any], *tensors: Tensor) -> GgufMetadata:
    return GgufMetadata(
        Header(Path("a.gguf"), "gguf", tensors, {f"arch.{key}": value for key, value in metadata.items()}),
        "arch",
        "a.gguf",
    )


def test_keys_of_an_architecture() -> None:
    tensors = [Tensor(f"blk.{i}.x.weight", (i + 2, 8), "F16", 16) for i in (1, 2)] + [Tensor("out", (4,), "F32", 16)]
    k = keys(
        {
            "block_count": 4,
            "nextn_predict_layers": 1,
            "same": [0, 7, 7],
            "mixed": [1, 2],
            "flag": True,
            "whole": 12,
            "part": 4,
            "odd": 5,
            "none": 0,
        },
        *tensors,
    )
    assert (k.layers, k.integer("same"), k.integer("gone", 3), k.get("flag")) == (3, 7, 3, True)
    assert (
        k.layers_with("x.weight") == [False, True, True]
        and k.first("x.weight", "it") == (3, 8)
        and k.shape("out") == (4,)
        and not k.has("x")
    )
    assert k.divided("whole", "part") == 3
    for call, says in (
        (lambda: k.integer("gone"), "the key arch.gone is missing"), (lambda: k.integer("mixed"), "only one whole number for all layers"), (lambda: k.integer("flag"), "is True, and only"),
        (lambda: k.shape("gone"), "the tensor gone is missing"), (lambda: k.first("y", "its width"), "no layer has y, so its width is not known"),
        (lambda: k.divided("whole", "odd"), "arch.odd 5 does not divide the inner size 12"), (lambda: k.divided("whole", "none"), "does not divide"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=says):
            call()
    for count in (1, 5):
        with pytest.raises(DataError, match=f"block_count says {count - 1} layers, and the file has 3 tensors"):
            _ = keys({"block_count": count, "nextn_predict_layers": 1}, *tensors).layers
    assert keys({"block_count": 3}, *tensors).layers == 3


def test_a_header_in_figures() -> None:
    tensors = (
        Tensor("a", (2, 8), "F16", 32),
        Tensor("b", (4, 16), "Q8_0", 68),
        Tensor("rope_freqs.weight", (64,), "F32", 256),
        Tensor("m.rotary_emb.inv_freq", (8,), "F32", 32),
    )
    found = Header(Path("dir/a.gguf"), "gguf", tensors, files=2).facts()
    assert found == {
        "file": "a.gguf",
        "format": "gguf",
        "files": 2,
        "tensors": 4,
        "elements": 80,
        "bytes": 388,
        "dtypes": {"F32": 288, "Q8_0": 68, "F16": 32},
    }
    assert list(found["dtypes"]) == ["F32", "Q8_0", "F16"]
