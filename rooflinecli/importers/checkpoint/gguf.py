"""A GGUF file as a model: its keys as the config.json they were converted from, its tensors as bytes per parameter of each part.

Source: ggml-org/llama.cpp gguf-py constants.py and conversion scripts (gguf 0.19.0).
"""

from __future__ import annotations

import re
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.checkpoint.gguf_architectures import GgufMetadata, architectures, config
from rooflinecli.importers.checkpoint.gguf_by_tensors import plain
from rooflinecli.importers.checkpoint.gguf_header import read
from rooflinecli.importers.checkpoint.tensor_header import Header
from rooflinecli.quantization.gguf import file_types
from rooflinecli.specs.document import Document
from rooflinecli.specs.name_lookup import display_path

_EXPERT = re.compile(r"_exps\.(weight|bias)$")
_OUTSIDE = (
    "token_embd.weight", "output.weight", "output_norm.weight", "output_norm.bias", "position_embd.weight",
    "per_layer_token_embd.weight", "per_layer_model_proj.weight", "per_layer_proj_norm.weight", "altup_proj.weight",
    "altup_unembd_proj.weight",
)  # fmt: skip


def model_document(path: Path) -> Document:
    """The model of a GGUF file. Raises DataError for an architecture not known here."""
    header = read(path)
    name = header.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise DataError(
            f"{display_path(path)}: general.architecture is missing, so which model it holds is not known; convert it again"
        )
    from rooflinecli.importers.hf import from_config

    keys = GgufMetadata(header, name, display_path(path))
    if name in architectures():
        _agree(keys, name)
        data = from_config(config(keys), f"{display_path(path)}")
    else:
        data = plain(keys)
    title = header.metadata.get("general.name")
    data["name"] = str(title)[:80] if isinstance(title, str) and title.strip() else path.stem
    data["source"] = f"header of {path.name}, GGUF of architecture {name}"
    data.pop("notes", None)
    data["checkpoint"] = header.facts()
    data["quantization"] = _stored(header)
    return Document(data, path, {(): (display_path(path), 1)})


def _agree(keys: GgufMetadata, name: str) -> None:
    """Raises DataError where the embedding is of another width than the key that everything else was converted with."""
    stated, width = keys.integer("embedding_length", 0), keys.shape("token_embd.weight")[-1]
    if stated and stated != width:
        raise DataError(
            f"{keys.file}: {name}.embedding_length says {stated:,}, and token_embd.weight is {width:,} wide; convert the model again"
        )


def _stored(header: Header) -> Json:
    """The mean bytes per parameter of layers, experts, embedding and head."""
    inner = header.where(lambda n: n not in _OUTSIDE and not _EXPERT.search(n))
    experts = header.where(lambda n: bool(_EXPERT.search(n)))
    embedding = header.where(lambda n: n == "token_embd.weight")
    head = header.where(lambda n: n == "output.weight")
    outer = header.where(lambda n: n in _OUTSIDE)
    kind = header.metadata.get("general.file_type")
    label = next((name for name, row in file_types().items() if row.get("id", "") == kind), "")
    widths = {
        "layers": _mean(inner),
        "experts": _mean(experts),
        "embedding": _mean(embedding),
        "head": _mean(head if head[0] else embedding),
        "outer": _mean(outer),
    }
    return {"dtype": f"gguf {label}".strip(), "widths": {k: v for k, v in widths.items() if v}}


def _mean(part: tuple[int, int]) -> float:
    elements, size = part
    return size / elements if elements else 0.0
