"""Configs of tests/data/hf_counts with sizes, biases and tying changed at random, counted by transformers on the meta device.

    pip install 'rooflinecli[oracle]' && python tests/oracle/hybrids.py

Writes golden_hybrids.json: per case the file, what was changed, what was left out so that transformers' default stands in, and the count.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
CONFIGS = HERE.parent / "data" / "hf_counts"
GOLDEN = HERE / "golden_hybrids.json"
PER_CONFIG = 5
# fields that any value suits, and the values
FREE: dict[str, Any] = {
    "vocab_size": lambda r: r.randrange(1000, 9000),
    "intermediate_size": lambda r: 8 * r.randrange(20, 200),
    "moe_intermediate_size": lambda r: 8 * r.randrange(10, 60),
    "shared_intermediate_size": lambda r: 8 * r.randrange(10, 60),
    "shared_expert_intermediate_size": lambda r: 8 * r.randrange(10, 60),
    "moe_shared_expert_intermediate_size": lambda r: 8 * r.randrange(10, 60),
    "state_size": lambda r: r.choice([8, 16, 40]),
    "ssm_state_size": lambda r: r.choice([16, 48]),
    "mamba_d_state": lambda r: r.choice([8, 24, 56]),
    "conv_kernel": lambda r: r.choice([2, 3, 4]),
    "mamba_d_conv": lambda r: r.choice([2, 3, 5]),
    "linear_conv_kernel_dim": lambda r: r.choice([2, 4]),
    "conv_L_cache": lambda r: r.choice([2, 3, 4]),
    "conv1d_width": lambda r: r.choice([2, 4]),
    "linear_key_head_dim": lambda r: r.choice([32, 48]),
    "linear_value_head_dim": lambda r: r.choice([32, 64]),
    "linear_head_dim": lambda r: r.choice([32, 48]),
    "adapter_rank": lambda r: r.choice([8, 24]),
    "index_n_heads": lambda r: r.choice([2, 5]),
    "index_head_dim": lambda r: r.choice([40, 64]),
    "time_step_rank": lambda r: r.choice([7, 33]),
    "mamba_dt_rank": lambda r: r.choice([9, 31]),
    "moe_latent_size": lambda r: r.choice([None, 40]),
    "attention_hidden_size": lambda r: r.choice([512, 648]),
}
KEEP = {"zamba2": {"attention_hidden_size"}}  # must be twice the width there
FLAGS = "tie_word_embeddings attention_bias mlp_bias use_bias use_conv_bias mamba_conv_bias mamba_proj_bias projectors_bias mamba_rms_norm conv_bias use_shared_attention_adapter add_bias_linear".split()  # fmt: skip
TYPES = "mamba falcon_mamba mamba2 jamba nemotron_h bamba granitemoehybrid falcon_h1 zamba2 qwen3_next kimi_linear minimax minimax_m2 lfm2 lfm2_moe recurrent_gemma rwkv deepseek_v32 glm4_moe_lite ernie4_5_moe ernie4_5 hunyuan_v1_moe seed_oss smollm3 olmo3 olmoe exaone4 arcee cohere2 stablelm nemotron persimmon gpt_bigcode".split()  # fmt: skip


def changes(config: dict[str, Any], seed: str) -> dict[str, Any]:
    """What one case changes."""
    r, kept = Random(seed), KEEP.get(config["model_type"], set())
    found = {k: make(r) for k, make in FREE.items() if k in config and k not in kept and r.random() < 0.6}
    return found | {k: r.random() < 0.5 for k in FLAGS if k in config and r.random() < 0.6}


def count(config: dict[str, Any]) -> int | None:
    """Parameters of the class that transformers builds, or None where it refuses the config."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        settings = AutoConfig.for_model(**json.loads(json.dumps(config)))
        with torch.device("meta"):
            return int(AutoModelForCausalLM.from_config(settings).num_parameters())
    except Exception as error:
        print(f"{config['model_type']}: {type(error).__name__}: {str(error)[:90]}", file=sys.stderr)
        return None


def refresh() -> None:
    import transformers

    cases = []
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text())
        if config.get("model_type") not in TYPES:
            continue
        for i in range(PER_CONFIG):
            changed = changes(config, f"20261122:{path.stem}:{i}")
            if config["model_type"] == "zamba2" and not changed.get("tie_word_embeddings", True):
                continue  # the class then ties nothing, its shared blocks included
            total = count({**config, **changed})
            if total is not None:
                cases.append({"file": path.stem, "change": changed, "total": total})
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    GOLDEN.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(cases)} cases -> {GOLDEN}", file=sys.stderr)


if __name__ == "__main__":
    refresh()
