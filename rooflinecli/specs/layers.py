"""The blocks a model is made of, as YAML describes them: attention, feed-forward, layer, positions, patches, quantization."""

from __future__ import annotations

from typing import Annotated, Literal

from rooflinecli.core.record import Json
from rooflinecli.specs.figure import REQUIRED, Field, OneLine, OneOf, Spec, Whole


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
    height: Whole | None = Field(
        None, "pixels of the other side of what is made by default, where it is no square of `size`"
    )
    merge: Whole = Field(1, "patches along a side that become one token")
    extra: int = Field(0, "positions of the tower in addition to the patches of an image or tile (a class token)", ge=0)
    tokens: Whole | None = Field(None, "prompt tokens of an image or tile, where the patches do not say")
    wrap: int = Field(0, "further prompt tokens around an image (its begin and end)", ge=0)
    frames: Whole = Field(1, "frames of a video that is made; omitted: one image")
    frame_patch: Whole = Field(1, "frames after the first that become one latent frame")
    least: Whole | None = Field(None, "pixels that an image is enlarged to")
    most: Whole | None = Field(None, "pixels that an image is reduced to")
    tiles: Whole = Field(1, "tiles that an image is cut into at most")
    grids: list[list[int]] = Field(
        list, "heights and widths in pixels that an image may be brought to, the best of which is taken"
    )
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
    qk_norm: Literal["none", "head", "full", "head_layernorm", "head_bias"] = Field(
        "none",
        "head: a scale of head_dim; head_bias: scale and shift of it; head_layernorm: a scale per head; full: over all heads",
    )
    sinks: bool = Field(False, "one learned sink logit per head")
    rotary: bool = True
    q_lora_rank: Whole | None = Field(None, "MLA: rank of the query compression; omitted: full-rank q")
    kv_lora_rank: Whole | None = Field(None, "MLA: rank of the key/value latent that is cached")
    qk_nope_head_dim: Whole | None = None
    qk_rope_head_dim: Whole | None = None
    conv_bias: bool = Field(False, "recurrent kinds: a bias of the short convolution")
    gated_norm: bool = Field(True, "recurrent kinds: a norm of the output before its gate (Falcon-H1 may lack it)")
    out_gate: bool = Field(
        False,
        "a sigmoid gate on the attention output, as wide as q (Qwen3-Next), or as the values of latent attention (Hy4)",
    )
    out_norm: bool = Field(False, "a norm over all heads before the output projection (BitNet)")
    shared: bool = Field(False, "weights are those of an earlier layer: used again, not counted again (Zamba2)")
    same_values: bool = Field(False, "values are the keys before their norm: no projection of their own (Gemma 4)")
    state_dtype: str | None = Field(
        None, "recurrent kinds: number format of the state in memory; omitted: that of the kind"
    )
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
    shared_bias: bool | None = Field(
        None, "moe: bias of the shared expert where it differs from the others (DeepSeek-V2)"
    )
    gated: bool = Field(True, "moe: whether each expert is gated (three matrices) or plain (two)")
    n_experts: Whole | None = None
    top_k: Whole | None = None
    n_shared: int = Field(0, "experts every token passes through", ge=0)
    shared_d_ff: Whole | None = Field(None, "width of all shared experts together; defaults to n_shared x d_ff")
    shared_gate: bool = Field(False, "a learned scalar gate on the shared expert (Qwen2-MoE)")
    router_bias: bool = False
    inner_norm: bool = Field(False, "a norm of the hidden layer before the down projection (BitNet)")
    scalars: int = Field(0, "learned scalars of the activation (xIELU of Apertus)", ge=0)
    latent_dim: Whole | None = Field(
        None, "moe: width that routed experts work in, down from d_model and back (Nemotron-H)"
    )
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
    block: list[Whole] | None = Field(
        None, "outputs x inputs that share one scale, instead of group_size", min_length=2, max_length=2
    )
    input_bits: int = Field(0, "further bits per input of each matrix (the g_idx of GPTQ)", ge=0)
    output_bits: int = Field(0, "further bits per output of each matrix (a scale per channel)", ge=0)
    tensor_bits: int = Field(0, "further bits per matrix (tables, a scale per tensor)", ge=0)
    nested_group: Whole | None = Field(None, "scales that share a scale (double quantization)")
    nested_bits: int = Field(0, "bits of that scale", ge=0)
    weight_only: bool = Field(False, "matmuls run in the 16 bits of their inputs, whatever the weights are in")
    only: list[str] = Field(list, "modules quantized, all others left; omitted: every linear one")
    kept: list[str] = Field(list, "modules left in 16 bits, as a config names them; re: before an expression")
    experts: Quantization | None = Field(
        None, "routed experts, where they are stored in another format than the rest (DeepSeek-V4)"
    )
    others: list[ModuleFormat] = Field(
        list, "modules stored in formats of their own; the first that names one counts (ModelOpt's MIXED_PRECISION)"
    )
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
