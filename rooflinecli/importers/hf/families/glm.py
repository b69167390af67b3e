"""The text decoders of GLM-4.1V, GLM-4.5V and GLM-OCR. Source: transformers 5.23 models/{glm4v,glm4v_moe,glm_ocr}."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.importers.hf.vision_encoders import Block
from rooflinecli.specs.field_reader import ConfigFields


def _dense(f: ConfigFields, bias: bool) -> Block:
    """A norm before and after each block."""
    f.expect("attention_bias", (bias, None), f"the class {'has' if bias else 'has no'} biases on q, k and v; mend it")
    return frame(f, attention(f, qkv_bias=bias), feedforward(f, "gated"), layers=f.whole("num_hidden_layers"), norms=4)


def glm4v(f: ConfigFields) -> Block:
    return _dense(f, True)


def glm_ocr(f: ConfigFields) -> Block:
    return _dense(f, False)
