"""Checkpoint files by their headers: which tensors, of what shape and format, without reading any of them.

`header(path)` reads a `.gguf`, a `.safetensors` or the index of a sharded one; `document(path)` makes a model of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.specs.yaml_loader import Document

if TYPE_CHECKING:
    from rooflinecli.importers.checkpoint.tensor_header import Header

INDEX = ".safetensors.index.json"


def header(path: Path) -> Header:
    """The tensors of a checkpoint. Raises DataError, with the file, where it is not one."""
    if path.suffix == ".gguf":
        from rooflinecli.importers.checkpoint.gguf_header import read

        return read(path)
    from rooflinecli.importers.checkpoint import safetensors_header

    return safetensors_header.read_index(path) if path.name.endswith(INDEX) else safetensors_header.read(path)


def document(path: Path) -> Document:
    """The model in a checkpoint: of a GGUF file by its own keys, of safetensors by the config.json beside them.

    Raises DataError.
    """
    if path.suffix == ".gguf":
        from rooflinecli.importers.checkpoint.gguf import model_document

        return model_document(path)
    from rooflinecli.importers.checkpoint.safetensors import model_document as beside

    return beside(path)
