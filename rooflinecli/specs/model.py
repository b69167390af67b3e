"""A transformer as YAML describes it: axes and a repeated layer pattern.

`attention`, `feedforward` and `layers: 80` describe a uniform stack. A list under `layers` overrides them group by group:

    layers:
      - {repeat: 21, pattern: [{attention: {window: 4096}}, {}]}     # alternating local and global
      - {repeat: 58, feedforward: {kind: moe, n_experts: 256}}       # after the leading dense layers
"""

from __future__ import annotations

import os
from functools import cached_property, lru_cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, ClassVar, Literal

from rooflinecli.core.errors import DataError, RooflineError
from rooflinecli.core.record import Json
from rooflinecli.specs.document import Document, Unread
from rooflinecli.specs.figure import REQUIRED, Field, FileSpec, OneLine, Through, Whole
from rooflinecli.specs.layers import (
    Checkpoint,
    ComponentSpec,
    DenoisingSpec,
    ImageSpec,
    LayerSpec,
    PatchSpec,
    PositionSpec,
    Quantization,
)
from rooflinecli.specs.name_lookup import find
from rooflinecli.specs.snapshots import load

Fields = dict[str, object]  # of a block or a group, as written


def _some(layers: list[LayerSpec]) -> list[LayerSpec]:
    if not layers:
        raise ValueError("a model needs at least one layer")
    return layers


class ModelSpec(FileSpec):
    """models/*.yaml. Layer groups are resolved: every layer carries its own attention and feed-forward."""

    DERIVED: ClassVar[tuple[str, ...]] = ("order",)
    name: OneLine
    aliases: list[OneLine] = Field(list)
    family: OneLine = ""
    orgs: list[OneLine] = Field(list, "organizations on the Hub under whose names it is the same model")
    source: str = Field(REQUIRED, "where the dimensions come from")
    d_model: Whole
    vocab_size: int = Field(0, "rows of the embedding as the checkpoint has it; 0 for an encoder", ge=0)
    tied_embeddings: bool = False
    lm_head: bool = True
    lm_head_bias: bool = False
    embedding_dim: Whole | None = Field(None, "embedding width where it differs from d_model (OPT-350M)")
    embedding_down: bool = Field(
        True, "whether the stream returns to the embedding's width (not so in ELECTRA's discriminator)"
    )
    norm: Literal["rmsnorm", "layernorm", "layernorm_nobias", "none"] = "rmsnorm"
    final_norm: bool = True
    streams: Whole = Field(1, "parallel residual streams that hyper-connections mix (DeepSeek-V4)")
    independent_streams: bool = Field(False, "streams are read and written, and not mixed with one another (Hy4)")
    embedding_norm: bool = False
    positions: PositionSpec = Field(PositionSpec)
    patches: PatchSpec | None = None
    n_classes: Whole | None = Field(None, "encoder: classification head")
    before: list[ComponentSpec] = Field(list, "what stands between the embedding and the layers")
    after: list[ComponentSpec] = Field(list, "what stands between the final norm and the head")
    shared_embedding: bool = Field(
        False, "tower: its embedding is the one of the model that it belongs to, counted there (T5, BART)"
    )
    reads: Literal["its own", "images", "source", "window"] = Field(
        "its own",
        "tower: input of its whole length (CLIP), the prompt's images, the prompt (the encoder of a pair), or a window whatever the prompt (Whisper)",
    )
    images: ImageSpec | None = Field(None, "how an image becomes patches, and tokens of the prompt")
    denoising: DenoisingSpec | None = Field(None, "a model that makes the image of `images`, in steps")
    prefix: Whole = Field(1, "encoder-decoder: tokens that the decoder begins with")
    projection_dim: Whole | None = Field(None, "tower: width of the shared embedding space (CLIP)")
    pre_norm: bool = Field(False, "a norm before the first layer (CLIP vision tower)")
    max_context: Whole | None = None
    mtp_layers: int = Field(0, "layers that predict further tokens while training; not among the parameters", ge=0)
    layers: Annotated[list[LayerSpec], Through(_some)]
    quantization: Quantization | None = None
    checkpoint: Checkpoint | None = None
    towers: list[ModelSpec] = Field(
        list, "further towers whose parameters and FLOPs count (CLIP, what reads images, an encoder)"
    )
    parameters_published: int | None = Field(None, "the exact count others publish, for the tests")
    notes: list[str] = Field(list)
    assumed: str = Field("", "sizes that the file of the model lacks and that stand for what it has")

    @classmethod
    def complete(cls, data: Json) -> Json:
        data = dict(data)
        attention, feedforward = data.pop("attention", None), data.pop("feedforward", None)
        base: Fields = {"attention": attention, "feedforward": feedforward}
        for key in ("cross", "pieces", "parallel", "norms"):
            if key in data:
                base[key] = data.pop(key)
        data["layers"] = _groups(data.get("layers"), base)
        return data

    def __post_init__(self) -> None:
        kinds = {tower.reads for tower in self.towers} - {"its own"}
        prompt = self.denoising is not None and self.denoising.memory
        if any(group.cross for group in self.layers) and not kinds and not prompt:
            raise ValueError(
                "layers.cross: attends to what a tower made of the prompt or its images, and there is none; add towers, or denoising.memory"
            )
        if (self.reads == "images" or self.denoising) and self.images is None:
            raise ValueError("images: required for what reads or makes images; add its patches")

    def locate(self, document: Document) -> None:
        """Give the spec and its towers the lines they were written on."""
        super().locate(document)
        for i, tower in enumerate(self.towers):
            tower.locate(Unread(document.path, partial(_tower, document, i)))

    @property
    def stream_width(self) -> int:
        """Values of a token between two layers: d_model of each residual stream."""
        return self.d_model * self.streams

    @property
    def n_layers(self) -> int:
        return sum(group.repeat for group in self.layers)

    @cached_property
    def order(self) -> list[int]:
        """Which group of `layers` each layer is of, first to last: a repeated pattern comes round group by group."""
        written = self._document.data.get("layers") if "_document" in self.__dict__ else None
        found: list[int] = []
        first = 0
        for entry in written if isinstance(written, list) else ():
            inside = entry.get("pattern") or [entry]
            once = [first + i for i, part in enumerate(inside) for _ in range(part.get("repeat", 1))]
            found += once * (entry.get("repeat", 1) if "pattern" in entry else 1)
            first += len(inside)
        if first != len(self.layers) or len(found) != self.n_layers:  # a number of layers, or not those of the file
            return [i for i, group in enumerate(self.layers) for _ in range(group.repeat)]
        return found

    @cached_property
    def both_ways(self) -> bool:
        """Whether every token sees those after it: an encoder."""
        return all(group.attention is not None and not group.attention.causal for group in self.layers)

    @cached_property
    def writes(self) -> bool:
        """Whether it writes tokens one by one: causal, with a vocabulary and a head."""
        return bool(self.lm_head and self.vocab_size) and not self.both_ways

    @property
    def makes(self) -> str:
        """What a diffusion model makes, images or videos; empty for another model."""
        if self.denoising is None or self.images is None:
            return ""
        return "images" if self.images.frames == 1 else "videos"

    @cached_property
    def paired(self) -> bool:
        """Whether an encoder reads the prompt for a decoder."""
        return any(tower.reads in ("source", "window") for tower in self.towers)

    @cached_property
    def id(self) -> str:
        """The name to call it by: the file's, or the folder's for a config.json."""
        path = self._document.path
        return path.resolve().parent.name if path.name == "config.json" else path.stem


def _groups(layers: object, base: Fields) -> list[Fields]:
    """`layers` as a flat list of groups, each with the defaults filled in; equal neighbors of a pattern merge."""
    if isinstance(layers, bool) or layers is None:
        raise ValueError("layers: required, a number or a list of groups; add it")
    if isinstance(layers, int):
        return [{"repeat": layers, **base}]
    if not isinstance(layers, list) or not all(isinstance(g, dict) for g in layers):
        raise ValueError("layers: expected a number of layers or a list of groups such as {repeat: 80}")
    result: list[Fields] = []
    for group in layers:
        repeat, pattern = group.get("repeat", 1), group.get("pattern")
        if pattern is None:
            result.append({**_filled(group, base), "repeat": repeat})
            continue
        if (
            not isinstance(pattern, list)
            or not all(isinstance(p, dict) for p in pattern)
            or not isinstance(repeat, int)
        ):
            raise ValueError("layers.pattern: expected a list of layer overrides and a whole number `repeat`")
        extra = set(group) - {"repeat", "pattern"}
        if extra:
            raise ValueError(f"layers: {', '.join(sorted(extra))} next to `pattern`; put overrides inside the pattern")
        for entry in pattern:
            count = entry.get("repeat", 1)
            if not isinstance(count, int):
                raise ValueError("layers.pattern.repeat: expected a whole number")
            result.append({**_filled(entry, base), "repeat": repeat * count})
    return result


def _filled(group: Fields, base: Fields) -> Fields:
    filled = dict(base)
    for key, value in group.items():
        under = base.get(key)
        filled[key] = {**under, **value} if isinstance(value, dict) and isinstance(under, dict) else value
    return filled


def model_from(document: Document) -> ModelSpec:
    """A model from a document that may stand in no file yet. Raises DataError."""
    from rooflinecli.specs.validation import validate

    return validate(ModelSpec, document)


def _tower(document: Document, i: int) -> Document:
    """The part of a model's document that is a tower."""
    lines = {key[2:]: at for key, at in document.lines.items() if key[:2] == ("towers", i)}
    return Document(document.data["towers"][i], document.path, lines)


@lru_cache(maxsize=256)
def _load(written: str, stamp: float) -> ModelSpec:
    path = Path(written).resolve()
    if path.suffix in (".gguf", ".safetensors") or path.name.endswith(".safetensors.index.json"):
        return model_from(_importer("checkpoint").document(path))
    if path.suffix == ".json":
        return model_from(_importer("hf").model_document(path))
    return load(ModelSpec, path, "models")


def _importer(room: str) -> ModuleType:
    """The reader of a foreign file. It knows the spec that it fills, so the spec finds it by name, as a registry does."""
    return import_module(f"rooflinecli.importers.{room}")


_HUB: dict[str, ModelSpec] = {}  # models by names on the Hugging Face Hub that were typed in this run, asked once


def load_model(name: str) -> ModelSpec:
    """The model called `name`: a name or alias, a YAML path, a Hugging Face config.json (or its folder), or a checkpoint
    file (.gguf, .safetensors next to its config.json, the index of a sharded one), or the name of one on the Hugging Face
    Hub (org/name) that none of these has.

    Raises UsageError or DataError.
    """
    try:
        path = find("models", name)
    except RooflineError as error:
        if "/" not in name or (isinstance(error, DataError) and "@" not in name):
            raise
        if name not in _HUB:
            _HUB[name] = model_from(_importer("hf.hub").fallback(name, error))
        return _HUB[name]
    whole = os.path.abspath(path / "config.json" if path.is_dir() else path)
    return _load(whole, os.stat(whole).st_mtime)
