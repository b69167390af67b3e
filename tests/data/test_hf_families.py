"""Wrappers, decoders and encoders of tests/oracle/dense_families.py against what transformers builds: parameters and forward FLOPs, to the unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.core.lift import PLAIN
from rooflinecli.importers.hf import TYPES, WRAPPED, from_config, refused
from rooflinecli.layers.build import ledger
from rooflinecli.layers.images import anyres, image_splitting
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.forward import ForwardPass, ledger_flops
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.document import Document
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ImageSpec, model_from

pytestmark = pytest.mark.sampled(100)  # each set is a case of its own

ROOT = Path(__file__).resolve().parents[1]
CASES = json.loads((ROOT / "oracle" / "golden_dense_families.json").read_text(encoding="utf-8"))["cases"]
BY_TYPE: dict[str, list] = {}
for case in CASES:
    BY_TYPE.setdefault(case["config"]["model_type"], []).append(case)


def spec_of(config: dict):
    return model_from(Document(from_config(config), Path("config.json")))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", sorted(BY_TYPE))
def test_parameters(kind):
    for row in BY_TYPE[kind]:
        assert parameters(spec_of(row["config"])).total == row["total"], row["config"]
    assert len(BY_TYPE[kind]) >= 3


@pytest.mark.parametrize(
    "kind", sorted(kind for kind, rows in BY_TYPE.items() if any("forward_flops" in row for row in rows))
)
def test_forward_flops(kind):
    """Two sequences of 16 tokens, attention counted over every pair of tokens."""
    forward = ForwardPass(formats("bf16", None, None, {"bf16": 1}, "any"), full_attention=True)
    for row in BY_TYPE[kind]:
        spec = spec_of(row["config"])
        assert parameters(spec).active == row["active"], row["config"]
        assert ledger_flops(ledger(spec), forward, PLAIN, 2.0, 16.0, 16.0, 16.0) == row["forward_flops"], row["config"]


def test_every_type_is_read_or_refused_for_a_reason():
    """No type both read and refused; a type is refused in a sentence, with a remedy."""
    assert not set(refused()) & (set(TYPES) | set(WRAPPED))
    assert len(TYPES) + len(WRAPPED) + len(refused()) > 600  # as many as transformers 5.24 has
    for kind in (
        "wav2vec2",
        "resnet",
        "blip-2",
        "qwen3_vl_vision",
        "timesfm",
        "data2vec-audio",
        "aria",
        "dory",
        "omniasr",
    ):
        with pytest.raises(DataError, match=f"'{kind}' is not supported: .*; write the model as YAML"):
            from_config({"model_type": kind})


@pytest.mark.slow
def test_all_types_of_transformers_are_known():
    auto = pytest.importorskip("transformers.models.auto.configuration_auto")
    left = set(auto.CONFIG_MAPPING_NAMES) - set(TYPES) - set(WRAPPED) - set(refused())
    assert not left


def test_a_head_of_fewer_rows_than_the_embedding_is_refused():
    assert spec_of({"model_type": "apertus1p5_text", "num_hidden_layers": 2, "output_vocab_size": None}).n_layers == 2
    with pytest.raises(DataError, match="output_vocab_size: '131272' is not supported; a head of fewer rows"):
        from_config({"model_type": "apertus1p5_text", "output_vocab_size": 131272})


def test_an_error_names_the_field_that_the_file_has():
    with pytest.raises(DataError, match="here:num_layers: num_layers: expected a whole number, got 'x'"):
        from_config({"model_type": "exaone", "num_layers": "x"}, lambda *path: "here:" + ".".join(path))


def test_layers_of_lara_mini():
    """A period of five: two scans, two windows of 512 with rotary positions, one full attention without."""
    layers = spec_of({"model_type": "lara_mini", "num_hidden_layers": 5})
    found = [layers.layers[group].attention for group in layers.order]
    assert [(a.kind, a.window, a.rotary) for a in found if a.kind == "gqa"] == [
        ("gqa", 512, True), ("gqa", None, False), ("gqa", 512, True)
    ]  # fmt: skip
    assert [a.kind for a in found].count("gated-delta") == 2
    with pytest.raises(DataError, match="'conv' is not a supported layer kind"):
        from_config({"model_type": "lara_mini", "num_hidden_layers": 1, "layer_types": ["conv"]})


def test_empty_experts_are_no_work():
    """LongCat-Flash: 12 of 768 chosen, 256 of which are empty: 8 compute; two latent attentions and two MLPs a layer."""
    config = {
        "model_type": "longcat_flash", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "ffn_hidden_size": 96, "expert_ffn_hidden_size": 32, "vocab_size": 100,
    }  # fmt: skip
    spec = spec_of(config)
    assert spec.n_layers == 4
    moe = next(g.feedforward for g in spec.layers if g.feedforward.kind == "moe")
    assert (moe.n_experts, moe.top_k, moe.shared_d_ff) == (512, 8, 96)
    assert any("256 of 768 experts compute nothing" in note for note in spec.notes)
    with pytest.raises(DataError, match="qk_head_dim"):
        from_config({**config, "qk_head_dim": 24})
    one, work = formats("bf16", None, None, {"bf16": 1}, "any"), pass_axis_sizes(1.0, 1.0, 1.0, 1.0, Layout())
    cached = sum(
        g.repeat * g.mixer.cache_bytes(one, layer_sizes(g, work, Layout(), None, PLAIN), 1.0, 100.0)
        for g in ledger(spec).layers
    )
    assert cached == 4 * 100 * (16 + 8) * 2


def test_a_published_count():
    """Step-3.5-Flash: 196 B in all, 11 B of them active (the model card of stepfun-ai/Step-3.5-Flash)."""
    kinds = ["full_attention" if i % 4 == 0 else "sliding_attention" for i in range(45)]
    heads = {"num_attention_heads": 64, "num_sliding_attention_heads": 64, "head_dim": 128}
    counted = parameters(
        spec_of({"model_type": "step3p5", "layer_types": kinds, "sliding_window": 512, "vocab_size": 128896, **heads})
    )
    assert round(counted.total / 1e9) == 196 and round(counted.active / 1e9) == 11


NEXT = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]


@pytest.mark.parametrize(
    ("width", "height", "inputs", "tokens"),
    [
        (672, 672, 5, 576 + 48 * 48 + 48),  # two by two tiles, and the whole: 2,928 in all
        (1000, 500, 3, 576 + 24 * 48 + 24),
        (500, 1000, 3, 576 + 48 * 24 + 48),
        (900, 600, 5, 576 + 32 * 48 + 32),  # 900 x 600 fills 672 x 448 of the square: 16 rows of patches are padding
    ],
)
def test_tiles_of_llava_next(width, height, inputs, tokens):
    spec = ImageSpec(kind="anyres", patch=14, size=336, extra=1, tokens=576, grids=NEXT)
    found = anyres(spec, width, height)
    assert (found.inputs, found.positions, found.tokens) == (inputs, 577, tokens)


def test_onevision_scales_down_what_is_over_its_tiles():
    """Six by six tiles of 27 patches are 26,244; nine tiles' worth is 81 x 81."""
    grids = [[384 * i, 384 * j] for i in range(1, 7) for j in range(1, 7)]
    spec = ImageSpec(kind="anyres", patch=14, size=384, tokens=729, grids=grids, tiles=9)
    assert anyres(spec, 2304, 2304).tokens == 729 + 81 * 81 + 81
    assert anyres(spec, 384, 384).tokens == 729 + 27 * 27 + 27


@pytest.mark.parametrize(("width", "height", "inputs", "tokens"), [(1456, 1456, 17, 16 * 171 + 4 + 169 + 4), (1456, 364, 5, 4 * 171 + 1 + 169 + 4), (100, 400, 5, 4 * 171 + 4 + 169 + 4)])  # fmt: skip
def test_tiles_of_idefics3(width, height, inputs, tokens):
    """The longer side goes to 1,456 pixels, four tiles of 364 with 169 tokens each."""
    found = image_splitting(
        ImageSpec(kind="image-splitting", patch=14, size=364, merge=2, most=1456, tokens=169), width, height
    )
    assert (found.inputs, found.positions, found.tokens) == (inputs, 676, tokens)


def windows_of(config: dict) -> list[int | None]:
    """The window of each layer, in order."""
    spec = spec_of(config)
    return [spec.layers[group].attention.window for group in spec.order]


def test_a_layer_is_full_by_either_name():
    """Files of transformers 4 call a layer of full attention `attention`."""
    kinds = ["attention", "sliding_attention", "full_attention"]
    shapes = {"num_hidden_layers": 3, "layer_types": kinds, "sliding_window": 128, "use_sliding_window": True}
    assert windows_of({"model_type": "qwen2", **shapes}) == [None, 128, None]


W = 64


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        # transformers: full below max_window_layers, a window from that layer on; none without use_sliding_window
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 3}, [None, None, None, W, W, W]),
        ({"model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 1}, [None, W, W, W, W, W]),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 0}, [W] * 6),
        ({"model_type": "qwen2", "use_sliding_window": False, "max_window_layers": 3}, [None] * 6),
        ({"model_type": "qwen2"}, [None] * 6),
        # every second layer, and of those only the ones below max_window_layers
        (
            {"model_type": "qwen2_moe", "use_sliding_window": True, "max_window_layers": 4},
            [W, None, W, None, None, None],
        ),
        ({"model_type": "mistral"}, [W] * 6),
        ({"model_type": "mistral", "sliding_window": None}, [None] * 6),
        ({"model_type": "gemma2"}, [W, None, W, None, W, None]),
        ({"model_type": "gpt_oss"}, [W, None, W, None, W, None]),
        ({"model_type": "olmo3"}, [W, W, W, None, W, W]),
        ({"model_type": "cohere2"}, [W, W, W, None, W, W]),
        ({"model_type": "cohere2", "sliding_window_pattern": 2}, [W, None, W, None, W, None]),
        (
            {
                "model_type": "dots1",
                "n_routed_experts": 8,
                "num_experts_per_tok": 2,
                "n_shared_experts": 1,
                "max_window_layers": 4,
            },
            [None, None, None, None, W, W],
        ),
        ({"model_type": "dots1", "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1}, [None] * 6),
    ],
    ids=str,
)
def test_which_layers_see_a_window(config, windows):
    assert windows_of({"num_hidden_layers": 6, "sliding_window": W, **config}) == windows


def test_windows_that_files_write_another_way():
    """MiMo-V2 on the Hub counts the tokens before the query; Gemma 3 both ways sees half of its window on each side, and the token itself."""
    mimo = {
        "model_type": "mimo_v2_flash",
        "num_hidden_layers": 2,
        "layer_types": ["full_attention", "sliding_attention"],
    }
    assert windows_of({**mimo, "sliding_window_size": 128}) == [None, 129]
    assert windows_of({**mimo, "sliding_window": 96}) == [None, 96]
    gemma = {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 512}
    assert windows_of(gemma) == [512] * 5 + [None]
    assert windows_of({**gemma, "use_bidirectional_attention": True}) == [257] * 5 + [None]


def test_what_says_nothing_is_no_unknown_field():
    for nothing in (None, [], {}):
        assert spec_of({"model_type": "llama", "unheard_of": nothing}).n_layers == 32
    with pytest.raises(DataError, match="unheard_of: unknown field"):
        spec_of({"model_type": "llama", "unheard_of": 0})


@pytest.mark.parametrize(("kind", "part"), [("mpt", "attn_config"), ("dbrx", "attn_config"), ("dbrx", "ffn_config")])
def test_a_part_of_a_config_has_no_unknown_field_either(kind, part):
    assert spec_of({"model_type": kind, part: {}}).n_layers == 24
    with pytest.raises(DataError, match="unheard_of: unknown field"):
        spec_of({"model_type": kind, part: {"unheard_of": 1}})


def test_positions_of_roberta_start_after_the_paddings():
    roberta = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert spec_of(roberta).max_context == 512 and spec_of(roberta).positions.length == 514
    assert spec_of({**roberta, "pad_token_id": None}).max_context == 512


def test_the_width_of_an_lfm2_mlp():
    """Two thirds of it; rounded up to a multiple where there is a factor, as it is without one, and as written without adjusting."""
    lfm2 = {"model_type": "lfm2", "intermediate_size": 10000, "block_multiple_of": 256}
    widths = {"block_ffn_dim_multiplier": (1.0, 6912), "block_auto_adjust_ff_dim": (False, 10000)}
    for name, (value, width) in widths.items():
        assert spec_of({**lfm2, name: value}).layers[0].feedforward.d_ff == width
    assert spec_of({**lfm2, "block_ffn_dim_multiplier": None}).layers[0].feedforward.d_ff == 6666
    assert spec_of({**lfm2, "block_ffn_dim_multiplier": 1.5}).layers[0].feedforward.d_ff == 9999 // 256 * 256 + 256


def test_a_rank_that_is_left_to_the_class():
    """Mamba's time step: a sixteenth of the width, rounded up."""
    for written in ({}, {"time_step_rank": "auto"}, {"time_step_rank": None}):
        assert spec_of({"model_type": "mamba", "hidden_size": 770, **written}).layers[0].attention.sizes["rank"] == 49
    assert spec_of({"model_type": "mamba", "time_step_rank": 7}).layers[0].attention.sizes["rank"] == 7
