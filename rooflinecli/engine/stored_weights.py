"""A model with quantized weights: the bytes of each part, by the tensors that llama-quantize or another tool writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.identity_cache import cached_by_identity
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import value
from rooflinecli.engine.context import whole_model
from rooflinecli.layers.build import ledger
from rooflinecli.ledger.ledger import Layer, product
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.quantization import linear_layers, schemes
from rooflinecli.quantization.formats import BITS
from rooflinecli.quantization.gguf import SOFTMAX, MixerMatrix, file_bytes, file_type
from rooflinecli.quantization.linear_layers import Linear
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ModelSpec, Quantization, Widths
from rooflinecli.specs.request import Request

_WIDE = 2.0  # bytes per parameter that stays in 16 bits
_OTHERWISE = "ask `roofline estimate` with --weight-dtype int8 or int4, or give the file itself"
# Modules that tools never quantize, whatever the config says, or that no text decoder has
_NEVER_QUANTIZED = re.compile(
    r"^head$|lm_head|embed|patch_merge|e_score_correction_bias|norm|router|gate(?!_)|vision|visual|projector|mtp|eh_proj|shared_head|rotary|audio"
)
_HEAD, _TABLE = "lm_head", "model.embed_tokens"
_LAYER = re.compile(r"layers\.(\d+)")


@cached_by_identity
def with_weight_format(spec: ModelSpec, file: str) -> ModelSpec:
    """The model with its weights in a GGUF file type such as Q4_K_M, or a format such as awq or exl3-4. Raises UsageError where no rule
    has the tensors of such a file.

    Each part (layers, experts, embedding, head) weighs exactly what its tensors come to, as a mean over its parameters.
    """
    scheme = schemes.parse(file)
    if scheme is not None:
        stored = exact(spec, scheme)
    else:
        stored = Quantization(dtype=f"gguf {file}", group_size=None, widths=_widths(spec, file))
    return spec.with_changes(quantization=stored)


def mean_width(spec: ModelSpec) -> float:
    """Bytes per parameter of a model with a weight format."""
    widths, params = spec.quantization.widths if spec.quantization else None, whole_model(ledger(spec))
    assert widths is not None  # with_weight_format gives them
    total = widths.layers * params.inner + widths.experts * params.experts + widths.outer * params.outer
    return float(value(total / params.total))


@cached_by_identity
def checkpoint_format(spec: ModelSpec) -> Quantization | None:
    """The format of a quantized checkpoint with the bytes of each part, computed once."""
    if spec.quantization is None or spec.quantization.widths is not None:
        return spec.quantization
    return exact(spec, spec.quantization)


def _widths(spec: ModelSpec, file: str) -> Widths:
    """Bytes per parameter of each part. A vision encoder is a separate file in 16 bits (mmproj), counted with embedding and head."""
    params, text = whole_model(ledger(spec)), _decoder(spec)
    inner, experts, outer = (int(value(n)) for n in (params.inner, params.experts, params.outer))
    decoder = int(value(whole_model(ledger(text)).total))
    mixers = {}  # the matrices of layers whose mixer is no softmax attention, by group
    for i, (group, layer) in enumerate(zip(text.layers, ledger(text).layers, strict=True)):
        if group.attention is not None and group.attention.kind not in SOFTMAX:
            rows = _rows(layer, "", "attention.")
            mixers[i] = tuple(MixerMatrix(f"attention{x.name}", x.inputs, x.outputs, x.copies) for x in rows)
    parts = file_bytes(text, file, decoder, mixers=mixers)
    table = spec.vocab_size * spec.d_model
    tower = (inner + experts + outer - decoder) * _WIDE
    return Widths(
        layers=parts["layers"] / inner,
        experts=parts["experts"] / experts if experts else 0.0,
        embedding=parts["embedding"] / table,
        head=(parts["head"] or parts["embedding"]) / table,
        outer=(parts["embedding"] + parts["head"] + tower) / outer,
    )


def _decoder(spec: ModelSpec) -> ModelSpec:
    """The decoder alone. Raises UsageError for one that attends to an encoder, and for a model without output tokens: no rule is known."""
    if spec.paired or any(group.cross for group in spec.layers):
        raise UsageError(
            f"{spec.name} attends to an encoder, and no rule says the sizes of its GGUF files; {_OTHERWISE}", "file"
        )
    if not spec.writes:
        raise UsageError(f"{spec.name} writes no tokens, so a file of it has no rate; {_OTHERWISE}", "file")
    if not spec.towers:
        return spec
    decoder = spec.with_changes(towers=[])
    decoder._document = spec.document
    return decoder


def exact(spec: ModelSpec, stored: Quantization) -> Quantization:
    """`stored` with the bytes of each part, summed over its tensors; unchanged where it has them already.

    Raises DataError for a module that it names and the model does not have.
    """
    if stored.widths is not None or not spec.vocab_size:
        return stored
    full = _with_bits(stored)
    params = whole_model(ledger(spec))
    layers = list(_linears(spec))
    _check_modules(spec, full, layers)
    parts = {"layers": 0.0, "experts": 0.0}
    for part, total in (("layers", params.inner), ("experts", params.experts)):
        linears = [x for x in layers if (x.part == "experts") == (part == "experts")]
        rest = int(value(total)) - sum(x.elements for x in linears)
        parts[part] = sum(_bytes(full, x) for x in linears) + rest * _WIDE
    inner, experts = int(value(params.inner)), int(value(params.experts))
    outer = _outer_widths(spec, full, int(value(params.outer)))
    widths = Widths(layers=parts["layers"] / inner, experts=parts["experts"] / experts if experts else 0.0, **outer)
    return full.with_changes(widths=widths)


def _with_bits(stored: Quantization) -> Quantization:
    """The format, and those of its experts and other modules, with explicit bits of a weight."""
    experts = stored.experts and _with_bits(stored.experts)
    others = [x.with_changes(stored=_with_bits(x.stored)) for x in stored.others]
    return stored.with_changes(bits=stored.bits or BITS[stored.dtype], experts=experts, others=others)


def _outer_widths(spec: ModelSpec, stored: Quantization, parameters: int) -> dict[str, float]:
    """Bytes per parameter of embedding, head, and both with the norm between them."""
    width = spec.embedding_dim or spec.d_model
    table = spec.vocab_size * width
    embedding = table * _WIDE
    if stored.applies_to == "all":
        embedding = _bytes(stored, Linear(_TABLE, width, spec.vocab_size))
    head = embedding if spec.tied_embeddings else _head(spec, stored, width)
    tables = 1 if spec.tied_embeddings or not spec.lm_head else 2
    total = embedding + (head if tables == 2 else 0.0) + (parameters - tables * table) * _WIDE
    return {"embedding": embedding / table, "head": head / table, "outer": total / parameters}


def _head(spec: ModelSpec, stored: Quantization, width: int) -> float:
    """Bytes of an untied head: in the format that names it, or in its explicit number of bits."""
    named = any(linear_layers.matches(p, _HEAD) for x in stored.others for p in x.modules) or (
        bool(stored.only) and any(linear_layers.matches(p, _HEAD) for p in stored.only)
    )
    if stored.applies_to == "all" or named:
        return _bytes(stored, Linear(_HEAD, width, spec.vocab_size))
    if stored.head_bits:
        return schemes.matrix_bytes(stored, width, spec.vocab_size, stored.head_bits)
    return spec.vocab_size * width * _WIDE


def _format(stored: Quantization, x: Linear) -> Quantization | None:
    """The format of a linear layer; None where it stays in 16 bits."""
    if any(linear_layers.matches(p, x.name) for p in stored.kept):
        return None
    for other in stored.others:
        if any(linear_layers.matches(p, x.name) for p in other.modules):
            return other.stored
    left = x.part == "router" and stored.applies_to != "all"
    left = left or (stored.applies_to == "experts" and x.part != "experts")
    left = left or (bool(stored.only) and not any(linear_layers.matches(p, x.name) for p in stored.only))
    if left:
        return None
    return stored.experts if x.part == "experts" and stored.experts else stored


def _bytes(stored: Quantization, x: Linear) -> float:
    """Bytes of a linear layer with its copies."""
    own = _format(stored, x)
    return x.elements * _WIDE if own is None else x.copies * schemes.matrix_bytes(own, x.inputs, x.outputs)


def _check_modules(spec: ModelSpec, stored: Quantization, layers: list[Linear]) -> None:
    """Raises DataError for a module that is named and that the model does not have."""
    for pattern in (*stored.kept, *stored.only, *(p for other in stored.others for p in other.modules)):
        beyond = [int(n) >= spec.n_layers for n in _LAYER.findall(pattern.replace("\\", ""))]
        try:
            exists = any(linear_layers.matches(pattern, x.name) for x in layers)
        except re.error as error:
            raise DataError(
                f"{spec.document.location('quantization')}: '{pattern[:60]}' is no regular expression ({error}); mend it"
            ) from None
        if not exists and not any(beyond) and not _NEVER_QUANTIZED.search(pattern):
            raise DataError(
                f"{spec.document.location('quantization')}: '{pattern[:60]}', quantized otherwise than the rest or not at all, names no linear layer of this model; "
                "remove the entry, or write the model as YAML"
            )


def _linears(spec: ModelSpec) -> Iterator[Linear]:
    """Every linear layer inside the layers: softmax attention and feed-forward as checkpoints split them, others as the ledger's rows."""
    rows, gemma4 = ledger(spec), spec.family.startswith("gemma4")
    for number, index in enumerate(spec.order):
        at, a = f"model.layers.{number}", spec.layers[index].attention
        if a is not None and a.kind in linear_layers.NAMED_KINDS and not a.shared:
            yield from linear_layers.attention(spec.d_model, a, at)
        elif a is not None:
            yield from _rows(rows.layers[index], f"{at}.self_attn", "attention.")
        yield from linear_layers.feedforward(spec.d_model, spec.layers[index].feedforward, at, gemma4)


def _rows(group: Layer, at: str, prefix: str) -> Iterator[Linear]:
    """The weight matrices of a layer's rows."""
    sizes = layer_sizes(group, pass_axis_sizes(1.0, 1.0, 1.0, 1.0, Layout()), Layout(), None, PLAIN)
    for row in group.rows:
        c = row.contraction
        if c is None or not c.weight or not row.params or not row.name.startswith(prefix):
            continue
        inputs, outputs, copies = (int(value(product(axes, sizes))) for axes in (c.k, c.n, c.g))
        yield Linear(f"{at}.{row.name.removeprefix(prefix)}", inputs, outputs, copies=copies)


def with_stored_weights(request: Request) -> Request:
    """The request with a file type or format as `--weight-dtype` (q4_k_m, awq) turned into a model of that format."""
    written = str(request.weight_dtype)
    file = file_type(written) or (written if schemes.parse(written) else None)
    if file is None:
        return request
    return replace(request, model=with_weight_format(request.model, file), weight_dtype=None)
