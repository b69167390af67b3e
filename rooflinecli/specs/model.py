"""A transformer as YAML describes it: the blocks it is made of (attention, feed-forward, layer, positions, patches, quantization), axes and a
repeated layer pattern.

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
from rooflinecli.specs.figure import REQUIRED, Field, FileSpec, OneLine, OneOf, Spec, Through, Whole
from rooflinecli.specs.name_lookup import find, registered_only
from rooflinecli.specs.snapshots import load


class ComponentSpec(Spec):
    """One step before the layers, after them or inside each; `kind` names a file of layers/components/."""

    kind: Annotated[str, OneOf("layers/components")]
    name: OneLine = Field("", "what its operations are called; omitted: its kind")
    input: Whole | None = Field(None, "linear: values that it reads for a position; omitted: d_model")
    width: Whole | None = Field(None, "values of its result, or of a row; omitted: d_model")
    rows: Whole | None = Field(None, "table, parameters, scale: how many rows of `width`")
    bias: bool = Field(True, "linear: a bias of `width`")
    norm: Literal["rmsnorm", "layernorm", "layernorm_nobias", "none"] = "layernorm"
    merge: Whole = Field(1, "tokens that become one position (a patch merger)")
    spread: Whole = Field(1, "positions that it runs over for each token (a convolution before a stride)")
    less: int = Field(0, "positions of the input that it leaves out (a class token)", ge=0)
    positions: Whole | None = Field(None, "positions that it runs over, whatever the tokens (a prompt of fixed length)")
    once: bool = Field(False, "for each sequence, not for each token (a pooler)")

    def __post_init__(self) -> None:
        if self.kind == "table" and self.rows is None:
            raise ValueError("rows: required for a table; add how many it has")


class ImageSpec(Spec):
    """How an image becomes what a model reads; `kind` names a function of layers/images.py, which says what each size does."""

    kind: Annotated[str, OneOf("layers/images")]
    patch: Whole = Field(REQUIRED, "pixels of a patch's side")
    size: Whole | None = Field(None, "pixels of the side that an image, or a tile of it, is brought to")
    # fmt: off
    height: Whole | None = Field(None, "pixels of the other side of what is made by default, where it is no square of `size`")
    merge: Whole = Field(1, "patches along a side that become one token")
    extra: int = Field(0, "positions of the tower in addition to the patches of an image or tile (a class token)", ge=0)
    tokens: Whole | None = Field(None, "prompt tokens of an image or tile, where the patches do not say")
    wrap: int = Field(0, "further prompt tokens around an image (its begin and end)", ge=0)
    frames: Whole = Field(1, "frames of a video that is made; omitted: one image")
    frame_patch: Whole = Field(1, "frames after the first that become one latent frame")
    least: Whole | None = Field(None, "pixels that an image is enlarged to")
    most: Whole | None = Field(None, "pixels that an image is reduced to")
    tiles: Whole = Field(1, "tiles that an image is cut into at most")
    grids: list[list[int]] = Field(list, "heights and widths in pixels that an image may be brought to, the best of which is taken")
    # fmt: on
    overview: bool = Field(False, "the whole image as a further tile, where it was cut")
    source: str = Field("", "where the rule and its sizes come from")


class DenoisingSpec(Spec):
    """A model that makes an image in steps, each a pass over all of its tokens (DiT, Stable Diffusion 3, FLUX)."""

    steps: Whole = Field(REQUIRED, "default steps of the sampler")
    guidance: bool = Field(
        REQUIRED, "whether each step runs twice, with and without the prompt (classifier-free guidance)"
    )
    context: int = Field(0, "tokens of the prompt, in addition to those of the image", ge=0)
    memory: int = Field(0, "tokens of the prompt that cross-attention reads", ge=0)


_LATENT = ("mla", "sparse-mla")  # kinds whose cache is a latent


class AttentionSpec(Spec):
    """One attention block; `kind` names a file of layers/attention/."""

    kind: Annotated[str, OneOf("layers/attention")] = "gqa"
    n_heads: Whole
    n_kv_heads: Whole | None = Field(None, "key/value heads; defaults to n_heads (mha) or 1 (mqa)")
    head_dim: Whole | None = Field(None, "per-head width of q and k; explicit, since it need not be d_model / n_heads")
    v_head_dim: Whole | None = Field(None, "per-head width of v where it differs (MLA)")
    window: Whole | None = Field(None, "sliding window: a query sees this many keys")
    chunk: Whole | None = Field(None, "chunked attention: a query sees its own chunk of this many keys")
    causal: bool = True
    qkv_bias: bool = False
    key_bias: bool = Field(True, "whether qkv_bias is on the keys too (Whisper has none there)")
    out_bias: bool = False
    # fmt: off
    qk_norm: Literal["none", "head", "full", "head_layernorm", "head_bias"] = Field("none", "head: a scale of head_dim; head_bias: scale and shift of it; head_layernorm: a scale per head; full: over all heads")
    sinks: bool = Field(False, "one learned sink logit per head")
    rotary: bool = True
    q_lora_rank: Whole | None = Field(None, "MLA: rank of the query compression; omitted: full-rank q")
    kv_lora_rank: Whole | None = Field(None, "MLA: rank of the key/value latent that is cached")
    qk_nope_head_dim: Whole | None = None
    qk_rope_head_dim: Whole | None = None
    conv_bias: bool = Field(False, "recurrent kinds: a bias of the short convolution")
    gated_norm: bool = Field(True, "recurrent kinds: a norm of the output before its gate (Falcon-H1 may lack it)")
    out_gate: bool = Field(False, "a sigmoid gate on the attention output, as wide as q (Qwen3-Next), or as the values of latent attention (Hy4)")
    out_norm: bool = Field(False, "a norm over all heads before the output projection (BitNet)")
    shared: bool = Field(False, "weights are those of an earlier layer: used again, not counted again (Zamba2)")
    fused: bool = Field(False, "the checkpoint has q, k and v as one matrix, which LoRA gives one adapter (Phi-3, GPT-2)")
    same_values: bool = Field(False, "values are the keys before their norm: no projection of their own (Gemma 4)")
    state_dtype: str | None = Field(None, "recurrent kinds: number format of the state in memory; omitted: that of the kind")
    # fmt: on
    sizes: dict[str, Whole] = Field(dict, "further sizes by name; the file of the kind declares which it reads")

    @classmethod
    def complete(cls, data: Json) -> Json:
        data = dict(data)
        kind = data.get("kind", "gqa")
        if kind == "mqa":
            data.setdefault("n_kv_heads", 1)
        elif kind in ("mha", *_LATENT):
            data.setdefault("n_kv_heads", data.get("n_heads"))
        elif kind == "gqa" and data.get("n_kv_heads") is None:
            raise ValueError("n_kv_heads: required for grouped-query attention; add it, or use kind mha or mqa")
        if kind in _LATENT:
            missing = [
                f for f in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim") if not data.get(f)
            ]
            if missing:
                raise ValueError(f"{', '.join(missing)}: required for multi-head latent attention; add them")
            if isinstance(data["qk_nope_head_dim"], int) and isinstance(data["qk_rope_head_dim"], int):
                data.setdefault("head_dim", data["qk_nope_head_dim"] + data["qk_rope_head_dim"])
        elif data.get("head_dim") is None:
            raise ValueError("head_dim: required (it need not be d_model / n_heads); add it")
        return data

    def __post_init__(self) -> None:
        if self.n_heads % (self.n_kv_heads or 1):
            raise ValueError(f"n_kv_heads {self.n_kv_heads} does not divide n_heads {self.n_heads}")


class FeedForwardSpec(Spec):
    """One feed-forward block; `kind` names a file of layers/feedforward/."""

    kind: Annotated[str, OneOf("layers/feedforward")] = "gated"
    d_ff: Whole | None = Field(None, "width of the hidden layer; of one expert in a mixture")
    activation: str = "silu"
    bias: bool = False
    # fmt: off
    shared_bias: bool | None = Field(None, "moe: bias of the shared expert where it differs from the others (DeepSeek-V2)")
    fused: bool = Field(False, "the checkpoint has gate and up as one matrix, which LoRA gives one adapter (Phi-3, GLM-4)")
    gated: bool = Field(True, "moe: whether each expert is gated (three matrices) or plain (two)")
    n_experts: Whole | None = None
    top_k: Whole | None = None
    n_shared: int = Field(0, "experts every token passes through", ge=0)
    shared_d_ff: Whole | None = Field(None, "width of all shared experts together; defaults to n_shared x d_ff")
    shared_gate: bool = Field(False, "a learned scalar gate on the shared expert (Qwen2-MoE)")
    router_bias: bool = False
    inner_norm: bool = Field(False, "a norm of the hidden layer before the down projection (BitNet)")
    scalars: int = Field(0, "learned scalars of the activation (xIELU of Apertus)", ge=0)
    latent_dim: Whole | None = Field(None, "moe: width that routed experts work in, down from d_model and back (Nemotron-H)")
    # fmt: on
    score_bias: bool = Field(False, "a per-expert correction bias that is a buffer or parameter of the router")

    def __post_init__(self) -> None:
        if self.kind != "none" and self.d_ff is None:
            raise ValueError("d_ff: required; add the hidden width")
        if self.kind == "moe":
            if not self.n_experts or not self.top_k:
                raise ValueError("n_experts and top_k: required for a mixture of experts; add them")
            if self.top_k > self.n_experts:
                raise ValueError(f"top_k {self.top_k} exceeds n_experts {self.n_experts}")


class LayerSpec(Spec):
    """`repeat` consecutive layers with the same blocks."""

    repeat: Whole = 1
    attention: AttentionSpec | None = None
    cross: AttentionSpec | None = Field(
        None, "attention to what a tower made of its input, after the other (T5, BART, Whisper)"
    )
    feedforward: FeedForwardSpec
    pieces: list[ComponentSpec] = Field(list, "what else a layer holds")
    parallel: bool = Field(False, "attention and feed-forward read the same input (GPT-J, Falcon, PaLM)")
    norms: int = Field(2, "norm layers of width d_model per layer", ge=0)


class PositionSpec(Spec):
    kind: Literal["rotary", "learned", "alibi", "sinusoidal", "none"] = "rotary"
    length: Whole | None = Field(None, "learned: rows of the table")

    def __post_init__(self) -> None:
        if self.kind == "learned" and self.length is None:
            raise ValueError("length: required for learned positions; add the number of rows")


class PatchSpec(Spec):
    """Encoder input: an image cut into patches (ViT)."""

    image: Whole
    patch: Whole
    channels: Whole = 3
    class_token: bool = True
    bias: bool = True


class Widths(Spec):
    """Bytes per parameter as the tensors of a file come to, part by part; a tied embedding is the head."""

    layers: float = Field(gt=0)
    experts: float = Field(0.0, ge=0)
    embedding: float = Field(gt=0)
    head: float = Field(gt=0)
    outer: float = Field(REQUIRED, "embedding, head and final norm together", gt=0)


class Quantization(Spec):
    """The stored format of a checkpoint: bits per weight and of their scales."""

    dtype: str
    group_size: Whole | None = Field(None, "weights that share one scale")
    scale_bits: int = Field(16, ge=0)
    zero_bits: int = Field(0, ge=0)
    applies_to: Literal["linear", "experts", "all"] = "linear"
    method: str = Field("", "tool that wrote it, where its tensors are counted one by one (awq, gptq, exl3, ...)")
    bits: float | None = Field(None, "bits per packed weight where they are not those of dtype", gt=0, le=32)
    head_bits: float | None = Field(None, "bits per weight of the head, where it is quantized", gt=0, le=16)
    # fmt: off
    block: list[Whole] | None = Field(None, "outputs x inputs that share one scale, instead of group_size", min_length=2, max_length=2)
    input_bits: int = Field(0, "further bits per input of each matrix (the g_idx of GPTQ)", ge=0)
    output_bits: int = Field(0, "further bits per output of each matrix (a scale per channel)", ge=0)
    tensor_bits: int = Field(0, "further bits per matrix (tables, a scale per tensor)", ge=0)
    nested_group: Whole | None = Field(None, "scales that share a scale (double quantization)")
    nested_bits: int = Field(0, "bits of that scale", ge=0)
    weight_only: bool = Field(False, "matmuls run in the 16 bits of their inputs, whatever the weights are in")
    only: list[str] = Field(list, "modules quantized, all others left; omitted: every linear one")
    kept: list[str] = Field(list, "modules left in 16 bits, as a config names them; re: before an expression")
    experts: Quantization | None = Field(None, "routed experts, where they are stored in another format than the rest (DeepSeek-V4)")
    others: list[ModuleFormat] = Field(list, "modules stored in formats of their own; the first that names one counts (ModelOpt's MIXED_PRECISION)")
    # fmt: on
    widths: Widths | None = Field(None, "where tensors differ (GGUF): the mean of each part instead")


class ModuleFormat(Spec):
    """Modules, as a config names them (re: before an expression), that are stored in another format than the rest."""

    modules: list[str] = Field(min_length=1)
    stored: Quantization


class Checkpoint(Spec):
    """Totals from the header of a checkpoint file. Packed formats hold several weights in an element."""

    file: str
    format: Literal["gguf", "safetensors"]
    files: Whole = 1
    tensors: int = Field(ge=0)
    elements: int = Field(ge=0)
    bytes: int = Field(ge=0)
    dtypes: dict[str, int] = Field(dict, "bytes by format")


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
    # fmt: off
    embedding_down: bool = Field(True, "whether the stream returns to the embedding's width (not so in ELECTRA's discriminator)")
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
    shared_embedding: bool = Field(False, "tower: its embedding is the one of the model that it belongs to, counted there (T5, BART)")
    reads: Literal["its own", "images", "source", "window"] = Field("its own", "tower: input of its whole length (CLIP), the prompt's images, the prompt (the encoder of a pair), or a window whatever the prompt (Whisper)")
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
    towers: list[ModelSpec] = Field(list, "further towers whose parameters and FLOPs count (CLIP, what reads images, an encoder)")
    # fmt: on
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
        if "/" not in name or registered_only.get() or (isinstance(error, DataError) and "@" not in name):
            raise
        if name not in _HUB:
            _HUB[name] = model_from(_importer("hf.hub").fallback(name, error))
        return _HUB[name]
    whole = os.path.abspath(path / "config.json" if path.is_dir() else path)
    return _load(whole, os.stat(whole).st_mtime)
