"""Checkpoint files by their headers: names, shapes and formats of tensors, without reading the data."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.specs.document import Document


def document(path: Path) -> Document:
    """Read the model of a checkpoint: a GGUF file by its keys, safetensors by the config.json in its folder. Raises DataError."""
    from rooflinecli.importers.checkpoint import gguf, safetensors

    return gguf.model_document(path) if path.suffix == ".gguf" else safetensors.model_document(path)
