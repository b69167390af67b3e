"""Checkpoint files by their headers: names, shapes and formats of tensors, without reading the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.specs.document import Document

if TYPE_CHECKING:
    from rooflinecli.importers.checkpoint.tensor_header import Header


def header(path: Path) -> Header:
    """Read the tensors of a .gguf, a .safetensors or the index of a sharded one. Raises DataError, with the file, where it is not one."""
    from rooflinecli.importers.checkpoint import gguf_header, safetensors

    if path.suffix == ".gguf":
        return gguf_header.read(path)
    return safetensors.read_index(path) if path.name.endswith(safetensors.INDEX) else safetensors.read(path)


def document(path: Path) -> Document:
    """Read the model of a checkpoint: a GGUF file by its keys, safetensors by the config.json in its folder. Raises DataError."""
    from rooflinecli.importers.checkpoint import gguf, safetensors

    return gguf.model_document(path) if path.suffix == ".gguf" else safetensors.model_document(path)
