"""The text decoders of GLM-4.1V, GLM-4.5V and GLM-OCR. Source: transformers 5.23 models/{glm4v,glm4v_moe,glm_ocr}."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.importers.hf.families import deepseek
from rooflinecli.importers.hf.vision_encoders import Block
from rooflinecli.specs.field_reader import ConfigFields, Family


def _dense(f: ConfigFields, bias: bool) -> Block:
    """A norm before and after each block."""
    f.expect("attention_bias", (bias, None), f"the class {'has' if bias else 'has no'} biases on q, k and v; mend it")
    return frame(f, attention(f, qkv_bias=bias), feedforward(f, "gated"), layers=f.whole("num_hidden_layers"), norms=4)


def glm4v(f: ConfigFields) -> Block:
    return _dense(f, True)


def glm_ocr(f: ConfigFields) -> Block:
    return _dense(f, False)


_TEXT = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
}
_OCR = {
    "vocab_size": 59392,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
_MOE = {
    **deepseek.FAMILIES["glm4_moe"].defaults,
    "vocab_size": 151424,
    "attention_bias": True,
    "max_position_embeddings": 65536,
}
_LAST = frozenset({"num_nextn_predict_layers"})  # GLM-OCR's checkpoints name it, and the class builds none
FAMILIES = {
    "glm4v_text": Family(glm4v, _TEXT),
    "glm_ocr_text": Family(glm_ocr, _OCR, _LAST),
    "glm4v_moe_text": Family(deepseek.glm4_moe, _MOE, deepseek.FAMILIES["glm4_moe"].ignored),
}
