"""Whether a model's weights have a format of their own. Most have none, and then nothing of checkpoints and schemes is loaded."""

from __future__ import annotations

from rooflinecli.specs.layers import Quantization
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.request import Request


def checkpoint_format(spec: ModelSpec) -> Quantization | None:
    """The format of a quantized checkpoint with the bytes of each part; None for another (engine/quantized)."""
    if spec.quantization is None:
        return None
    from rooflinecli.engine import stored_weights

    return stored_weights.checkpoint_format(spec)


def stored(request: Request) -> Request:
    """The request with a file type or format as `--weight-dtype` turned into a model of that format (engine/quantized)."""
    if request.weight_dtype is None:
        return request
    from rooflinecli.engine import stored_weights

    return stored_weights.stored(request)
