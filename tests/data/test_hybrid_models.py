"""Hybrid and recurrent models against transformers 5.23.0: parameters, active parameters, state and FLOPs, to the unit.

tests/data/hf_counts holds configs and, in counts.json, what torch counts of the classes built from them on the meta device.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.training import train
from rooflinecli.importers.hf import TYPES, WRAPPED, from_config, refused
from rooflinecli.layers.build import ledger, with_cross_attention
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.ledger.mixer import CountingMode
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import rows_flops
from rooflinecli.quantization.formats import formats
from rooflinecli.quantization.gguf import file_bytes
from rooflinecli.questions.models.answer import sheet
from rooflinecli.specs.document import Document
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import model_from
from rooflinecli.specs.request import Request

ROOT = Path(__file__).resolve().parent / "hf_counts"
COUNTS = {k: v for k, v in json.loads((ROOT / "counts.json").read_text()).items() if k != "_meta"}
RANDOM = json.loads((ROOT.parents[1] / "oracle" / "golden_hybrids.json").read_text())["cases"]
KNOWN = {name for name, c in COUNTS.items() if c["model_type"] in (*TYPES, *WRAPPED)}
# pairs and encoders of images, whose counts are of other inputs: test_other_models holds them
ELSEWHERE = {"bart", "t5", "mt5", "whisper", "vit", "dinov2", "clip", "siglip"}
READ = sorted(name for name in KNOWN if COUNTS[name]["model_type"] not in ELSEWHERE)
STATEFUL = [
    name for name in READ if {"conv", "recurrent", "indexer"} & set(COUNTS[name].get("state_parts_bytes") or {})
]
PLAIN_FORMATS = formats("bf16", None, None, {"bf16": 1}, "any")
TOKENS = 512.0


def config(name: str) -> dict:
    return json.loads((ROOT / f"{name}.json").read_text())


@cache
def spec_of(name: str):
    return model_from(Document(from_config(config(name)), Path("config.json")))


def state_bytes(name: str, state_dtype: str | None) -> float:
    f, book, work = (
        formats("bf16", None, None, {"bf16": 1}, "any", None, state_dtype),
        with_cross_attention(ledger(spec_of(name)), 0.0),  # of text alone
        pass_axis_sizes(1.0, 1.0, 1.0, 1.0, Layout()),
    )
    held = [
        (layer, layer_sizes(layer, work, Layout(), None, PLAIN)) for layer in book.layers if layer.mixer is not None
    ]
    return sum(layer.mixer.cache_bytes(f, sizes, 1.0, 4096.0) * layer.repeat for layer, sizes in held)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", READ)
def test_parameters(name):
    counted, known = parameters(spec_of(name)), COUNTS[name]
    assert counted.total == known["total"]
    assert counted.active == (known["active"] or known["total"])
    assert sum(parameters(tower).total for tower in spec_of(name).towers) == known.get("vision_params", 0)


@pytest.mark.parametrize("name", [n for n in READ if COUNTS[n]["state_bytes_4096"] is not None])
def test_state_after_4096_tokens_at_two_bytes_each(name):
    assert state_bytes(name, "bf16") == COUNTS[name]["state_bytes_4096"]


@pytest.mark.parametrize("name", [n for n in STATEFUL if "state_bytes_4096_fp32_recurrent" in COUNTS[n]])
def test_state_as_a_16_bit_transformers_model_keeps_it(name):
    """The recurrent part in fp32; so it is without an option, unless the config names a format of its own."""
    assert state_bytes(name, "fp32") == COUNTS[name]["state_bytes_4096_fp32_recurrent"] == state_bytes(name, None)


@pytest.mark.parametrize("name", READ)
def test_matmuls_and_scores_of_512_tokens(name):
    """What torch's counter sees as products with a weight, and as products of queries, keys and values over all pairs."""
    book, mode = with_cross_attention(ledger(spec_of(name)), 0.0), CountingMode(PLAIN_FORMATS, full_attention=True)
    work, linear, scores = pass_axis_sizes(1.0, TOKENS, TOKENS, TOKENS, Layout()), 0.0, 0.0
    for layer in book.layers:
        sizes = layer_sizes(layer, work, Layout(), None, PLAIN)
        linear += rows_flops(tuple(r for r in layer.rows if r.mixer is None), mode, sizes) * layer.repeat
        softmax = [r.mixer for r in layer.rows if r.mixer is not None and hasattr(r.mixer, "pairs")]
        scores += sum(m.flops(mode, sizes) for m in softmax) * layer.repeat
    linear += rows_flops((*book.stem, *book.head), mode, stem_head_axis_sizes(book, work, Layout(), None, PLAIN))
    parts = COUNTS[name]["flops_parts"]
    assert linear == parts["linear"]
    if not any(g.attention and (g.attention.window or TOKENS) < TOKENS for g in spec_of(name).layers):
        assert scores == parts.get("attention", 0)  # torch counts what a window hides


@pytest.mark.parametrize("name", ["minimax-text-01", "qwen3-next-80b-a3b", "kimi-linear-odd"])
def test_chunked_forms_where_the_counter_sees_all_products(name):
    """Lightning attention's blocks; the delta rule's, whose triangular solves torch does not count."""
    book, seen = ledger(spec_of(name)), 0.0
    for layer in book.layers:
        sizes = layer_sizes(layer, pass_axis_sizes(1.0, TOKENS, TOKENS, TOKENS, Layout()), Layout(), None, PLAIN)
        if not hasattr(layer.mixer, "pairs"):
            solves = TOKENS * sizes["N"] * sizes["chunk"] * (sizes["H"] + sizes["Hv"]) if "Hv" in sizes else 0.0
            seen += (layer.mixer.scan(TOKENS, sizes) - solves) * layer.repeat
    assert seen == COUNTS[name]["flops_parts"]["scan"]


@pytest.mark.parametrize("name", [n for n in STATEFUL if COUNTS[n]["total"] < 1e9] + ["zamba2-2.7b"])
@pytest.mark.parametrize("chip", ["h100", "tpu-v5p"])
def test_every_mixer_is_priced_in_every_phase(name, chip):
    asked = {"devices": 1.0, "prompt": 512.0, "output": 64.0, "batch": 4.0, "seq": 512.0}
    ctx = EstimateContext(Request(spec_of(name), load_hardware(chip), **asked))
    for phase in (prefill, decode, train):
        answer = phase(ctx, Layout())
        assert answer.time_s >= answer.floor_s > 0
        assert answer.interval_s[0] <= answer.time_s <= answer.interval_s[1]


@pytest.mark.parametrize("name", ["mamba2-2.7b-odd", "falcon-mamba-7b", "rwkv-odd"])
def test_a_state_does_not_grow_with_the_context(name):
    def held(prompt: float) -> float:
        ctx = EstimateContext(Request(spec_of(name), load_hardware("h100"), prompt=prompt, output=1.0, batch=8.0))
        return decode(ctx, Layout()).memory.kv_cache_bytes

    assert held(16.0) == held(100_000.0) > 0


def test_layers_of_each_kind_in_their_place():
    kinds = [g.attention.kind for g in spec_of("jamba-v0.1").layers for _ in range(g.repeat)]
    assert sorted(set(kinds)) == ["gqa", "mamba"]
    assert kinds.count("gqa") == 4  # one of eight in 32 layers


def test_a_shared_block_is_counted_once_and_run_at_every_use():
    """Zamba2: nine uses of two blocks; doubling the uses adds adapters and projections, not blocks."""
    spec = spec_of("zamba2-2.7b")
    uses = [g.attention.shared for g in spec.layers for _ in range(g.repeat) if g.attention.kind == "zamba2"]
    assert (len(uses), uses.count(False)) == (9, 2)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("mamba2-2.7b-odd", {"num_heads": 5}, "heads of"),
        ("bamba-odd", {"attn_layer_indices": [99]}, "names a layer outside"),
        ("nemotron-3-nano-30b-a3b", {"layers_block_type": ["linear_attention", "jump"]}, "'jump' is not a layer"),
        ("nemotron-3-nano-30b-a3b", {"mamba_ssm_cache_dtype": "int3"}, "'int3' is not a format"),
        ("qwen3-next-80b-a3b", {"linear_num_key_heads": 7}, "7 key heads do not divide"),
        ("recurrentgemma-9b", {"lru_width": 1001}, "16 blocks do not divide 1001"),
        ("lfm2-odd", {"block_ffn_dim_multiplier": "1"}, "expected a number"),
        ("jamba-v0.1", {"mamba_width": 3}, "mamba_width: unknown field for this model_type"),
    ],
)
def test_what_is_refused(name, change, says):
    with pytest.raises(DataError, match=says):
        from_config({**config(name), **change})


@pytest.mark.parametrize("name", sorted(set(COUNTS) - KNOWN))
def test_what_is_not_read_says_why(name):
    kind = COUNTS[name]["model_type"]
    with pytest.raises(DataError, match=f"model_type: '{kind}' is not supported: .*; write the model as YAML"):
        from_config(config(name))
    assert kind in refused()


def test_a_vision_language_config_as_older_files_are_is_the_same_decoder():
    """Fields of the decoder next to vision_config, as Qwen2-VL has them on the Hub."""
    nested = config("qwen2_5-vl-7b")
    text = {k: v for k, v in nested["text_config"].items() if k != "model_type"}
    flat = {**text, **{k: v for k, v in nested.items() if k != "text_config"}}
    assert from_config(flat)["layers"] == from_config(nested)["layers"]
    assert from_config(flat)["d_model"] == 3584


def test_a_wrapper_of_an_unknown_decoder_is_refused():
    odd = config("llava-odd")
    odd["text_config"]["model_type"] = "hyena"
    with pytest.raises(DataError, match="is a 'hyena', but llava takes any supported decoder"):
        from_config(odd)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", RANDOM, ids=lambda case: case["file"])
def test_parameters_of_random_sizes(case):
    """Sizes, biases and tying changed at random; counted by transformers on the meta device (tests/oracle/hybrids.py)."""
    spec = model_from(Document(from_config({**config(case["file"]), **case["change"]}), Path("config.json")))
    assert parameters(spec).total == case["total"], case["change"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("qwen3-next-80b-a3b", "12 x (3 x gated-delta + moe 10 of 512, gqa + moe 10 of 512)"),
        ("falcon-h1-odd", "9 x attention-ssm + gated"),
        ("mamba2-2.7b-odd", "mamba2"),
    ],
)
def test_the_page_of_a_model_says_pattern_and_state(name, says):
    page = sheet(str(ROOT / f"{name}.json"))
    assert says in page["pattern"]
    known = COUNTS[name]
    recurrent = known["state_parts_bytes"].get("recurrent", 0) * 2 + known["state_parts_bytes"].get("conv", 0)
    assert page["kv_cache"]["state_bytes_per_sequence"] == recurrent
    assert page["kv_cache"]["bytes_at_4096"] == known["state_bytes_4096_fp32_recurrent"]


def test_fields_that_change_no_shape_are_named():
    notes = spec_of("jamba-v0.1").notes
    assert any(note.startswith("Config fields not used") and "use_associative_scan" in note for note in notes)


def test_values_narrower_than_keys_are_cached_as_wide_as_they_are():
    """MiMo-V2: four heads of 192 + 128 on a full layer, eight on one with a window of 129."""
    spec = model_from(Document(from_config({"model_type": "mimo_v2_flash"}), Path("config.json")))
    f, work = PLAIN_FORMATS, pass_axis_sizes(1.0, 1.0, 1.0, 1.0, Layout())
    held = [(layer, layer_sizes(layer, work, Layout(), None, PLAIN)) for layer in ledger(spec).layers]
    kept = sum(layer.repeat * layer.mixer.cache_bytes(f, sizes, 1.0, 4096.0) for layer, sizes in held)
    full, near = 9, 39
    assert kept == 2 * (192 + 128) * (full * 4 * 4096 + near * 8 * 129)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {
                "model_type": "helium",
                "hidden_size": 48,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "head_dim": 16,
            },
            "is not the hidden size",
        ),
        ({"model_type": "kimi_linear", "tie_word_embeddings": True}, "transformers ties nothing here"),
        ({"model_type": "zamba2", "tie_word_embeddings": False}, "has a copy of the shared blocks for every use"),
        ({"model_type": "t5", "is_decoder": True}, "encoder and decoder are set separately"),
        ({"model_type": "gemma3n"}, "give its text_config"),
        ({"model_type": "gemma3n_text", "num_kv_shared_layers": 35}, "leaves 0 layers to keep a cache"),
        ({"model_type": "gemma4_text", "use_bidirectional_attention": "all"}, "bidirectional attention"),
        (
            {"model_type": "gemma4_text", "layer_types": ["chunked_attention"] * 30},
            "'chunked_attention' is not a supported",
        ),
        (
            {"model_type": "gemma4_text", "per_layer_config": {"40": {"head_dim": 8}}},
            "'40' is not one of the 30 layers",
        ),
        (
            {"model_type": "gemma4", "text_config": {}, "audio_config": {"hidden_size": 8}},
            "audio encoders are not supported",
        ),
        ({"model_type": "llava", "text_config": {"model_type": ["llama"]}}, "takes any supported decoder"),
        ({"model_type": "recurrent_gemma", "block_types": []}, "block_types: required"),
    ],
)
def test_what_changes_shapes_in_a_way_not_read_is_refused(config, says):
    with pytest.raises(DataError, match=says):
        from_config(config)


def test_file_sizes_are_not_told_of_a_model_whose_tensors_are_named_otherwise():
    spec = model_from(Document(from_config({"model_type": "gemma3n_text"}), Path("config.json")))
    with pytest.raises(UsageError, match="not those of a GGUF file"):
        file_bytes(spec, "Q4_K_M", parameters(spec).total)
