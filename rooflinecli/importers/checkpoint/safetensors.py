"""A .safetensors checkpoint: the header of a file, or of all files of a sharded one, and the model of the config.json in its folder. Source: huggingface/safetensors README.md (format)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.importers import hf
from rooflinecli.importers.checkpoint.tensor_header import Header, Tensor
from rooflinecli.specs.document import Document
from rooflinecli.specs.name_lookup import display_path
from rooflinecli.specs.snapshots import packaged

INDEX = ".safetensors.index.json"
BITS = {name: int(bits) for bits, names in packaged(__file__).items() for name in names}
LARGEST = 100_000_000  # bytes of a header, as the format allows


def read(path: Path) -> Header:
    """The tensors of one file. Raises DataError where the header is damaged or its sizes contradict each other."""
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            text = stream.read(length) if length <= LARGEST else b""
    except OSError as error:
        raise DataError(f"{display_path(path)}: cannot be read ({error.strerror}); give a .safetensors file") from None
    if len(text) != length or not length:
        raise _fail(path, "its header is cut short or no header")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _fail(path, "its header is not JSON") from None
    if not isinstance(data, dict):
        raise _fail(path, "its header is not an object of tensors")
    metadata = data.pop("__metadata__", {})
    tensors = tuple(_tensor(path, name, entry) for name, entry in data.items())
    return Header(path, "safetensors", tensors, metadata if isinstance(metadata, dict) else {})


def _fail(path: Path, problem: str) -> DataError:
    return DataError(f"{display_path(path)}: {problem}; give a whole .safetensors file")


def _tensor(path: Path, name: str, entry: Any) -> Tensor:
    """One entry, its offsets checked against its shape."""
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        raise _fail(path, f"tensor {name[:60]!a} lacks its dtype, shape or data_offsets") from None
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _fail(path, f"tensor {name[:60]!a} is of dtype {str(dtype)[:20]!a}, which is not known here")
    if not whole or end - begin != -(-math.prod(shape) * BITS[dtype] // 8):
        raise _fail(path, f"tensor {name[:60]!a}: its shape and its data_offsets disagree")
    return Tensor(name, shape, dtype, end - begin)


def read_index(path: Path) -> Header:
    """The tensors of all shards that an index names. Raises DataError where one is missing, or they disagree with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        shards = data["weight_map"]
        names = sorted(set(shards.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{display_path(path)}: not the index of a sharded checkpoint; expected `weight_map`") from None
    if not names:
        raise DataError(f"{display_path(path)}: its `weight_map` names no shard; give the index of a whole checkpoint")
    tensors: list[Tensor] = []
    for name in names:
        part = path.parent / str(name)
        if Path(str(name)).name != name or not part.is_file():
            raise DataError(f"{display_path(path)}: its shard {str(name)[:80]} is not in the same folder; put it there")
        tensors += read(part).tensors
    missing = sorted(set(shards) - {t.name for t in tensors})
    if missing:
        raise DataError(f"{display_path(path)}: {missing[0][:80]} is in no shard; download the checkpoint again")
    total = data.get("metadata", {}).get("total_size") if isinstance(data.get("metadata"), dict) else None
    return Header(path, "safetensors", tuple(tensors), {"total_size": total} if total else {}, len(names))


def model_document(path: Path) -> Document:
    """Read the model of the folder's config.json, with the checkpoint's tensors and bytes. Raises DataError."""
    config = path.parent / "config.json"
    if not config.is_file():
        why = f"{display_path(path)}: a .safetensors file needs the config.json next to it; add it, or give a GGUF file"
        raise DataError(why)
    header, document = read_index(path) if path.name.endswith(INDEX) else read(path), hf.model_document(config)
    document.data["checkpoint"] = header.facts()
    return document
