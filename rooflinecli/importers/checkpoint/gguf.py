"""A GGUF file as a model: its keys as the config.json they were converted from, its tensors as bytes per parameter of each part.

Architectures are rows of gguf_architectures.yaml; which mixer or mixture a layer has, where layers differ, is read off its tensors.
Source: ggml-org/llama.cpp gguf-py constants.py and conversion scripts (gguf 0.19.0).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.checkpoint.gguf_by_tensors import plain
from rooflinecli.importers.checkpoint.gguf_header import GgufMetadata, read
from rooflinecli.importers.checkpoint.tensor_header import Header
from rooflinecli.importers.hf import from_config
from rooflinecli.importers.hf.rows import Scope
from rooflinecli.quantization.gguf import file_types
from rooflinecli.specs.document import Document
from rooflinecli.specs.name_lookup import display_path
from rooflinecli.specs.snapshots import table

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
    keys = GgufMetadata(header, name, display_path(path))
    if name in architectures():
        stated, width = keys.integer("embedding_length", 0), keys.shape("token_embd.weight")[-1]
        if stated and stated != width:
            says = f"{name}.embedding_length says {stated:,}, and token_embd.weight is {width:,} wide"
            raise keys.fail(says, "convert the model again")
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


def _stored(header: Header) -> Json:
    """The mean bytes per parameter of layers, experts, embedding and head."""
    tensors = header.tensors
    outer, experts = ([t for t in tensors if t.name in _OUTSIDE], [t for t in tensors if _EXPERT.search(t.name)])
    embedding, head = ([t for t in tensors if t.name == f"{name}.weight"] for name in ("token_embd", "output"))
    parts = {
        "layers": [t for t in tensors if t.name not in _OUTSIDE and not _EXPERT.search(t.name)],
        "experts": experts,
        "embedding": embedding,
        "head": head or embedding,
        "outer": outer,
    }
    kind = header.metadata.get("general.file_type")
    label = next((name for name, row in file_types().items() if row.get("id", "") == kind), "")
    widths = {
        name: sum(t.bytes for t in part) / elements
        for name, part in parts.items()
        if (elements := sum(t.elements for t in part))
    }
    return {"dtype": f"gguf {label}".strip(), "widths": widths}


_BASE = {
    "hidden_size": "=width",
    "vocab_size": "=vocab",
    "num_hidden_layers": "=n",
    "tie_word_embeddings": "=not has('output.weight')",
}
_ATTENTION = {  # of every decoder with attention
    "num_attention_heads": "=key('attention.head_count')",
    "num_key_value_heads": "=key('attention.head_count_kv', key('attention.head_count'))",
    "max_position_embeddings": "=key('context_length')",
    "head_dim": "?key('attention.key_length', 0)",
}


@cache
def _rows() -> dict[str, Json]:
    rows: dict[str, Json] = table(Path(__file__).with_name("gguf_architectures.yaml"))
    return rows


def architectures() -> Collection[str]:
    """Architectures that a row describes."""
    return _rows().keys()


def config(k: GgufMetadata) -> Json:
    """The config.json that a file was converted from. Raises DataError."""
    row, (vocab, width) = _rows()[k.name], k.shape("token_embd.weight")
    functions = {name: getattr(k, name) for name in ("has", "shape", "layers_with", "first", "divided")}
    known = functions | {"key": k.integer, "raw": k.get, "width": width, "vocab": vocab, "n": k.layers}
    scope = Scope(k, known, row.get("let", {}))
    for condition, problem in row.get("check", ()):
        if not scope.value(condition):
            raise k.fail(f"{k.name}: {problem.format_map(scope)}")
    fields = row["fields"]
    if "then" in fields:
        fields = fields["then" if scope.value(fields["if"]) else "else"]
    template = {
        "model_type": row["model_type"],
        **_BASE,
        **(_ATTENTION if row.get("attention", True) else {}),
        **fields,
    }
    made: Json = scope.built({name: written for name, written in template.items() if written is not None})
    return made
