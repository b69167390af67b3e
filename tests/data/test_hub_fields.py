"""Fields that configs on the Hub hold in addition to those of their class: left over from training, from another class, from an older release.

Parameters are those of transformers 5.23.0 on the meta device (AutoConfig.for_model of the same dictionary).
"""

from __future__ import annotations

import json

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.questions.models.answer import sheet

SIGLIP = {
    "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16,
    "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
}  # fmt: skip
SMOLVLM = {  # HuggingFaceTB/SmolVLM-Instruct
    "model_type": "idefics3",
    "architectures": ["Idefics3ForConditionalGeneration"],
    "image_token_id": 49153,
    "scale_factor": 3,
    "tie_word_embeddings": False,
    "_pad_token_id": 2,
    "transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}},
    "text_config": {
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 24,
        "num_key_value_heads": 32, "head_dim": 64, "max_position_embeddings": 16384, "vocab_size": 49155,
        "neftune_noise_alpha": 0.0, "perceiver_config": {"model_type": "vllama3", "resampler_depth": 6}, "pixel_shuffle_factor": 3,
        "qk_layer_norms": False, "use_resampler": False,
    },
    "vision_config": {
        "model_type": "idefics3", "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304, "num_attention_heads": 16,
        "num_hidden_layers": 27, "patch_size": 14, "max_image_size": {"longest_edge": 384}, "use_base_siglip": False,
    },
}  # fmt: skip
PALIGEMMA = {  # google/paligemma-3b-mix-224, whose tower was saved with a vocabulary
    "model_type": "paligemma",
    "architectures": ["PaliGemmaForConditionalGeneration"],
    "projection_dim": 2048,
    "text_config": {
        "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_attention_heads": 8, "num_hidden_layers": 18,
        "num_key_value_heads": 1, "num_image_tokens": 256, "vocab_size": 257216,
    },
    "vision_config": {**SIGLIP, "num_image_tokens": 256, "projection_dim": 2048, "vocab_size": 257152, "tie_word_embeddings": True},
}  # fmt: skip
LLAVA = {  # llava-hf/llava-v1.6-mistral-7b-hf
    "model_type": "llava_next",
    "architectures": ["LlavaNextForConditionalGeneration"],
    "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
    "use_image_newline_parameter": True,
    "vision_feature_layer": -2,
    "text_config": {
        "model_type": "mistral", "intermediate_size": 14336, "max_position_embeddings": 32768, "num_key_value_heads": 8,
        "sliding_window": None, "vocab_size": 32064,
    },
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "num_attention_heads": 16,
        "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32000,
    },
    "vocab_size": 32064,
}  # fmt: skip
MODERNBERT = {  # answerdotai/ModernBERT-base
    "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "hidden_size": 768, "intermediate_size": 1152,
    "num_attention_heads": 12, "num_hidden_layers": 22, "vocab_size": 50368, "max_position_embeddings": 8192,
    "position_embedding_type": "absolute", "reference_compile": None, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "total"),
    [(SMOLVLM, 2246272880), (PALIGEMMA, 2923466480), (LLAVA, 7566747648), (MODERNBERT, 149655232)],
)
def test_published_configs_are_read_as_they_are(tmp_path, config, total):
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert sheet(str(tmp_path / "config.json"))["parameters"]["total"] == total


@pytest.mark.parametrize("field", ["use_resampler", "qk_layer_norms"])
def test_what_would_add_something_is_still_refused(tmp_path, field):
    made = {**SMOLVLM, "text_config": {**SMOLVLM["text_config"], field: True}}
    (tmp_path / "config.json").write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(DataError, match=rf"config\.json:1: {field}: unknown field for this model_type"):
        sheet(str(tmp_path / "config.json"))
