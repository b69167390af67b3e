"""The metadata of a GGUF file, and what every decoder's keys say."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.importers.checkpoint.tensor_header import Header

Config = dict[str, Any]


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


def base(k: GgufMetadata, model_type: str) -> Config:
    """What every decoder has."""
    heads = k.integer("attention.head_count")
    vocab, width = k.shape("token_embd.weight")
    config: Config = {
        "model_type": model_type,
        "hidden_size": width,
        "vocab_size": vocab,
        "num_hidden_layers": k.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": k.integer("attention.head_count_kv", heads),
        "max_position_embeddings": k.integer("context_length"),
        "tie_word_embeddings": not k.has("output.weight"),
    }
    if k.get("attention.key_length") is not None:
        config["head_dim"] = k.integer("attention.key_length")
    return config


def dense(k: GgufMetadata, model_type: str) -> Config:
    return base(k, model_type) | {"intermediate_size": k.integer("feed_forward_length")}


def experts(k: GgufMetadata, name: str) -> Config:
    """How many experts there are, and how many a token visits."""
    return {name: k.integer("expert_count"), "num_experts_per_tok": k.integer("expert_used_count")}
