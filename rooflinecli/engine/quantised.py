"""A model as llama.cpp would store it: the bytes of each part in a GGUF file type, by the rules of llama-quantize."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.layers.build import ledger
from rooflinecli.lift import PLAIN
from rooflinecli.memory import device_parameters
from rooflinecli.num import value
from rooflinecli.specs.blocks import Quantization, Widths
from rooflinecli.specs.checkpoint.mix import file_type
from rooflinecli.specs.checkpoint.shapes import file_bytes
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.request import Request

_KNOWN: dict[tuple[int, str], tuple[ModelSpec, ModelSpec]] = {}
_MOST = 64


def as_file(spec: ModelSpec, file: str) -> ModelSpec:
    """The model with its weights in a GGUF file type such as Q4_K_M. Raises DataError where its tensors are not known.

    Each part (layers, experts, embedding, head) weighs exactly what its tensors come to, as a mean over its parameters.
    """
    held = _KNOWN.get((id(spec), file))
    if held is not None and held[0] is spec:
        return held[1]
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    made = spec.model_copy(
        update={"quantization": Quantization(dtype=f"gguf {file}", group_size=None, widths=_widths(spec, file))}
    )
    _KNOWN[id(spec), file] = (spec, made)
    return made


def _widths(spec: ModelSpec, file: str) -> Widths:
    params = device_parameters(ledger(spec), Plan(), PLAIN)
    inner, experts, outer = (int(value(n)) for n in (params.inner, params.experts, params.outer))
    parts = file_bytes(spec, file, inner + experts + outer)
    table = spec.vocab_size * spec.d_model
    return Widths(
        layers=parts["layers"] / inner,
        experts=parts["experts"] / experts if experts else 0.0,
        embedding=parts["embedding"] / table,
        head=(parts["head"] or parts["embedding"]) / table,
        outer=(parts["embedding"] + parts["head"]) / outer,
    )


def stored(request: Request) -> Request:
    """The request with `--weight-dtype q4_k_m` turned into a model of that file type."""
    file = file_type(request.weight_dtype)
    return request if file is None else replace(request, model=as_file(request.model, file), weight_dtype=None)
