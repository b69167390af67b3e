"""Random small configs of the types in importers/hf/families/, counted by transformers: parameters, active ones, forward FLOPs.

    pip install 'rooflinecli[oracle]' && python tests/oracle/decoders.py

Writes golden_decoders.json, in the form of golden.json. Everything follows from the seed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

from cases import deepseek, glm4_moe
from draw import Config, coin, common, heads, maybe, types

GOLDEN = Path(__file__).with_name("golden_decoders.json")
PER_TYPE = 6


def plain(r: Random) -> Config:
    c = common(r, free_dim=False) | maybe(r, attention_bias=coin(r))
    if r.random() < 0.2 and "num_key_value_heads" in c:
        c.pop("num_key_value_heads")
    return c


def free(r: Random) -> Config:
    return common(r) | maybe(r, attention_bias=coin(r), mlp_bias=coin(r))


def unbiased(r: Random) -> Config:
    return common(r) | maybe(r, mlp_bias=coin(r))


def helium(r: Random) -> Config:
    c = free(r)
    c["head_dim"] = c["hidden_size"] // c["num_attention_heads"]
    return c


def windowed(r: Random) -> Config:
    c = common(r) | maybe(r, sliding_window=r.choice([16, 32]))
    return c | types(r, c["num_hidden_layers"])


def cwm(r: Random) -> Config:
    return windowed(r) | maybe(r, mlp_bias=coin(r))


def dbrx(r: Random) -> Config:
    n, kv, h = heads(r)
    experts = r.randrange(2, 7)
    width = n * h
    ffn = {
        "ffn_hidden_size": r.randrange(4, 60),
        "moe_num_experts": experts,
        "moe_top_k": r.randrange(1, experts + 1),
        "hidden_size": width,
    }
    return {
        "vocab_size": r.randrange(100, 900),
        "d_model": width,
        "n_heads": n,
        "n_layers": r.randrange(1, 5),
        "max_seq_len": 128,
        "attn_config": {"kv_n_heads": kv, "clip_qkv": 8.0, "rope_theta": 10000.0},
        "ffn_config": ffn,
    } | maybe(r, tie_word_embeddings=False)


def mpt(r: Random) -> Config:
    n, _, h = heads(r)
    return {
        "vocab_size": r.randrange(100, 900),
        "d_model": n * h,
        "n_heads": n,
        "n_layers": r.randrange(1, 6),
        "max_seq_len": 64,
    } | maybe(
        r, attn_config={"alibi": True, "clip_qkv": 6.0}, no_bias=True, expansion_ratio=4, tie_word_embeddings=True
    )


def latent(r: Random) -> Config:
    c = deepseek(r)
    drop = (
        "moe_intermediate_size",
        "n_routed_experts",
        "num_experts_per_tok",
        "first_k_dense_replace",
        "n_shared_experts",
        "n_group",
        "topk_group",
    )
    return {k: v for k, v in c.items() if k not in drop}


def minicpm3(r: Random) -> Config:
    return latent(r) | maybe(r, mlp_bias=coin(r))


def _experts(r: Random, count: str, **more: object) -> Config:
    n = r.randrange(2, 9)
    return {count: n, "num_experts_per_tok": r.randrange(1, n + 1)} | dict(more)


def phimoe(r: Random) -> Config:
    return (
        plain(r)
        | {"num_local_experts": r.randrange(2, 9), "num_experts_per_tok": 2}
        | maybe(r, lm_head_bias=coin(r), sliding_window=16)
    )


def granitemoe(r: Random) -> Config:
    return plain(r) | _experts(r, "num_local_experts")


def granitemoeshared(r: Random) -> Config:
    return granitemoe(r) | maybe(r, shared_intermediate_size=r.choice([0, 24, 56]))


def flex_olmo(r: Random) -> Config:
    return plain(r) | _experts(r, "num_experts") | {"pad_token_id": 0}


def dots1(r: Random) -> Config:
    c = common(r)
    n = c["num_hidden_layers"]
    return (
        c
        | _experts(r, "n_routed_experts", moe_intermediate_size=r.randrange(4, 40), n_shared_experts=r.randrange(1, 3))
        | maybe(
            r,
            attention_bias=coin(r),
            first_k_dense_replace=r.randrange(0, n + 1),
            max_window_layers=r.randrange(0, n + 1),
            sliding_window=16,
        )
    )


def _kinds(r: Random, n: int) -> Config:
    return maybe(r, 0.4, mlp_layer_types=[r.choice(["dense", "sparse"]) for _ in range(n)])


def exaone_moe(r: Random) -> Config:
    c = windowed(r)
    return (
        c
        | _experts(r, "num_experts", moe_intermediate_size=r.randrange(4, 40))
        | maybe(r, num_shared_experts=r.randrange(1, 3))
        | _kinds(r, c["num_hidden_layers"])
    )


def hy_v3(r: Random) -> Config:
    c = free(r)
    return (
        c
        | _experts(r, "num_experts", moe_intermediate_size=r.randrange(4, 40))
        | maybe(r, num_shared_experts=r.randrange(1, 3))
        | _kinds(r, c["num_hidden_layers"])
    )


def solar_open(r: Random) -> Config:
    c = plain(r)
    c.pop("intermediate_size")
    return (
        c
        | _experts(r, "n_routed_experts", moe_intermediate_size=r.randrange(4, 40))
        | maybe(r, n_shared_experts=r.randrange(1, 3), head_dim=16)
    )


def mellum(r: Random) -> Config:
    c = windowed(r)
    return (
        c
        | _experts(r, "num_local_experts", moe_intermediate_size=r.randrange(4, 40))
        | _kinds(r, c["num_hidden_layers"])
    )


def afmoe(r: Random) -> Config:
    c = windowed(r)
    return (
        c
        | _experts(r, "num_experts", moe_intermediate_size=r.randrange(4, 40))
        | maybe(
            r,
            num_dense_layers=r.randrange(0, c["num_hidden_layers"]),
            num_shared_experts=r.randrange(1, 3),
            global_attn_every_n_layers=r.choice([2, 3, 4]),
        )
    )


def glm_moe_dsa(r: Random) -> Config:
    c = deepseek(r) | {
        "q_lora_rank": r.choice([16, 32]),
        "index_n_heads": r.choice([2, 4]),
        "index_head_dim": 16,
        "index_topk": 64,
    }
    c.pop("first_k_dense_replace")
    n = c["num_hidden_layers"]
    picks = ["full", *(r.choice(["full", "shared"]) for _ in range(n - 1))]
    return (
        c | _kinds(r, n) | r.choice([{}, {"indexer_types": picks}, {"index_topk_freq": 2, "index_skip_topk_offset": 1}])
    )


def deepseek_v4(r: Random) -> Config:
    groups, width, n = r.choice([1, 2, 4]), r.choice([8, 16, 24]), r.randrange(2, 6)
    experts = r.randrange(2, 9)
    kinds = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    return {
        "vocab_size": r.randrange(100, 900),
        "hidden_size": r.choice([16, 32, 48]),
        "moe_intermediate_size": r.randrange(4, 60),
        "num_hidden_layers": n,
        "num_attention_heads": groups * r.randrange(1, 4),
        "head_dim": width,
        "qk_rope_head_dim": width // 4 * 2,
        "q_lora_rank": r.choice([16, 24]),
        "o_lora_rank": r.choice([8, 12]),
        "o_groups": groups,
        "n_routed_experts": experts,
        "num_experts_per_tok": r.randrange(1, experts + 1),
        "n_shared_experts": 1,
        "index_n_heads": r.choice([2, 4]),
        "index_head_dim": r.choice([8, 16]),
        "index_topk": 8,
        "sliding_window": 16,
        "hc_mult": r.choice([2, 4]),
        "max_position_embeddings": 128,
        **r.choice(
            [
                {"layer_types": [r.choice(kinds) for _ in range(n)]},
                {"compress_ratios": [r.choice([0, 4, 128]) for _ in range(n + 1)]},
            ]
        ),
    }


def olmo_hybrid(r: Random) -> Config:
    c = plain(r)
    n = r.randrange(3, 7)
    kinds = ["linear_attention"] * n
    kinds[r.randrange(n)] = "full_attention"
    keys = r.choice([1, 2])
    return (
        c
        | {"num_hidden_layers": n, "layer_types": kinds, "pad_token_id": 0}
        | {
            "linear_num_key_heads": keys,
            "linear_num_value_heads": keys,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": r.choice([16, 32]),
        }
        | maybe(r, linear_conv_kernel_dim=r.choice([2, 4]))
    )


def gpt_neo(r: Random) -> Config:
    n, _, h = heads(r)
    pairs = r.randrange(1, 4)
    return {
        "vocab_size": r.randrange(100, 900),
        "hidden_size": n * h,
        "num_heads": n,
        "num_layers": 2 * pairs,
        "attention_types": [[["global", "local"], pairs]],
        "max_position_embeddings": 64,
    } | maybe(r, intermediate_size=r.choice([None, 52]), window_size=16)


def gpt(r: Random) -> Config:
    n, _, h = heads(r)
    return {
        "vocab_size": r.randrange(100, 900),
        "n_embd": n * h,
        "n_layer": r.randrange(1, 6),
        "n_head": n,
        "n_positions": 64,
    }


def inner(r: Random) -> Config:
    return gpt(r) | maybe(r, n_inner=r.choice([None, 60]))


def codegen(r: Random) -> Config:
    c = inner(r)
    c["n_head"] = 4
    c["n_embd"] = 4 * r.choice([16, 24])
    return c | {"rotary_dim": 8}


def xglm(r: Random) -> Config:
    n, _, h = heads(r)
    return {
        "vocab_size": r.randrange(100, 900),
        "d_model": n * h,
        "attention_heads": n,
        "num_layers": r.randrange(1, 6),
        "ffn_dim": 44,
        "max_position_embeddings": 64,
        "pad_token_id": 1,
    }


def biogpt(r: Random) -> Config:
    c = common(r, free_dim=False)
    c.pop("num_key_value_heads")
    return c


def granite_swa(r: Random) -> Config:
    return windowed(r) | maybe(r, attention_bias=coin(r), mlp_bias=coin(r))


def granitemoe_swa(r: Random) -> Config:
    return granitemoeshared(r) | maybe(r, sliding_window=16)


def hyperclovax(r: Random) -> Config:
    return free(r) | maybe(r, use_post_norm=coin(r))


def internlm3(r: Random) -> Config:
    bias = coin(r)
    return common(r, free_dim=False) | {"head_dim": None} | maybe(r, 1.0 if bias else 0.5, qkv_bias=bias, bias=bias)


def cohere2_moe(r: Random) -> Config:
    c = windowed(r)
    return (
        c
        | _experts(r, "num_experts", prefix_dense_intermediate_size=r.randrange(4, 60))
        | maybe(
            r,
            attention_bias=coin(r),
            num_shared_experts=r.randrange(0, 3),
            first_k_dense_replace=r.randrange(0, c["num_hidden_layers"] + 1),
            rms_norm_eps=r.choice([None, 1e-5]),
        )
    )


def mimo_v2_flash(r: Random) -> Config:
    kv = r.choice([1, 2])
    c = windowed(r) | {"num_key_value_heads": kv, "num_attention_heads": 2 * kv * r.choice([1, 2])}
    c |= {"head_dim": r.choice([16, 24]), "v_head_dim": r.choice([8, 16])}
    c |= _experts(r, "n_routed_experts", moe_intermediate_size=r.randrange(4, 40))
    return c | maybe(r, attention_bias=coin(r)) | _kinds(r, c["num_hidden_layers"])


def _gemma(r: Random, n: int) -> Config:
    """A Gemma of n layers with embeddings of each layer; both kinds of layer keep a cache before any is shared."""
    kinds = [r.choice(["sliding_attention", "full_attention"]) for _ in range(n)]
    kinds[:2], kinds[-1] = ["sliding_attention", "full_attention"], "full_attention"
    heads = r.choice([2, 4])
    return {
        "vocab_size": r.randrange(300, 900),
        "hidden_size": 16 * heads,
        "intermediate_size": r.randrange(20, 90),
        "num_hidden_layers": n,
        "num_attention_heads": heads,
        "num_key_value_heads": r.choice([1, 2]),
        "head_dim": r.choice([8, 16]),
        "layer_types": kinds,
        "num_kv_shared_layers": r.choice([0, r.randrange(1, n - 1)]),
        "vocab_size_per_layer_input": r.randrange(300, 400),
        "hidden_size_per_layer_input": r.choice([4, 12]),
        "sliding_window": 16,
        "max_position_embeddings": 128,
    } | maybe(r, 0.4, attention_bias=coin(r))


def gemma3n(r: Random) -> Config:
    n = r.randrange(3, 7)
    c = _gemma(r, n) | {"altup_num_inputs": r.choice([2, 4]), "laurel_rank": r.choice([4, 8])}
    return c | maybe(r, 0.5, intermediate_size=[r.randrange(20, 90) for _ in range(n)])


def gemma4(r: Random) -> Config:
    c = _gemma(r, r.randrange(3, 7))
    if not c["num_kv_shared_layers"] and coin(r):
        c["hidden_size_per_layer_input"] = 0
    mixed = {"enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 20}
    return (
        c
        | {"global_head_dim": r.choice([16, 24])}
        | (mixed if coin(r) else {})
        | maybe(
            r,
            0.5,
            attention_k_eq_v=coin(r),
            num_global_key_value_heads=r.choice([1, 2]),
            use_double_wide_mlp=coin(r),
        )
    )


def hy_v4(r: Random) -> Config:
    c = {k: v for k, v in glm_moe_dsa(r).items() if not k.startswith("index_topk_") and k != "index_skip_topk_offset"}
    return c | {"n_shared_experts": 1, "hc_mult": r.choice([2, 4]), "pad_token_id": 0}


def gemma4_unified(r: Random) -> Config:
    return {k: v for k, v in gemma4(r).items() if "per_layer" not in k and "expert" not in k and "moe" not in k}


def sarvam_mla(r: Random) -> Config:
    c = deepseek(r)
    if coin(r):
        c |= {"num_experts": c.pop("n_routed_experts"), "num_shared_experts": c.pop("n_shared_experts", 1)}
    return c


def lara_mini(r: Random) -> Config:
    n = r.randrange(1, 8)
    kinds = ["linear_attention", "sliding_attention", "full_attention"]
    keys = r.choice([1, 2, 4])
    c = common(r) | _experts(r, "num_experts", moe_intermediate_size=r.randrange(4, 40)) | {"num_hidden_layers": n}
    c.pop("intermediate_size")
    return (
        c
        | {
            "head_dim": r.choice([8, 16]),
            "num_key_value_heads": 1,
            "linear_num_key_heads": keys,
            "linear_num_value_heads": keys * r.choice([1, 2]),
            "linear_key_head_dim": 16,
            "linear_value_head_dim": r.choice([8, 16]),
            "shared_expert_intermediate_size": r.randrange(4, 40),
        }
        | maybe(
            r,
            attention_bias=coin(r),
            layer_types=[r.choice(kinds) for _ in range(n)],
            linear_conv_kernel_dim=r.choice([2, 3]),
            sliding_window=r.choice([16, 32]),
        )
    )


GENERATORS = {
    "apertus": plain, "bitnet": plain, "dbrx": dbrx, "mpt": mpt, "olmo": plain, "nanochat": plain, "helium": helium, "jais2": free,
    "cwm": cwm, "vaultgemma": windowed, "minicpm3": minicpm3, "youtu": latent, "phimoe": phimoe, "granitemoe": granitemoe,
    "granitemoeshared": granitemoeshared, "flex_olmo": flex_olmo, "dots1": dots1, "exaone_moe": exaone_moe, "hy_v3": hy_v3,
    "solar_open": solar_open, "mellum": mellum, "afmoe": afmoe, "glm_moe_dsa": glm_moe_dsa, "olmo_hybrid": olmo_hybrid,
    "gpt_neo": gpt_neo, "codegen": codegen, "gpt-sw3": inner, "openai-gpt": gpt, "xglm": xglm, "biogpt": biogpt, "iquestcoder": free,
    "granite_swa": granite_swa, "granitemoe_swa": granitemoe_swa, "hyperclovax": hyperclovax, "internlm3": internlm3,
    "cohere2_moe": cohere2_moe, "mimo_v2_flash": mimo_v2_flash, "gemma3n_text": gemma3n, "gemma4_text": gemma4, "deepseek_v4": deepseek_v4,
    "apertus1p5_text": plain, "exaone": unbiased, "sarvam_mla": sarvam_mla, "sarvam_moe": glm4_moe, "lara_mini": lara_mini,
    "gemma4_unified_text": gemma4_unified, "hy_v4": hy_v4,
}  # fmt: skip
# Types whose forward pass torch counts otherwise than matmul by matmul: parameters alone (a mixer of its own; an indexer that
# looks at every key; experts that no 'batched_mm' reaches; streams mixed by coefficients)
UNCOUNTED = ("olmo_hybrid", "glm_moe_dsa", "dbrx", "gemma3n_text", "deepseek_v4", "lara_mini", "hy_v4")


def cases(seed: int = 20261123) -> list[Config]:
    """PER_TYPE configs of each type, the same ones every time."""
    return [
        {"model_type": name, **make(rng)}
        for name, make in GENERATORS.items()
        for rng in [Random(f"{seed}:{name}")]
        for _ in range(PER_TYPE)
    ]


def refresh() -> None:
    import transformers
    from refresh import measure

    rows = []
    for config in cases():
        try:
            row = {"config": config, **measure(config, flops=config["model_type"] not in UNCOUNTED)}
            if config["model_type"] == "dbrx":  # whose experts stand in one matrix of two axes
                f = config["ffn_config"]
                expert = 3 * f["ffn_hidden_size"] * config["d_model"] * config["n_layers"]
                row["active"] = row["total"] - expert * (f["moe_num_experts"] - f["moe_top_k"])
            rows.append(row)
        except Exception as error:
            print(f"{config['model_type']}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    GOLDEN.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(rows)} cases -> {GOLDEN}", file=sys.stderr)


if __name__ == "__main__":
    refresh()
