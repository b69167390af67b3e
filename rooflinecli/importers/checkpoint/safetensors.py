"""A .safetensors checkpoint as a model: the config.json beside it, held against the header."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.checkpoint import header
from rooflinecli.specs.name_lookup import display_path
from rooflinecli.specs.yaml_loader import Document


def model_document(path: Path) -> Document:
    """The model that the folder's config.json describes, with what the header says in its notes. Raises DataError."""
    config = path.parent / "config.json"
    if not config.is_file():
        raise DataError(
            f"{display_path(path)}: tensors alone do not say what they are; put the model's config.json beside it, or give a GGUF file"
        )
    from rooflinecli.importers.hf import model_document

    found, document = header(path), model_document(config)
    document.data["checkpoint"] = found.facts()
    return document
