"""The answer of `roofline models`: a line of each model, or one model by parameters, cache and layers."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Record

Block = dict[str, object]  # the fields of a model file's block that are not at their default


class ParameterTotals(Record):
    """Parameters, and those that a token meets, the input embedding included."""

    total: int
    active: int


class ModelRow(Record):
    """The line of a model in the list."""

    name: str
    family: str
    parameters: ParameterTotals
    layers: int
    d_model: int
    max_context: int | None


class ModelList(Record):
    """Models by family and size."""

    models: list[ModelRow]


class ParameterConventions(Record):
    """Parameters by every convention; `published` is what the authors print."""

    total: int
    active: int
    active_without_embedding: int
    embedding: int
    published: float | None


class CacheSizes(Record):
    """Bytes of cache in bf16: of one more token, and of a sequence, recurrent state included."""

    bytes_per_token: int
    state_bytes_per_sequence: int
    bytes_at_4096: int
    bytes_at_max_context: int | None


class LayerGroup(Record):
    """A group of equal layers."""

    layers: int
    parameters_per_layer: int
    attention: Block | None
    feedforward: Block | None
    parallel: bool
    norms: int


class TowerImage(Record):
    """What an image of the default size becomes in a tower."""

    pixels: str
    inputs: int
    positions: int
    tokens: int
    rule: str
    source: str


class TowerParameters(Record):
    """Parameters of a further tower."""

    total: int


class Tower(Record):
    """A further tower, such as a vision encoder, and what it reads."""

    title: str
    parameters: TowerParameters
    layers: int
    d_model: int
    pattern: str
    reads: str
    image: TowerImage | None = field(default=None, metadata=OPTIONAL)


class ModelSheet(Record):
    """One model in detail."""

    schema: str
    name: str
    family: str
    parameters: ParameterConventions
    layers: int
    d_model: int
    max_context: int | None
    title: str
    aliases: list[str]
    file: str
    source: str
    vocab_size: int | None
    tied_embeddings: bool
    kv_cache: CacheSizes
    pattern: str
    groups: list[LayerGroup]
    towers: list[Tower]
    quantization: Block | None
    checkpoint: Block | None
    notes: list[str]
