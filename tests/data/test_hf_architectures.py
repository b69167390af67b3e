"""Architectures of 2025 and 2026 read from their configs: compressed attention behind a window, residual streams, layers searched one
by one, indexers that layers share, a tower with a budget of patches. Counts are those of transformers 5.23 on the meta device."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.core.errors import DataError
from rooflinecli.core.lift import PLAIN
from rooflinecli.engine.stored_weights import checkpoint_format
from rooflinecli.formulas import attention
from rooflinecli.importers.hf import from_config
from rooflinecli.importers.hf.blocks import stack
from rooflinecli.layers.build import ledger
from rooflinecli.layers.images import patch_budget
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.ledger.mixer import CountingMode
from rooflinecli.memory import kv_cache
from rooflinecli.quantization.formats import formats
from rooflinecli.questions.models.answer import sheet
from rooflinecli.render.answer import render
from rooflinecli.render.views import models as views
from rooflinecli.specs.document import Document
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ImageSpec, model_from

BF16 = formats("bf16", None, None, {"bf16": 1}, "any")
V4_FLASH = {
    "model_type": "deepseek_v4",
    "hidden_size": 4096,
    "num_hidden_layers": 43,
    "num_attention_heads": 64,
    "head_dim": 512,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "q_lora_rank": 1024,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "sliding_window": 128,
    "hc_mult": 4,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "vocab_size": 129280,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "expert_dtype": "fp4",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def of(config):
    """The model of a config."""
    return model_from(Document(from_config(config), Path("config.json"), {(): ("config.json", 1)}))


def test_deepseek_v4_to_the_unit():
    """284,332,230,231: transformers 5.23, DeepseekV4ForCausalLM of deepseek-ai/DeepSeek-V4-Flash on the meta device."""
    assert parameters(of(V4_FLASH)).total == 284_332_230_231


def test_its_layers_are_written_as_a_person_would():
    assert [group["repeat"] for group in from_config(V4_FLASH)["layers"]] == [2, 20, 1]


def test_its_cache_is_the_window_and_the_entries():
    """2 layers of 128 rows, 21 of 128 + T/4 with an indexer's T/4 of 128, 20 of 128 + T/128; rows of 512 values, key and value one."""
    tokens = 8192
    rows = 43 * 128 + 21 * tokens // 4 + 20 * tokens // 128
    expected = 2 * (rows * 512 + 21 * tokens // 4 * 128)
    spec = of(V4_FLASH)
    held = kv_cache(ledger(spec), Layout(), BF16, 1.0, float(tokens), PLAIN)
    assert held == expected


def test_its_experts_weigh_four_bits_and_the_rest_eight():
    """43 x 256 experts of 3 x 4096 x 2048 at 4.25 bits; scales of 32 bits per 128 x 128 elsewhere; embedding and head 16 bits."""
    spec = of(V4_FLASH)
    widths = checkpoint_format(spec).widths
    assert widths.experts == 4.25 / 8
    assert 1.0 < widths.layers < 1.05
    assert widths.head == 2.0


@given(
    n=st.integers(1, 400),
    rate=st.sampled_from([1, 3, 4, 16, 128]),
    most=st.sampled_from([1, 2, 7, 512, math.inf]),
)
def test_pairs_of_entries_are_the_sum_over_queries(n, rate, most):
    expected = sum(min(t // rate, most) for t in range(1, n + 1))
    assert attention.compressed_pairs(float(n), float(rate), float(most)) == expected


def test_without_a_rate_there_are_no_entries():
    assert attention.compressed_pairs(4096.0, math.inf, math.inf) == 0


def _op(ops, name):
    return next(op for op in ops if op.name == name)


def _mixer(kind):
    """One layer's mixer, its sizes, of V4 Flash: 0 window alone, 1 with an indexer, 2 heavily compressed."""
    layer = ledger(of(V4_FLASH)).layers[kind]
    return layer.mixer, layer.sizes({**layer.axes, "B": 2.0, "S": 1.0, "T": 8192.0, "Z": 1.0, "O": 1.0})


@pytest.mark.parametrize(("kind", "keys"), [(0, 128), (1, 128 + 512), (2, 128 + 64)])
def test_a_decode_step_reads_the_window_and_what_it_picked(kind, keys):
    mode = CountingMode(BF16, decode=True)
    mixer, sizes = _mixer(kind)
    ops = mixer.ops("attention.core", mode, sizes)
    core = _op(ops, "attention.core")
    assert core.k == keys
    assert core.flops == 2 * 2 * 64 * keys * 2 * 512
    assert core.bytes == 2 * (2 * keys * 512 + 2 * 64 * 2 * 512)
    picks = [op for op in ops if op.name == "attention.index_scores"]
    if kind != 1:
        assert not picks
        return
    entries = 8192 // 4
    assert picks[0].flops == 2 * 2 * 64 * entries * 129
    assert picks[0].bytes == 2 * 2 * (entries + 64) * 128 + 2 * 512 * 4


@pytest.mark.parametrize(("kind", "extra"), [(0, 0), (1, "sparse"), (2, "heavy")])
def test_a_prompt_scores_the_pairs_that_are_seen(kind, extra):
    mode = CountingMode(BF16)
    mixer, sizes = _mixer(kind)
    s = 4096
    sizes |= {"S": float(s), "T": float(s), "B": 1.0}
    window = 128 * 128 / 2 + (s - 128) * 128
    behind = {
        0: 0,
        "sparse": sum(min(t // 4, 512) for t in range(1, s + 1)),
        "heavy": sum(t // 128 for t in range(1, s + 1)),
    }[extra]
    core = 2 * 64 * (window + behind) * 1024
    ranked = 2 * 64 * 129 * sum(t // 4 for t in range(1, s + 1)) if kind == 1 else 0
    assert mixer.flops(mode, sizes) == pytest.approx(core + ranked, rel=1e-12)
    ops = mixer.ops("attention.core", mode, sizes)
    assert sum(op.flops for op in ops) == pytest.approx(core + ranked, rel=1e-12)


def test_streams_are_read_mixed_and_sent():
    """Four streams: 2 x (24 x 4 x 4096 + 24 + 3) parameters a layer, four times the width between pipeline stages."""
    book = ledger(of(V4_FLASH))
    rows = {row.name: row for row in book.layers[0].rows}
    sizes = book.layers[0].axes
    held = sum(
        math.prod(sizes[a] for a in axes)
        for name, row in rows.items()
        if name.startswith("streams.")
        for axes in row.params
    )
    assert held == 2 * (24 * 4 * 4096 + 24 + 3)
    assert book.spec.stream_width == 4 * 4096
    wide = {**sizes, "B": 1, "Z": 1}
    moved = [math.prod(wide[a] for a in axes) for axes in (*rows["residual"].reads, *rows["residual"].writes)]
    assert sum(moved) == 2 * (4 + 1 + 4) * 4096


def test_a_layer_that_shares_picked_keys_has_no_indexer():
    """transformers: GlmMoeDsaAttention.indexer is None on layers called shared; their cache has no keys of an indexer."""
    base = {
        "model_type": "glm_moe_dsa",
        "num_hidden_layers": 4,
        "mlp_layer_types": ["dense"] * 4,
        "hidden_size": 64,
        "intermediate_size": 96,
    }
    full, shared = (of({**base, "indexer_types": ["full", kind, kind, kind]}) for kind in ("full", "shared"))
    indexer = 32 * 128 * 2048 + 64 * 128 + 2 * 128 + 64 * 32
    assert parameters(full).total - parameters(shared).total == 3 * indexer
    bytes_full, bytes_shared = (
        sum(layer.mixer.cache_bytes(BF16, layer.axes, 1.0, 100.0) * layer.repeat for layer in ledger(spec).layers)
        for spec in (full, shared)
    )
    assert bytes_full - bytes_shared == 3 * 100 * 128 * 2


@pytest.mark.parametrize("types", [["shared", "full"], ["full"], ["full", "half"]])
def test_who_picks_must_be_said_for_every_layer(types):
    with pytest.raises(DataError, match="indexer_types"):
        from_config({"model_type": "glm_moe_dsa", "num_hidden_layers": 2, "indexer_types": types})


def _searched(**blocks):
    return {
        "model_type": "nemotron-nas",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_hidden_layers": 3,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "block_configs": [
            {"attention": {"n_heads_in_group": 4, "no_op": False}, "ffn": {"ffn_mult": 2.625, "no_op": False}},
            {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 1.0, "no_op": False}},
            {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": None, "no_op": True}},
        ],
        **blocks,
    }


def test_layers_searched_one_by_one():
    """Widths are two thirds of ffn_mult x 512 in multiples of 256: 1024 and 512; what is left out takes its norm along."""
    d, head = 512, 64
    first = d * d + 2 * d * 2 * head + d * d + 3 * d * 1024 + 2 * d
    second = 3 * d * 512 + d
    third = d * d + 2 * d * 1 * head + d * d + d
    assert parameters(of(_searched())).total == first + second + third + 2 * 1000 * d + d


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"block_configs": None}, "block_configs"),
        ({"block_configs": [{}] * 3}, "attention"),
        ({"block_configs": [{"attention": {"n_heads_in_group": 3}, "ffn": {"no_op": True}}] * 3}, "divisor"),
        ({"block_configs": [{"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}}] * 3}, "full blocks"),
        ({"block_configs": [{"attention": {"no_op": True}, "ffn": {"ffn_mult": -1}}] * 3}, "ffn_mult"),
    ],
)
def test_what_a_search_may_not_leave(change, says):
    with pytest.raises(DataError, match=says):
        from_config(_searched(**change))


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1024, 768, 37 * 28),  # 1024/28 and 768/28 rounded up
        (28, 28, 1),
        (1, 1, 1),
        (4000, 4000, 65 * 65),  # 285 x 285 patches: scaled by 128/285 to 1796 pixels, padded to 65 x 28
        (20000, 20, 256),  # 1428 patches across: 512 a side, scaled to 7168 x 7 pixels
    ],
)
def test_images_shrink_to_a_budget_of_patches(width, height, tokens):
    """navit_resize of transformers 5.23, image_processing_kimi_k25.py: 16,384 patches of 14 pixels, 512 a side."""
    spec = ImageSpec(kind="patch-budget", patch=14, merge=2, most=16384 * 14**2, size=512 * 14)
    found = patch_budget(spec, width, height)
    assert (found.inputs, found.tokens, found.positions) == (1, tokens, 4 * tokens)


KIMI = {
    "model_type": "kimi_k25",
    "text_config": {
        "model_type": "kimi_k2",
        "n_routed_experts": 384,
        "num_attention_heads": 64,
        "first_k_dense_replace": 1,
        "vocab_size": 163840,
    },
    "vision_config": {"model_type": "", "vt_hidden_size": 1152},
    "tie_word_embeddings": False,
}


def test_kimi_with_its_tower_to_the_unit():
    """1,026,879,353,328: transformers 5.23, Kimi_K25ForConditionalGeneration of moonshotai/Kimi-K2.5 on the meta device."""
    assert parameters(of(KIMI)).total == 1_026_879_353_328


def test_the_decoder_of_hy4_to_the_unit():
    """769,907,389,085: transformers 5.24, HYV4VLForConditionalGeneration of its defaults on the meta device, without the vision tower."""
    spec = of({"model_type": "hy_v4_vl_text"})
    assert parameters(spec).total == 769_907_389_085
    assert spec.independent_streams and spec.streams == 4
    rows = {row.name for row in ledger(spec).layers[0].rows}
    assert {"attention.gate_in", "attention.gate", "streams.1.weights"} <= rows


def test_repeats_are_found_behind_what_comes_first():
    a, b, c = {"norms": 1}, {"norms": 2}, {"norms": 3}
    assert stack([a, a, b, c, b, c, b, c, b]) == [
        {"repeat": 2, "norms": 1},
        {"repeat": 3, "pattern": [{"norms": 2}, {"norms": 3}]},
        {"repeat": 1, "norms": 2},
    ]


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # Qwen/Qwen3-Coder-480B-A35B-Instruct, Qwen/Qwen3.5-27B and nvidia/Nemotron-H-56B write fields that their classes do not read
        (
            {
                "model_type": "qwen3_moe",
                "hidden_size": 6144,
                "head_dim": 128,
                "num_attention_heads": 96,
                "num_key_value_heads": 8,
                "num_hidden_layers": 62,
                "num_experts": 160,
                "num_experts_per_tok": 8,
                "moe_intermediate_size": 2560,
                "use_qk_norm": True,
                "shared_expert_intermediate_size": 0,
                "mlp_only_layers": [],
            },
            480_154_875_392,
        ),
    ],
)
def test_fields_that_other_loaders_write(config, total):
    """The count of transformers 5.23 on the meta device."""
    assert parameters(of(config)).total == total


def test_mimo_is_qwen2_whatever_it_predicts_beside():
    """XiaomiMiMo/MiMo-7B-Base: 36 layers of 4096, biases on q, k and v."""
    config = {
        "model_type": "mimo",
        "hidden_size": 4096,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 11008,
        "vocab_size": 151680,
        "attention_bias": True,
        "num_nextn_predict_layers": 1,
    }
    d, wide = 4096, 6144  # q, k and v side by side
    layer = d * wide + wide + d * d + 3 * d * 11008 + 2 * d
    assert parameters(of(config)).total == 36 * layer + 2 * 151680 * d + d
    with pytest.raises(DataError, match="attention_bias"):
        from_config({**config, "attention_bias": False})


@pytest.mark.parametrize("change", [{"shared_expert_intermediate_size": 512}, {"use_qk_norm": False}])
def test_and_that_would_change_the_model(change):
    with pytest.raises(DataError, match="fix model_type"):
        from_config({"model_type": "qwen3_moe", **change})


def test_modelopt_without_its_name():
    found = from_config({"model_type": "qwen3", "quantization_config": {"quant_algo": "FP8", "ignore": ["lm_head"]}})
    assert found["quantization"] == {
        "applies_to": "linear",
        "dtype": "fp8",
        "scale_bits": 0,
        "tensor_bits": 64,
        "kept": ["lm_head"],
    }


def test_experts_in_another_format_are_known_or_refused():
    with pytest.raises(DataError, match="expert_dtype"):
        from_config({**V4_FLASH, "expert_dtype": "fp6"})


@pytest.mark.parametrize("kind", ["kimi_k3", "xlstm"])
def test_what_is_not_read_says_why(kind):
    with pytest.raises(DataError, match="is not supported: its"):
        from_config({"model_type": kind})


def test_a_page_names_each_kind_of_layer_once(tmp_path):
    path = tmp_path / "v4" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(V4_FLASH))
    text = render(sheet(str(path)), views.sheet, "table", 120)
    assert text.count("layers of one kind") == 3
    assert "21 x 6.60B" in text
    assert "experts: dtype mxfp4" in text


M3 = {
    "model_type": "minimax_m3",
    "max_position_embeddings": 1048576,
    "moe_layer_freq": [0] * 3 + [1] * 57,
    "sparse_attention_config": {
        "sparse_attention_freq": [0] * 3 + [1] * 57,
        "sparse_block_size": 128,
        "sparse_index_dim": 128,
        "sparse_num_index_heads": 4,
        "sparse_topk_blocks": 16,
        "use_sparse_attention": True,
    },
}
M3_VL = {
    "model_type": "minimax_m3_vl",
    "text_config": M3 | {"model_type": "minimax_m3_vl_text"},
    "vision_config": {"model_type": "clip_vision_model"},
    "projector_hidden_size": 6144,
}


@pytest.mark.parametrize(("config", "total"), [(M3, 426_174_565_632), (M3_VL, 427_040_132_864)])
def test_minimax_m3_to_the_unit(config, total):
    """transformers 5.23, MiniMaxM3VLTextModel with its head and MiniMaxM3SparseForConditionalGeneration on the meta device."""
    assert parameters(of(config)).total == total


def test_blocks_that_are_picked_are_all_a_step_reads():
    """16 blocks of 128 keys for each of 4 key/value heads; the indexer's 4 heads look at every key, without a weight."""
    layer = ledger(of(M3)).layers[1]
    t = 65536.0
    sizes = layer.sizes({**layer.axes, "B": 1.0, "S": 1.0, "T": t, "Z": 1.0, "O": 1.0})
    ops = layer.mixer.ops("attention.core", CountingMode(BF16, decode=True), sizes)
    core, scores = _op(ops, "attention.core"), _op(ops, "attention.index_scores")
    assert core.flops == 2 * 64 * 2048 * (128 + 128)
    assert scores.flops == 2 * 4 * t * 128
    cache = layer.mixer.cache_bytes(BF16, layer.axes, 1.0, t)
    assert cache == 2 * t * (4 * 128 * 2 + 128)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layer_types": ["sliding_attention"] * 60}, "layer_types"),
        ({"sparse_attention_config": {"use_sparse_attention": False}}, "use_sparse_attention"),
        ({"attention_output_gate": True}, "gate"),
        ({"n_shared_experts": 2}, "one shared expert"),
    ],
)
def test_what_minimax_m3_may_not_be(change, says):
    with pytest.raises(DataError, match=says):
        from_config({**M3, **change})


def test_the_bytes_of_its_layers_by_hand():
    """fp8 projections with a 32-bit scale per 128 x 128, the router, norms, sinks, streams and biases of entries in 16 bits."""
    spec = of({**V4_FLASH, "num_hidden_layers": 1, "compress_ratios": [4], "n_shared_experts": 1})
    d, h, n, q, g, ro, f = 4096, 512, 64, 1024, 8, 1024, 2048
    linear = [
        (d, q, 1),
        (q, n * h, 1),
        (d, h, 1),
        (d, 2 * h, 1),
        (d, 2 * h, 1),
        (d, 256, 1),
        (d, 256, 1),
        (q, 64 * 128, 1),
        (d, 64, 1),
    ]
    linear += [(n // g * h, ro, g), (g * ro, d, 1), (d, f, 1), (d, f, 1), (f, d, 1)]
    narrow = sum(c * (i * o + 4 * math.ceil(i / 128) * math.ceil(o / 128)) for i, o, c in linear)
    weights = sum(c * i * o for i, o, c in linear)
    params = parameters(spec).total - 2 * 129280 * d - 256 * 3 * d * f
    outer = d + 4 * 4 * d + 4 + 1  # the last norm and the weights of the last mixing
    inner = params - outer
    assert checkpoint_format(spec).widths.layers == pytest.approx((narrow + 2 * (inner - weights)) / inner, rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"swa_num_key_value_heads": 4},
        {"swa_head_dim": 128},
        {"add_full_attention_sink_bias": True},
        {"add_swa_attention_sink_bias": False},
        {"hybrid_layer_pattern": [0, 1]},
    ],
)
def test_what_the_hub_says_of_mimo_v2_is_what_its_class_makes(change):
    with pytest.raises(DataError, match=next(iter(change))):
        from_config({"model_type": "mimo_v2_flash", "num_key_value_heads": 4, **change})


def test_mimo_v2_by_its_names_on_the_hub():
    """hybrid_layer_pattern and moe_layer_freq list what the class has by default; other places of both are followed."""
    usual = from_config({"model_type": "mimo_v2_flash"})
    pattern = [0 if i == 0 or not (i + 1) % 6 else 1 for i in range(48)]
    said = {
        "hybrid_layer_pattern": pattern,
        "moe_layer_freq": [0] + [1] * 47,
        "swa_head_dim": 192,
        "attention_chunk_size": 128,
    }
    assert from_config({"model_type": "mimo_v2_flash", **said})["layers"] == usual["layers"]
    other = from_config({"model_type": "mimo_v2_flash", **said, "moe_layer_freq": [0, 0] + [1] * 46})
    assert other["layers"] != usual["layers"]
