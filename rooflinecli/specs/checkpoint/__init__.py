"""Checkpoint files by their headers: which tensors, of what shape and format, without reading any of them.

`header(path)` reads a `.gguf`, a `.safetensors` or the index of a sharded one; `document(path)` makes a model of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.specs.load import Document

if TYPE_CHECKING:
    from rooflinecli.specs.checkpoint.tensors import Header

INDEX = ".safetensors.index.json"
SUFFIXES = (".gguf", ".safetensors")


def is_checkpoint(path: Path) -> bool:
    """Whether the name is that of a checkpoint file."""
    return path.suffix in SUFFIXES or path.name.endswith(INDEX)


def header(path: Path) -> Header:
    """The tensors of a checkpoint. Raises DataError, with the file, where it is not one."""
    if path.suffix == ".gguf":
        from rooflinecli.specs.checkpoint.gguf import read

        return read(path)
    from rooflinecli.specs.checkpoint import safetensors

    return safetensors.read_index(path) if path.name.endswith(INDEX) else safetensors.read(path)


def document(path: Path) -> Document:
    """The model in a checkpoint: of a GGUF file by its own keys, of safetensors by the config.json beside them.

    Raises DataError.
    """
    if path.suffix == ".gguf":
        from rooflinecli.specs.checkpoint.gguf_model import model_document

        return model_document(path)
    from rooflinecli.specs.checkpoint.beside import model_document as beside

    return beside(path)
