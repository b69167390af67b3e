"""GGUF keys -> the config.json they were converted from: rows of gguf_architectures.yaml.

Which mixer or mixture a layer has, where layers differ, is read off its tensors.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import Json
from rooflinecli.importers.checkpoint.tensor_header import Header
from rooflinecli.importers.hf.rows import Scope
from rooflinecli.specs.snapshots import table

Config = Json


@dataclass
class GgufMetadata:
    """The metadata of one file; `name` is its architecture, the prefix of the keys."""

    header: Header
    name: str
    file: str

    def get(self, key: str) -> Any:
        return self.header.metadata.get(f"{self.name}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; of an array by layer, the one value that its layers with any share. Raises DataError."""
        value = self.get(key)
        if isinstance(value, list):
            distinct = {v for v in value if v}
            value = distinct.pop() if len(distinct) == 1 else value
        if value is None:
            if default is None:
                raise DataError(f"{self.file}: the key {self.name}.{key} is missing; convert the model again")
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise DataError(
                f"{self.file}: {self.name}.{key} is {str(value)[:60]}, and only one whole number for all layers is read; "
                "give the model's config.json"
            )
        return value

    @cached_property
    def _named(self) -> dict[str, tuple[int, ...]]:
        return {t.name: t.shape for t in self.header.tensors}

    def has(self, tensor: str) -> bool:
        return tensor in self._named

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor, outermost axis first. Raises DataError where there is none."""
        if tensor in self._named:
            return self._named[tensor]
        raise DataError(f"{self.file}: the tensor {tensor} is missing; give a whole GGUF file")

    @cached_property
    def layers(self) -> int:
        """Layers without those that only predict further tokens. Raises DataError for more than a file has tensors."""
        count = self.integer("block_count") - self.integer("nextn_predict_layers", 0)
        if not 0 < count <= len(self.header.tensors):
            raise DataError(
                f"{self.file}: {self.name}.block_count says {count} layers, and the file has {len(self.header.tensors)} tensors; give a whole GGUF file"
            )
        return count

    def layers_with(self, tensor: str) -> list[bool]:
        """Which layers have a tensor."""
        return [self.has(f"blk.{i}.{tensor}") for i in range(self.layers)]

    def first(self, tensor: str, what: str) -> tuple[int, ...]:
        """The shape of a tensor in the first layer that has it. Raises DataError where none has."""
        here = self.layers_with(tensor)
        if not any(here):
            raise DataError(f"{self.file}: no layer has {tensor}, so {what} is not known; give a whole GGUF file")
        return self.shape(f"blk.{here.index(True)}.{tensor}")

    def divided(self, whole: str, parts: str) -> int:
        """The quotient of two keys. Raises DataError where the second does not divide the first."""
        total, n = self.integer(whole), self.integer(parts)
        if not n or total % n:
            raise DataError(
                f"{self.file}: {self.name}.{parts} {n} does not divide the inner size {total}; convert the model again"
            )
        return total // n


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
    rows: dict[str, Json] = table(Path(__file__).with_suffix(".yaml"))
    return rows


def architectures() -> Collection[str]:
    """Architectures that a row describes."""
    return _rows().keys()


def config(k: GgufMetadata) -> Config:
    """The config.json that a file was converted from. Raises DataError."""
    row, (vocab, width) = _rows()[k.name], k.shape("token_embd.weight")
    functions = {name: getattr(k, name) for name in ("has", "shape", "layers_with", "first", "divided")}
    known = functions | {"key": k.integer, "raw": k.get, "width": width, "vocab": vocab, "n": k.layers}
    scope = Scope(k, known, row.get("let", {}))
    for condition, problem in row.get("check", ()):
        if not scope.value(condition):
            raise DataError(f"{k.file}: {k.name}: {problem.format_map(scope)}; give the model's config.json")
    fields = row["fields"]
    if "then" in fields:
        fields = fields["then" if scope.value(fields["if"]) else "else"]
    template = {
        "model_type": row["model_type"],
        **_BASE,
        **(_ATTENTION if row.get("attention", True) else {}),
        **fields,
    }
    made: Config = scope.built({name: written for name, written in template.items() if written is not None})
    return made
