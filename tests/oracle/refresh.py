"""Build every case with transformers and write golden.json: parameters, active parameters, forward FLOPs.

Published configs are built on the meta device; the small random ones for real, since masks read values that meta tensors lack.

    pip install 'rooflinecli[oracle]' && python tests/oracle/refresh.py

Traps: mixtures are skipped by the FLOP counter unless experts_implementation is 'batched_mm'; 'eager' attention is used, so
every query meets every key (the full convention) as two batched matmuls; the rotary table is made by a matmul of its own,
which is taken off again; so are the
experts that llama4 runs on tokens not sent to them. Buffers (the score-correction bias of DeepSeek-V3) are not parameters and are not counted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("golden.json")
REAL = Path(__file__).parent.parent / "data" / "hf"
BATCH, SEQ = 2, 16


def measure(config: dict[str, Any], flops: bool = True) -> dict[str, Any]:
    """What transformers says about one config."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    wrapper = "vision_config" in config
    settings = AutoConfig.for_model(**json.loads(json.dumps(config)))
    settings._experts_implementation = "batched_mm"
    with torch.device("cpu" if flops else "meta"):
        auto = AutoModelForImageTextToText if wrapper else AutoModelForCausalLM
        model = auto.from_config(settings, attn_implementation="eager")
    model.eval()
    text = settings.text_config if wrapper else settings
    result: dict[str, Any] = {"total": model.num_parameters(), "active": active(model, text)}
    if flops:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(input_ids=torch.zeros((BATCH, SEQ), dtype=torch.long), use_cache=False)
        counts = counter.get_flop_counts()
        rotary = sum(sum(ops.values()) for name, ops in counts.items() if name.endswith("rotary_emb"))
        result["forward_flops"] = counter.get_total_flops() - rotary - unvisited(counts, settings)
    return result


def unvisited(counts: dict[str, Any], settings: Any) -> int:
    """FLOPs of llama4's experts on tokens that were not sent to them: transformers runs every expert on every token."""
    if settings.model_type != "llama4_text":
        return 0
    spent = sum(sum(ops.values()) for name, ops in counts.items() if name.endswith(".experts"))
    return int(spent // settings.num_local_experts * (settings.num_local_experts - settings.num_experts_per_tok))


def active(model: Any, settings: Any) -> int:
    """Parameters a token meets: the total less the experts it does not visit."""
    chosen = getattr(settings, "num_experts_per_tok", 0) or getattr(settings, "top_k_experts", 0) or 0
    idle = 0
    for name, module in model.named_modules():
        if name.endswith(".experts"):
            for weight in module.parameters():
                idle += weight.numel() // weight.shape[0] * (weight.shape[0] - chosen)
    return int(model.num_parameters()) - idle


def real() -> dict[str, dict[str, Any]]:
    """Published configs kept with the tests, by file name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(REAL.glob("*.json"))}


def refresh() -> None:
    import torch
    import transformers
    from cases import cases

    rows = [{"config": config, **measure(config)} for config in cases()]
    for name, config in real().items():
        plain = {key: value for key, value in config.items() if key not in ("quantization_config", "auto_map")}
        if plain["model_type"] == "kimi_k2":
            plain["model_type"] = "deepseek_v3"
        rows.append({"file": name, **measure(plain, flops=False)})
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    head = json.dumps(
        {"versions": versions, "batch": BATCH, "sequence": SEQ, "attention": "eager", "experts": "batched_mm"}
    )
    GOLDEN.write_text(f'{head[:-1]},\n "cases": [\n{lines}\n ]}}\n', encoding="utf-8")
    print(f"{len(rows)} cases -> {GOLDEN}", file=sys.stderr)


if __name__ == "__main__":
    refresh()
