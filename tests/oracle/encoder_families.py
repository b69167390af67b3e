"""Encoders, pairs and models that read images, with sizes, classes and switches changed at random, counted by transformers on the
meta device: configs of tests/data/hf_counts, which no case repeats as it stands.

    pip install 'rooflinecli[oracle]' && python tests/oracle/encoder_families.py

Writes golden_encoder_families.json: per case the file, what was changed (a dot leads into a part of the config), the parameters, and where a
pass over tokens is all there is its FLOPs. Traps: 'eager' attention, so every query meets every key, windows or not; TOKENS stay inside the windows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
CONFIGS = HERE.parent / "data" / "hf_counts"
GOLDEN = HERE / "golden_encoder_families.json"
PER_CONFIG = 8
TOKENS = 48
Draw = dict[str, Any]


def _encoder(names: list[str], **more: Any) -> Draw:
    return {
        "architectures": lambda r: [r.choice(names)],
        "vocab_size": lambda r: r.randrange(1000, 9000),
        "intermediate_size": lambda r: 8 * r.randrange(20, 200),
        "num_hidden_layers": lambda r: r.randrange(1, 9),
        "max_position_embeddings": lambda r: r.randrange(70, 600),
        "type_vocab_size": lambda r: r.randrange(1, 5),
        "tie_word_embeddings": lambda r: r.random() < 0.6,
        "num_labels": lambda r: r.randrange(2, 9),
        **more,
    }


def _classes(stem: str, *kinds: str) -> list[str]:
    return [f"{stem}{kind}" for kind in kinds]


_COMMON = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_MODERN = {
    "architectures": lambda r: [r.choice(_classes("ModernBert", *_COMMON[:4]))],
    "local_attention": lambda r: r.choice([128, 256]),
    **{
        k: (lambda r: r.random() < 0.5)
        for k in ("attention_bias", "mlp_bias", "norm_bias", "decoder_bias", "classifier_bias")
    },
    "tie_word_embeddings": lambda r: True,
    "num_labels": lambda r: r.randrange(2, 9),
    "vocab_size": lambda r: r.randrange(60000, 69000),
    "intermediate_size": lambda r: 8 * r.randrange(20, 200),
}
DISTIL = {
    "model_type": "distilbert",
    "architectures": ["DistilBertForMaskedLM"],
    "dim": 384,
    "n_layers": 3,
    "n_heads": 6,
    "hidden_dim": 900,
    "vocab_size": 3001,
}
ELECTRA = {
    "model_type": "electra",
    "architectures": ["ElectraForPreTraining"],
    "embedding_size": 96,
    "hidden_size": 240,
    "num_attention_heads": 5,
    "intermediate_size": 700,
    "num_hidden_layers": 3,
    "vocab_size": 3001,
}
GEMMA4 = {
    "model_type": "gemma4",
    "architectures": ["Gemma4ForConditionalGeneration"],
    "audio_config": None,
    "text_config": {
        "model_type": "gemma4_text",
        "vocab_size": 3001,
        "hidden_size": 120,
        "intermediate_size": 200,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 24,
        "global_head_dim": 40,
        "num_kv_shared_layers": 1,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": 2001,
        "tie_word_embeddings": True,
    },
    "vision_config": {
        "model_type": "gemma4_vision",
        "hidden_size": 96,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 24,
    },
}
_RELATIVE = {
    "vocab_size": 2001, "d_model": 96, "encoder_layers": 3, "decoder_layers": 2, "encoder_ffn_dim": 180, "decoder_ffn_dim": 260,
    "encoder_attention_heads": 4, "decoder_attention_heads": 6, "max_position_embeddings": 120,
}  # fmt: skip
RELATIVES = {  # of BART
    "mbart": "MBart", "pegasus": "Pegasus", "marian": "Marian", "plbart": "PLBart", "blenderbot": "Blenderbot", "blenderbot-small": "BlenderbotSmall",
}  # fmt: skip
# types without a file among the configs
PLAIN: dict[str, dict[str, Any]] = {"distilbert": DISTIL, "electra": ELECTRA, "gemma4": GEMMA4}
PLAIN |= {
    name: {"model_type": name, "architectures": [f"{stem}Model"], **_RELATIVE}
    | ({"pad_token_id": 1, "decoder_vocab_size": 2001} if name == "marian" else {})
    for name, stem in RELATIVES.items()
}
DRAWS: dict[str, Draw] = {
    "bert-odd": _encoder(_classes("Bert", *_COMMON[:4], "ForPreTraining")),
    "roberta-large": _encoder(_classes("Roberta", *_COMMON), hidden_size=lambda r: 16 * r.choice([20, 33])),
    "modernbert-large": _MODERN,
    "distilbert": {
        "architectures": lambda r: [r.choice(_classes("DistilBert", *_COMMON[:4]))],
        "n_layers": lambda r: r.randrange(1, 7),
        "hidden_dim": lambda r: 8 * r.randrange(20, 90),
        "max_position_embeddings": lambda r: r.randrange(70, 400),
        "num_labels": lambda r: r.randrange(2, 9),
    },
    "electra": {
        "architectures": lambda r: [r.choice(_classes("Electra", *_COMMON[:4], "ForPreTraining"))],
        "embedding_size": lambda r: r.choice([64, 96, 240]),
        "num_hidden_layers": lambda r: r.randrange(1, 7),
        "type_vocab_size": lambda r: r.randrange(1, 5),
        "num_labels": lambda r: r.randrange(2, 9),
    },
}
_VISION = {
    "num_hidden_layers": lambda r: r.randrange(1, 5),
    "intermediate_size": lambda r: 8 * r.randrange(20, 90),
    "num_channels": lambda r: r.choice([1, 3]),
}
_QWEN_VISION = {
    "depth": lambda r: r.randrange(3, 6),
    "in_channels": lambda r: r.choice([1, 3]),
    "temporal_patch_size": lambda r: r.choice([1, 2]),
    "spatial_merge_size": lambda r: r.choice([1, 2, 3]),
    "patch_size": lambda r: r.choice([8, 14]),
}


def _inside(draws: Draw, **more: Any) -> Draw:
    return {f"vision_config.{key}": make for key, make in draws.items()} | {
        key.replace("__", "."): make for key, make in more.items()
    }


def _side(patch: int, *counts: int) -> Any:
    return lambda r: patch * r.choice(counts)


def _coin(r: Random) -> bool:
    return r.random() < 0.5


DRAWS |= {
    "qwen2-vl-odd": _inside(_QWEN_VISION, vision_config__mlp_ratio=lambda r: r.choice([2, 3, 4])),
    "qwen2_5-vl-7b": _inside(
        _QWEN_VISION,
        vision_config__intermediate_size=lambda r: 8 * r.randrange(20, 90),
        vision_config__fullatt_block_indexes=lambda r: sorted(r.sample(range(3), 2)),
    ),
    "qwen3-vl-8b": _inside(
        _QWEN_VISION,
        vision_config__num_position_embeddings=lambda r: r.choice([400, 2304]),
        vision_config__deepstack_visual_indexes=lambda r: r.choice([[], [0], [0, 2]]),
    ),
    "qwen3_5-moe-vl-odd": _inside(_QWEN_VISION),
    "gemma3-vl-odd": _inside(_VISION, mm_tokens_per_image=lambda r: r.choice([16, 64, 256]), tie_word_embeddings=_coin),
    "paligemma-3b-224": _inside(_VISION, vision_config__image_size=_side(14, 8, 16, 32)),
    "llava-odd": _inside(
        _VISION,
        vision_config__image_size=_side(14, 8, 16, 24),
        vision_feature_layer=lambda r: r.choice([-1, -2, [-1, -2], [-1, -2, -3]]),
        vision_feature_select_strategy=lambda r: r.choice(["default", "full"]),
        multimodal_projector_bias=_coin,
    ),
    "mistral-small-3.1-24b": _inside(
        _VISION, spatial_merge_size=lambda r: r.choice([1, 2, 3]), multimodal_projector_bias=_coin
    ),
    "internvl-odd": _inside(
        _VISION,
        vision_config__norm_type=lambda r: r.choice(["layer_norm", "rms_norm"]),
        **{
            f"vision_config__{k}": _coin
            for k in ("attention_bias", "use_qk_norm", "use_mask_token", "use_mean_pooling")
        },
        vision_config__use_absolute_position_embeddings=_coin,
        downsample_ratio=lambda r: r.choice([0.5, 1.0]),
    ),
    "llama4-scout-vl": _inside(
        {"num_hidden_layers": _VISION["num_hidden_layers"], "num_channels": _VISION["num_channels"]},
        vision_config__projector_input_dim=lambda r: r.choice([512, 4096]),
        vision_config__image_size=_side(14, 8, 24),
    ),
    "gemma4": _inside(
        {k: v for k, v in _VISION.items() if k != "num_channels"},
        vision_config__patch_size=lambda r: r.choice([8, 14]),
        vision_config__position_embedding_size=lambda r: r.randrange(100, 300),
        vision_config__pooling_kernel_size=lambda r: r.choice([1, 2, 3]),
        vision_config__use_clipped_linears=_coin,
        vision_config__standardize=_coin,
        text_config__attention_k_eq_v=_coin,
    ),
    "mllama-odd": _inside(
        _VISION,
        vision_config__num_global_layers=lambda r: r.randrange(1, 4),
        text_config__cross_attention_layers=lambda r: sorted(r.sample(range(11), 2)),
    ),
}
DRAWS |= {
    "flan-t5-xl": {
        "architectures": lambda r: [r.choice(["T5ForConditionalGeneration", "T5Model", "T5EncoderModel"])],
        "num_layers": lambda r: r.randrange(1, 5),
        "num_decoder_layers": lambda r: r.randrange(1, 5),
        "relative_attention_num_buckets": lambda r: r.choice([16, 40]),
        "d_kv": lambda r: r.choice([32, 80]),
        "tie_word_embeddings": _coin,
        "vocab_size": lambda r: r.randrange(1000, 9000),
    },
    "mt5-odd": {
        "feed_forward_proj": lambda r: r.choice(["relu", "gated-gelu"]),
        "is_gated_act": lambda r: None,
        "num_decoder_layers": lambda r: r.choice([None, 2]),
        "d_ff": lambda r: 8 * r.randrange(20, 90),
    },
    "bart-odd": {
        "architectures": lambda r: [r.choice(["BartForConditionalGeneration", "BartModel"])],
        "encoder_layers": lambda r: r.randrange(1, 5),
        "decoder_layers": lambda r: r.randrange(1, 5),
        "encoder_ffn_dim": lambda r: 8 * r.randrange(20, 90),
        "max_position_embeddings": lambda r: r.randrange(60, 500),
    },
    "whisper-odd": {
        "encoder_layers": lambda r: r.randrange(1, 5),
        "decoder_layers": lambda r: r.randrange(1, 5),
        "decoder_ffn_dim": lambda r: 8 * r.randrange(20, 90),
        "num_mel_bins": lambda r: r.choice([80, 128]),
        "max_source_positions": lambda r: r.choice([300, 1500]),
        "max_target_positions": lambda r: r.choice([100, 448]),
    },
}
DRAWS |= {
    name: {
        "architectures": lambda r, end=f"{stem}MTModel" if name == "marian" else f"{stem}ForConditionalGeneration": [
            end
        ],
        "encoder_layers": lambda r: r.randrange(1, 5),
        "decoder_layers": lambda r: r.randrange(1, 5),
        "encoder_ffn_dim": lambda r: r.randrange(20, 300),
        "decoder_attention_heads": lambda r: r.choice([2, 4, 8]),
        "max_position_embeddings": lambda r: r.randrange(60, 500),
    }
    for name, stem in RELATIVES.items()
}
_SMALL = {
    "vocab_size": 2001,
    "hidden_size": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 200,
}
ENCODERS = {
    "data2vec-text": "Data2VecText",
    "mpnet": "MPNet",
    "ernie": "Ernie",
    "megatron-bert": "MegatronBert",
}  # near BERT
PLAIN |= {name: {"model_type": name, "architectures": [f"{stem}Model"], **_SMALL} for name, stem in ENCODERS.items()}
DRAWS |= {name: _encoder(_classes(stem, *_COMMON)) for name, stem in ENCODERS.items()}
DRAWS["mpnet"] = {k: v for k, v in DRAWS["mpnet"].items() if k != "type_vocab_size"} | {
    "relative_attention_num_buckets": lambda r: r.choice([16, 40])
}
DRAWS["ernie"] |= {"use_task_id": _coin, "task_type_vocab_size": lambda r: r.randrange(2, 6)}
COUNTED = (
    "bert",
    "roberta",
    "modernbert",
    "distilbert",
    "electra",
    "data2vec-text",
    "mpnet",
    "ernie",
)  # whose pass over tokens is counted


def config(name: str) -> dict[str, Any]:
    """What a case changes: a config of the tests, or one of the plain ones."""
    return PLAIN.get(name) or json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))


def changed(config: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The config with every change in its place."""
    made = json.loads(json.dumps(config))
    for path, value in change.items():
        *parts, last = path.split(".")
        inner = made
        for part in parts:
            inner = inner[part]
        inner[last] = value
    return made


def draw(name: str, seed: str) -> dict[str, Any]:
    r = Random(seed)
    return {key: make(r) for key, make in DRAWS[name].items() if r.random() < 0.75}


def count(config: dict[str, Any]) -> dict[str, Any] | None:
    """Parameters of the class that the config names, and the FLOPs of a pass; None where transformers refuses the config."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    try:
        settings = transformers.AutoConfig.for_model(**json.loads(json.dumps(config)))
        with torch.device("meta"):
            model = getattr(transformers, config["architectures"][0])._from_config(
                settings, attn_implementation="eager"
            )
            model.tie_weights()
            found = {"total": int(model.num_parameters())}
            if config["model_type"] in COUNTED:
                with FlopCounterMode(display=False) as counter, torch.no_grad():
                    model.eval()(input_ids=torch.zeros((1, TOKENS), dtype=torch.long))
                rotary = sum(
                    sum(ops.values()) for n, ops in counter.get_flop_counts().items() if n.endswith("rotary_emb")
                )
                found["flops"] = counter.get_total_flops() - rotary
        return found
    except Exception as error:
        print(f"{config['model_type']}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
        return None


def refresh() -> None:
    import transformers

    cases = []
    for name in DRAWS:
        for i in range(PER_CONFIG):
            change = draw(name, f"20261122:{name}:{i}")
            found = count(changed(config(name), change))
            if found is not None:
                cases.append({"file": name, "change": change, **found})
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    GOLDEN.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(cases)} cases -> {GOLDEN}", file=sys.stderr)


if __name__ == "__main__":
    refresh()
