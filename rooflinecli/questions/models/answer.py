"""What is known about a model: a record per model, and a page with both ways to count active parameters."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.errors import DataError, unknown
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.engine.inputs import IMAGE, cut
from rooflinecli.formulas.memory import kv_cache_bytes
from rooflinecli.layers.build import ledger
from rooflinecli.layers.parameter_counts import layer_parameters, parameters
from rooflinecli.ledger.ledger import Layer
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.figure import differs
from rooflinecli.specs.model import LayerSpec, ModelSpec, load_model
from rooflinecli.specs.name_lookup import display_path, load_registry

Block = dict[str, object]  # the fields of a model file's block that are not at their default


class ModelRow(Record):
    """The line of a model in the list. `active` parameters are those that a token meets, the input embedding included."""

    name: str
    family: str
    parameters: dict[str, int]
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


class LayerGroup(Record):
    """A group of equal layers."""

    layers: int
    parameters_per_layer: int
    attention: Block | None
    feedforward: Block | None
    parallel: bool
    norms: int


class ImageTokens(Record):
    """An image of the default size in a tower: what is read of it, positions of each, and prompt tokens; the rule, and where it is from."""

    pixels: str
    inputs: int
    positions: int
    tokens: int
    rule: str
    source: str


class Tower(Record):
    """A further tower, such as a vision encoder, what it reads, and what an image of the default size becomes in it."""

    title: str
    parameters: dict[str, int]
    layers: int
    d_model: int
    pattern: str
    reads: str
    image: ImageTokens | None = field(default=None, metadata=OPTIONAL)


class ModelSheet(Record):
    """One model in detail. `kv_cache` is in bf16: of one more token, and of a sequence, recurrent state included."""

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
    kv_cache: dict[str, int | None]
    pattern: str
    groups: list[LayerGroup]
    towers: list[Tower]
    quantization: Block | None
    checkpoint: Block | None
    notes: list[str]


SCHEMA = "roofline/model/1"
_BF16 = formats("bf16", None, None, {"bf16": 1}, "any")


def models(family: str | None = None) -> tuple[ModelList, list[DataError]]:
    """Every model of the registry, by family and size, and what is wrong with files that cannot be read.

    Raises UsageError for a family without models.
    """
    specs, broken = load_registry("models", load_model)
    families = {spec.family.lower() for spec in specs if spec.family}
    if family is not None and family.lower() not in families:
        raise unknown("family", family, families, "`roofline models` lists them")
    kept = [record(spec) for spec in specs if family is None or spec.family.lower() == family.lower()]
    return ModelList(models=sorted(kept, key=lambda r: (r.family, r.parameters["total"], r.name))), broken


def record(spec: ModelSpec) -> ModelRow:
    """The line of one model in the list."""
    found = parameters(spec)
    return ModelRow.like(
        spec, name=spec.id, parameters={"total": found.total, "active": found.active}, layers=spec.n_layers
    )


def sheet(name: str) -> ModelSheet:
    """One model in detail: parameters by every convention, KV cache, and its layers group by group."""
    spec = load_model(name)
    return ModelSheet.like(
        spec,
        schema=SCHEMA,
        name=spec.id,
        parameters=ParameterConventions.like(parameters(spec), published=spec.parameters_published),
        layers=spec.n_layers,
        title=spec.name,
        aliases=list(spec.aliases),
        file=display_path(spec.document.path),
        kv_cache=_cache(spec),
        pattern=pattern(spec),
        groups=[_group(group, layer) for group, layer in zip(spec.layers, ledger(spec).layers, strict=True)],
        towers=[
            Tower.like(
                tower,
                title=tower.name,
                parameters={"total": parameters(tower).total},
                layers=tower.n_layers,
                pattern=pattern(tower),
                image=(found := tower.images)
                and ImageTokens.like(cut(tower, IMAGE), pixels=IMAGE, rule=found.kind, source=found.source),
            )
            for tower in spec.towers
        ],
        quantization=spec.quantization.to_dict(differs) if spec.quantization else None,
        checkpoint=spec.checkpoint.to_dict() if spec.checkpoint else None,
        notes=list(spec.notes),
    )


def _cache(spec: ModelSpec) -> dict[str, int | None]:
    """Bytes of cache at bf16: what one more token adds, and what a sequence of the whole context holds, states included."""
    layers = [
        ({**layer.axes, **dict(layer.asked)}, layer.mixer, layer.repeat)
        for layer in ledger(spec).layers
        if layer.mixer is not None
    ]
    token = sum(
        kv_cache_bytes(1.0, 1.0, mixer.cached_values_per_token(sizes), _BF16.kv) * repeat
        for sizes, mixer, repeat in layers
    )
    whole = float(spec.max_context or 0)

    def held(tokens: float) -> int:
        return int(sum(mixer.cache_bytes(_BF16, sizes, 1.0, tokens) * repeat for sizes, mixer, repeat in layers))

    return {
        "bytes_per_token": int(token),
        "state_bytes_per_sequence": held(0.0),
        "bytes_at_4096": held(4096.0),
        "bytes_at_max_context": held(whole) or None if whole else None,
    }


def _group(group: LayerSpec, layer: Layer) -> LayerGroup:
    """What a group of equal layers is made of."""
    attention, feedforward = (
        Block({"kind": block.kind, **block.to_dict(differs)}) if block else None
        for block in (group.attention, group.feedforward)
    )
    return LayerGroup.like(
        group,
        layers=group.repeat,
        parameters_per_layer=layer_parameters(layer),
        attention=attention,
        feedforward=feedforward,
    )


def pattern(spec: ModelSpec) -> str:
    """Mixer and feed-forward of each layer in order, runs and periods together: `12 x (3 x gated-delta, gqa)`."""
    written, groups, parts = spec.document.data["layers"], iter(spec.layers), list[str]()
    if isinstance(written, int):
        written = [{"repeat": written}]
    for entry in written:
        if "pattern" in entry:
            inside = ", ".join(_times(one.get("repeat", 1), _label(next(groups))) for one in entry["pattern"])
            parts.append(_times(entry.get("repeat", 1), f"({inside})"))
        else:
            parts.append(_times(entry.get("repeat", 1), _label(next(groups))))
    return ", ".join(parts)


def _times(count: int, what: str) -> str:
    return what if count == 1 else f"{count} x {what}"


def _label(group: LayerSpec) -> str:
    """gqa window 4096 + gated, or mamba2 alone."""
    attention, feedforward, words = group.attention, group.feedforward, list[str]()
    if attention is not None:
        sizes = (("window", attention.window), ("chunk", attention.chunk))
        bound = next((f" {name} {size}" for name, size in sizes if size), "")
        bound += f" and 1/{attention.sizes['rate']}" if "rate" in attention.sizes else ""
        words.append(f"{attention.kind}{bound}{' (shared)' if attention.shared else ''}")
    if group.cross:
        words.append("cross")
    if feedforward.kind != "none":
        moe = feedforward.kind == "moe"
        words.append(f"moe {feedforward.top_k} of {feedforward.n_experts}" if moe else feedforward.kind)
    return " + ".join(words) or "nothing"
