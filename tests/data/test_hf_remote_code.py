"""Families whose classes come with their checkpoints: the parameters that the Hub counts in their safetensors files.

Ling-mini-2.0 has 4,864 more there: the router's correction biases of 19 layers, which are buffers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.importers.hf import from_config
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.specs.document import Document
from rooflinecli.specs.model import model_from

CASES = json.loads(Path(__file__).with_name("hf_remote_code.json").read_text(encoding="utf-8"))


def read(name: str, **change: object):
    return model_from(Document(from_config({**CASES[name]["config"], **change}), Path("config.json")))


@pytest.mark.parametrize("name", CASES)
def test_parameters(name):
    assert parameters(read(name)).total == CASES[name]["total"]


def test_a_bare_name_has_a_head_where_the_class_of_its_auto_map_has():
    """THUDM/chatglm3-6b and glm-4-9b are saved as ChatGLMModel, and AutoModel is ChatGLMForConditionalGeneration."""
    bare = {"architectures": ["ChatGLMModel"]}
    saved = bare | {"auto_map": {"AutoModel": "modeling_chatglm.ChatGLMForConditionalGeneration"}}
    assert parameters(read("chatglm3-6b", **saved)).total == CASES["chatglm3-6b"]["total"]
    assert parameters(read("chatglm3-6b", **bare)).total == CASES["chatglm3-6b"]["total"] - 65024 * 4096


def test_minicpm3_without_its_value_width():
    """openbmb/MiniCPM3-4B: 4.07B by its model card; its class takes hidden_size / num_attention_heads."""
    made = model_from(Document(from_config({"model_type": "minicpm3", "num_attention_heads": 40}), Path("config.json")))
    assert parameters(made).total == pytest.approx(4.07e9, rel=2e-3)


def test_positions():
    assert read("Baichuan2-13B").positions.kind == "alibi"
    assert read("Baichuan2-7B").positions.kind == "rotary"


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("Qwen-7B", {"no_bias": False}, "the classes build biases on q, k and v alone"),
        ("glm-4-9b", {"rmsnorm": False}, "LayerNorms are not supported"),
        ("glm-4-9b", {"kv_channels": 64}, "times the heads is not the hidden size"),
        ("Ling-mini-2.0", {"num_experts_per_tok": 300}, "300 exceeds the 256 experts"),
        ("EXAONE-3.5-7.8B", {"unheard_of": 3}, "unheard_of: unknown field"),
    ],
)
def test_what_is_refused(name, change, says):
    with pytest.raises(DataError, match=says):
        read(name, **change)
