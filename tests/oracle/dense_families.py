"""Random small configs of wrappers, decoders and encoders that came later, counted by transformers: parameters, and forward FLOPs of decoders.

    pip install 'rooflinecli[oracle]' && python tests/oracle/dense_families.py

Writes golden_dense_families.json. Everything follows from the seed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

from cases import deepseek
from decoders import PER_TYPE
from draw import Config, coin, common, maybe, types

GOLDEN = Path(__file__).with_name("golden_dense_families.json")


def _mixed(r: Random, count: str, **more: Any) -> Config:
    n = r.randrange(2, 9)
    return {count: n, "num_experts_per_tok": r.randrange(1, n + 1), "moe_intermediate_size": r.randrange(4, 40), **more}


def _kinds(r: Random, n: int) -> Config:
    return maybe(r, 0.5, mlp_layer_types=[r.choice(["dense", "sparse"]) for _ in range(n)])


def _windowed(r: Random) -> Config:
    c = common(r) | {"sliding_window": 16, "num_hidden_layers": r.randrange(3, 6)}
    return c | types(r, c["num_hidden_layers"])


def mistral4(r: Random) -> Config:
    return {"architectures": ["Mistral4ForCausalLM"], **deepseek(r)}


def axk1(r: Random) -> Config:
    c = deepseek(r)
    c.pop("first_k_dense_replace", None)
    return c | _kinds(r, c["num_hidden_layers"])


def longcat(r: Random) -> Config:
    keep = (
        "vocab_size",
        "hidden_size",
        "num_attention_heads",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
    )
    c = {k: v for k, v in deepseek(r).items() if k in keep} | {"q_lora_rank": 24, "num_layers": r.randrange(1, 4)}
    n, zero = r.randrange(2, 7), r.randrange(0, 4)
    more = {"n_routed_experts": n, "zero_expert_num": zero, "moe_topk": r.randrange(1, n + 1)}
    return c | more | {"expert_ffn_hidden_size": r.randrange(4, 40), "ffn_hidden_size": r.randrange(20, 60)}


def flint(r: Random) -> Config:
    c = _windowed(r) | _mixed(r, "num_experts", shared_expert_intermediate_size=r.randrange(4, 40))
    return c | maybe(r, attention_bias=coin(r), mlp_only_layers=[0])


def kolibri(r: Random) -> Config:
    c = _windowed(r) | _mixed(r, "num_local_experts", shared_expert_intermediate_size=r.randrange(4, 40))
    c.pop("intermediate_size")
    return c


def laguna(r: Random) -> Config:
    c = _windowed(r) | _mixed(r, "num_experts", shared_expert_intermediate_size=r.randrange(4, 40))
    n, keys = c["num_hidden_layers"], c.get("num_key_value_heads", 1)
    c |= {
        "num_key_value_heads": keys,
        "head_dim": 16,
        "num_attention_heads_per_layer": [keys * r.choice([1, 2, 3]) for _ in range(n)],
    }
    return c | {"gating": r.choice([True, "per-head", "per-element"])} | _kinds(r, n) | maybe(r, attention_bias=coin(r))


def lfm3(r: Random) -> Config:
    n = r.randrange(3, 7)
    kinds = [r.choice(["conv", "full_attention", "sliding_attention"]) for _ in range(n)]
    kinds[0] = "full_attention"
    c = common(r) | {
        "num_hidden_layers": n,
        "layer_types": kinds,
        "sliding_window": 16,
        "conv_L_cache": r.choice([3, 7]),
        "head_dim": 16,
        "pad_token_id": 0,
    }
    return c | maybe(
        r, conv_bias=coin(r), use_sandwich_norm=coin(r), use_attention_gate=coin(r), attention_bias=coin(r)
    )


def doge(r: Random) -> Config:
    c = common(r, free_dim=False) | {"num_experts": r.choice([16, 25, 40]), "num_experts_per_tok": 4}
    return c | maybe(r, is_moe=coin(r), attention_bias=coin(r), mlp_bias=coin(r))


def diffllama(r: Random) -> Config:
    heads, width = r.choice([4, 8]), r.choice([8, 16])
    c = common(r, free_dim=False) | {
        "num_attention_heads": heads,
        "num_key_value_heads": r.choice([2, heads]),
        "hidden_size": heads * width,
    }
    return c | maybe(r, attention_bias=coin(r))


def plain(r: Random) -> Config:
    c = common(r, free_dim=False)
    c.pop("num_key_value_heads", None)
    return c


def japanese(r: Random) -> Config:
    c = plain(r) | {"intermediate_multiple_size": r.choice([1, 3, 4])}
    c.pop("intermediate_size")
    return c


def ctrl(r: Random) -> Config:
    heads = r.choice([2, 4])
    return {
        "vocab_size": r.randrange(100, 900),
        "n_embd": 16 * heads,
        "n_head": heads,
        "n_layer": r.randrange(1, 5),
        "dff": r.randrange(20, 90),
        "n_positions": 64,
    }


def modern(r: Random) -> Config:
    c = plain(r) | {"local_attention": 32, "pad_token_id": 0}
    return c | maybe(
        r, attention_bias=coin(r), mlp_bias=coin(r), norm_bias=coin(r), decoder_bias=coin(r), classifier_bias=coin(r)
    )


def step3(r: Random) -> Config:
    c = _windowed(r) | _mixed(r, "n_routed_experts", share_expert_dim=r.randrange(4, 40)) | {"head_dim": 16}
    keys = c.get("num_key_value_heads", 1)
    c |= {
        "num_key_value_heads": keys,
        "num_attention_heads": 2 * keys,
        "num_sliding_attention_heads": keys * r.choice([1, 2, 3]),
    }
    return c | _kinds(r, c["num_hidden_layers"])


DECODERS = {
    "mistral4": mistral4, "axk1": axk1, "longcat_flash": longcat, "flint": flint, "kolibri1": kolibri, "laguna": laguna, "lfm3": lfm3,
    "doge": doge, "diffllama": diffllama, "gpt_neox_japanese": japanese, "ctrl": ctrl, "modernbert-decoder": modern,
}  # fmt: skip
# Those whose pass torch counts otherwise than matmul by matmul: empty experts, a mask made of values, sines; a scan that is no matmul
UNCOUNTED = ("longcat_flash", "doge", "ctrl", "lfm3")
# wrapper: class, tower, decoder
WRAPPERS = {
    "llava": ("Llava", "clip_vision_model", "llama"),
    "llava_next": ("LlavaNext", "clip_vision_model", "llama"),
    "vipllava": ("VipLlava", "clip_vision_model", "llama"),
    "llava_onevision": ("LlavaOnevision", "siglip_vision_model", "qwen2"),
    "idefics3": ("Idefics3", "idefics3_vision", "llama"),
    "smolvlm": ("SmolVLM", "smolvlm_vision", "llama"),
    "aya_vision": ("AyaVision", "siglip_vision_model", "cohere2"),
    "cohere2_vision": ("Cohere2Vision", "siglip_vision_model", "cohere2"),
    "lighton_ocr": ("LightOnOcr", "pixtral", "qwen3"),
    "glm4v": ("Glm4v", "glm4v_vision", "glm4v_text"),
    "glm46v": ("Glm46V", "glm4v_vision", "glm4v_text"),
    "glm4v_moe": ("Glm4vMoe", "glm4v_moe_vision", "glm4v_moe_text"),
    "glm_ocr": ("GlmOcr", "glm_ocr_vision", "glm_ocr_text"),
    "step3p7": ("Step3p7", "step3p5_vision", "step3p5"),
    "exaone4_5": ("Exaone4_5_", "exaone4_5_vision", "exaone4"),
}


def _decoder(r: Random, kind: str) -> Config:
    heads = r.choice([2, 4])
    width = 2 * heads * r.choice([8, 12])
    c = {
        "hidden_size": width,
        "num_attention_heads": 2 * heads,
        "num_key_value_heads": r.choice([1, 2, 2 * heads]),
        "vocab_size": r.randrange(300, 900),
    }
    c |= {"model_type": kind, "num_hidden_layers": r.randrange(1, 4), "intermediate_size": r.randrange(20, 90)}
    if kind == "glm4v_moe_text":
        c |= _mixed(r, "n_routed_experts", first_k_dense_replace=r.randrange(0, 2), attention_bias=coin(r))
    if kind == "step3p5":
        c |= {
            k: v
            for k, v in step3(r).items()
            if k not in ("hidden_size", "vocab_size", "intermediate_size", "tie_word_embeddings")
        }
    return c | ({"head_dim": 16} if kind == "qwen3" else {}) | maybe(r, 0.5, tie_word_embeddings=coin(r))


def _tower(r: Random, kind: str, text: int) -> Config:
    width, patch = 4 * r.choice([16, 24]), {"image_size": r.choice([112, 224]), "patch_size": 14}
    if kind == "exaone4_5_vision":
        c = {
            "hidden_size": width,
            "num_heads": 4,
            "num_key_value_heads": r.choice([1, 2, 4]),
            "depth": r.randrange(1, 4),
        }
        c |= {"out_hidden_size": text, "intermediate_size": r.randrange(30, 90), "in_channels": r.choice([1, 3])}
        return {"model_type": kind, **c, "patch_size": 14, "fullatt_block_indexes": [0]}
    if kind.startswith("glm"):
        c = {
            "hidden_size": width,
            "num_heads": 4,
            "depth": r.randrange(1, 4),
            "out_hidden_size": text,
            "in_channels": r.choice([1, 3]),
        }
        c |= {
            "spatial_merge_size": r.choice([1, 2]),
            "temporal_patch_size": r.choice([1, 2]),
            "attention_bias": coin(r),
        }
    else:
        c = {"hidden_size": width, "num_attention_heads": 4, "num_hidden_layers": r.randrange(1, 4), "num_channels": 3}
    c |= {"vision_use_head": coin(r)} if kind == "siglip_vision_model" else {}
    c |= (
        {"mlp_ratio": r.choice([2.0, 2.5, 4.0])}
        if kind == "step3p5_vision"
        else {"intermediate_size": r.randrange(30, 90)}
    )
    return {"model_type": kind, **c, **patch}


def wrapper(name: str) -> Any:
    stem, tower, decoder = WRAPPERS[name]

    def make(r: Random) -> Config:
        text = _decoder(r, decoder)
        c = {
            "architectures": [f"{stem}ForConditionalGeneration"],
            "text_config": text,
            "vision_config": _tower(r, tower, text["hidden_size"]),
        }
        c |= maybe(r, 0.4, tie_word_embeddings=coin(r))
        if name.startswith("llava"):
            c |= maybe(r, 0.5, multimodal_projector_bias=coin(r), vision_feature_layer=r.choice([-1, [-1, -2]]))
            c |= {"image_grid_pinpoints": [[336, 672]]} if name != "llava" else {}
        if name == "vipllava":
            c |= maybe(r, 0.5, vision_feature_layer=[-1, -2])
        if name in ("idefics3", "smolvlm"):
            c["scale_factor"] = r.choice([1, 2, 4])
        if name in ("aya_vision", "cohere2_vision"):
            c |= {"downsample_factor": 2, "alignment_intermediate_size": r.choice([64, 128])}
        if name == "lighton_ocr":
            c["spatial_merge_size"] = r.choice([1, 2])
        if name == "step3p7":
            c |= maybe(r, 0.5, projector_bias=coin(r))
        return c

    return make


_TASKS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
ENCODERS = {
    "eurobert": ("EuroBert", _TASKS),
    "nomic_bert": ("NomicBert", _TASKS),
    "roberta-prelayernorm": ("RobertaPreLayerNorm", _TASKS),
    "xlm-roberta-xl": ("XLMRobertaXL", _TASKS),
    "deit": ("DeiT", ("Model", "ForImageClassification", "ForImageClassificationWithTeacher")),
    "ijepa": ("IJepa", ("Model", "ForImageClassification")),
    "dinov2_with_registers": ("Dinov2WithRegisters", ("Model", "ForImageClassification")),
    "clip_vision_model": ("CLIPVision", ("Model",)),
    "siglip_vision_model": ("SiglipVision", ("Model",)),
    "clip_text_model": ("CLIPText", ("Model",)),
    "step3p5": ("Step3p7Text", ("Model",)),
}


def encoder(name: str) -> Any:
    stem, tasks = ENCODERS[name]

    def make(r: Random) -> Config:
        c = {"architectures": [stem + r.choice(tasks)], "num_labels": r.choice([2, 5]), "pad_token_id": 0}
        if name == "step3p5":
            return {"architectures": c["architectures"]} | {
                k: v for k, v in step3(r).items() if k != "tie_word_embeddings"
            }
        c |= {
            "hidden_size": 4 * r.choice([8, 12]),
            "num_attention_heads": 4,
            "num_hidden_layers": r.randrange(1, 4),
            "intermediate_size": r.randrange(20, 90),
        }
        if tasks == _TASKS or name == "clip_text_model":
            c |= {"vocab_size": r.randrange(100, 900), "max_position_embeddings": r.randrange(70, 200)} | maybe(
                r, 0.4, tie_word_embeddings=coin(r)
            )
        else:
            c |= {"image_size": r.choice([32, 64]), "patch_size": r.choice([8, 16])} | maybe(
                r, 0.4, num_channels=r.choice([1, 3])
            )
        if name == "eurobert":
            c |= {"num_key_value_heads": r.choice([1, 2, 4])} | maybe(r, 0.5, attention_bias=coin(r), mlp_bias=coin(r))
        elif tasks == _TASKS:
            c["type_vocab_size"] = r.choice([1, 2])
        if name == "dinov2_with_registers":
            c = {k: v for k, v in c.items() if k != "intermediate_size"} | {
                "num_register_tokens": r.choice([0, 4]),
                "mlp_ratio": r.choice([2, 4]),
                "use_swiglu_ffn": coin(r),
            }
        if name == "siglip_vision_model":
            c["vision_use_head"] = coin(r)
        return c

    return make


GENERATORS = DECODERS | {n: wrapper(n) for n in WRAPPERS} | {n: encoder(n) for n in ENCODERS}


def cases(seed: int = 20261124) -> list[Config]:
    """PER_TYPE configs of each type, the same ones every time."""
    return [
        {"model_type": name, **make(rng)}
        for name, make in GENERATORS.items()
        for rng in [Random(f"{seed}:{name}")]
        for _ in range(PER_TYPE)
    ]


def built(config: Config) -> dict[str, Any]:
    """Parameters of the class that the config names."""
    import torch
    import transformers

    settings = transformers.AutoConfig.for_model(**json.loads(json.dumps(config)))
    with torch.device("meta"):
        model = getattr(transformers, config["architectures"][0])._from_config(settings, attn_implementation="eager")
        model.tie_weights()
    return {"total": int(model.num_parameters())}


def refresh() -> None:
    import transformers
    from refresh import measure

    rows = []
    for config in cases():
        name = config["model_type"]
        try:
            found = built(config) if "architectures" in config else measure(config, flops=name not in UNCOUNTED)
            rows.append({"config": config, **found})
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    GOLDEN.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(rows)} cases -> {GOLDEN}", file=sys.stderr)


if __name__ == "__main__":
    refresh()
