"""Encoders, pairs and models that read images against transformers 5.23.0: parameters and FLOPs to the unit, and how a pass goes.

tests/oracle/golden_encoder_families.json holds random sizes, classes and switches (tests/oracle/encoder_families.py made it on the meta device).
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import run_cli

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.engine import legality
from rooflinecli.engine.build_request import request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.inputs import cut
from rooflinecli.engine.training import train
from rooflinecli.importers.hf import from_config
from rooflinecli.layers.build import ledger, with_cross_attention
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.phases.forward import ForwardPass, ledger_flops
from rooflinecli.quantization.formats import formats
from rooflinecli.questions.models.answer import sheet
from rooflinecli.specs.document import Document
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model, model_from
from rooflinecli.specs.request import Request

pytestmark = pytest.mark.sampled(100)  # each set is a case of its own

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
COUNTS = json.loads((ORACLE.parent / "data" / "hf_counts" / "counts.json").read_text())
RANDOM = json.loads((ORACLE / "golden_encoder_families.json").read_text())["cases"]
FULL = ForwardPass(formats("bf16", None, None, {"bf16": 1}, "any"), full_attention=True)
IMAGES = json.loads((ORACLE / "golden_images.json").read_text())["cases"]
ENCODERS = ("bert-odd", "roberta-large", "modernbert-large")


@cache
def others():
    """tests/oracle/encoder_families.py, which says what a case changes."""
    found = importlib.util.spec_from_file_location("encoder_families", ORACLE / "encoder_families.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def read(name: str, change: dict | None = None):
    return model_from(Document(from_config(others().changed(others().config(name), change or {})), Path("config.json")))


def flops(spec, tokens: float) -> float:
    return ledger_flops(ledger(spec), FULL, PLAIN, 1.0, tokens, tokens, tokens)


def ctx(name: str, **asked) -> EstimateContext:
    asked = {"devices": 1.0, **asked}
    return EstimateContext(Request(load_model(name), load_hardware("h100"), **asked))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", RANDOM, ids=lambda case: case["file"])
def test_random_sizes_classes_and_switches(case):
    spec = read(case["file"], case["change"])
    assert parameters(spec).total == case["total"], case["change"]
    if "flops" in case:
        tokens = float(others().TOKENS)
        assert flops(spec, tokens) == case["flops"], case["change"]


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_exact(name):
    spec = read(name)
    assert parameters(spec).total == COUNTS[name]["total"]
    if name != "modernbert-large":  # torch counts what a window hides
        assert flops(spec, 512.0) == COUNTS[name]["flops_512"]


def test_a_window_both_ways_is_as_wide_as_both_sides():
    """ModernBERT: 64 tokens to each side and the token itself; 18 of 28 layers."""
    spec, pairs = read("modernbert-large"), 4 * 16 * 64
    hidden = COUNTS["modernbert-large"]["flops_512"] - flops(spec, 512.0)
    assert hidden == 18 * pairs * (512 * 512 - 512 * 129)


def test_an_encoder_keeps_no_cache_and_writes_nothing():
    bert = ctx("bert-base", prompt=512.0)
    assert not bert.is_autoregressive
    answer = prefill(bert, Layout())
    assert answer.memory.kv_cache_bytes == 0
    assert answer.floor_s <= answer.time_s


def test_the_batch_of_an_encoder_goes_through_in_one_pass():
    one, many = (ctx("bert-base", prompt=128.0, batch=b) for b in (1.0, 64.0))
    alone, together = prefill(one, Layout()), prefill(many, Layout())
    assert together.flops == 64 * alone.flops
    assert together.tokens_per_s == pytest.approx(64 * 128 / together.time_s)
    assert alone.time_s < together.time_s < 64 * alone.time_s
    assert together.memory.activations_bytes > 32 * alone.memory.activations_bytes


def test_an_encoder_trains_with_every_position_scored():
    bert = ctx("bert-base", seq=512.0, batch=8.0)
    spec = load_model("bert-base")
    assert train(bert, Layout()).flops == pytest.approx(3 * 8 * flops(spec, 512.0), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("bert-odd", {"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice has a head"),
        ("bert-odd", {"position_embedding_type": "relative_key"}, "only absolute positions are supported"),
        ("bert-odd", {"is_decoder": True}, "only its use as an encoder is supported"),
        ("bert-odd", {"num_attention_heads": 7}, "7 heads do not divide the width 660"),
        ("bert-odd", {"embedding_size": 128}, "embedding_size: unknown field for this model_type"),
        ("roberta-large", {"max_position_embeddings": 2}, "2 rows leave none"),
        ("modernbert-large", {"sliding_window": 32}, "local_attention says 64; keep one"),
    ],
)
def test_what_is_refused(name, change, says):
    with pytest.raises(DataError, match=says):
        read(name, change)


@pytest.mark.parametrize("kind", ["deberta-v2", "albert"])
def test_encoders_of_another_form_say_why(kind):
    with pytest.raises(DataError, match=f"'{kind}' is not supported: "):
        from_config({"model_type": kind})


# --- towers that read images ------------------------------------------------------------------------------------------------


@cache
def tower_of(name: str):
    return read(name).towers[0]


@pytest.mark.parametrize("row", IMAGES, ids=lambda row: row["image"])
def test_an_image_becomes_what_the_processor_makes_of_it(row):
    """Sides after the resize, or tiles, of transformers' own functions (tests/oracle/images.py); tokens as processing_*.py adds them up."""

    def of(name):
        found = cut(tower_of(name), row["image"])
        return found.inputs, found.positions, found.tokens

    h, w = row["qwen2"]
    assert of("qwen2_5-vl-7b") == (1, h * w // 14**2, h * w // 28**2 + 2)
    h, w = row["qwen3"]
    assert of("qwen3-vl-8b") == (1, h * w // 16**2, h * w // 32**2 + 2)
    h, w = row["mistral3"]
    assert of("mistral-small-3.1-24b") == (1, h * w // 14**2, (h // 28) * (w // 28 + 1))
    columns, rows = row["internvl"]
    tiles = columns * rows + (columns * rows > 1)
    assert of("internvl-odd") == (tiles, 18 * 18 + 1, 256 * tiles + 2)
    h, w = row["gemma4"]
    assert of("gemma4") == (1, h * w // 16**2, h * w // 48**2 + 2)
    rows, columns = row["llama4"]
    many = rows * columns
    tokens = 144 * (many + 1) + many + 3 if many > 1 else 144 + 3
    assert of("llama4-scout-vl") == (many + (many > 1), 24 * 24 + 1, tokens)


@pytest.mark.parametrize(
    ("name", "inputs", "positions", "tokens"),
    [
        ("paligemma-3b-224", 1, 256, 256),
        ("gemma3-vl-odd", 1, 1024, 66),
        ("llava-odd", 1, 197, 197),  # the strategy is full: the class token stays
        ("mllama-odd", 1, 2 * 264, 1),  # two tiles of 257 positions, each padded to 264
    ],
)
def test_a_tower_of_one_size_makes_the_same_of_every_image(name, inputs, positions, tokens):
    for image in ("1024x768", "64x64", "300x2000"):
        found = cut(tower_of(name), image)
        assert (found.inputs, found.positions, found.tokens) == (inputs, positions, tokens)


def pictured(name: str, **asked) -> EstimateContext:
    asked = {"devices": 1.0, "prompt": 512.0, "output": 128.0, "batch": 4.0, **asked}
    return EstimateContext(Request(read(name), load_hardware("h100"), **asked))


def test_images_stand_in_the_prompt_and_the_tower_in_prefill():
    text, seen = pictured("qwen2_5-vl-7b"), pictured("qwen2_5-vl-7b", images=2.0, image="1024x768")
    longer = pictured("qwen2_5-vl-7b", prompt=512.0 + 2 * 1001)
    assert seen.prompt == 512 + 2 * 1001 == longer.prompt
    tower = ledger(tower_of("qwen2_5-vl-7b"))
    one, alone, other = (prefill(s, Layout()) for s in (seen, text, longer))
    causal = ForwardPass(formats("bf16", None, None, {"bf16": 1}, "any"))
    assert one.flops - other.flops == ledger_flops(tower, causal, PLAIN, 2.0, 3996.0, 3996.0, 3996.0)
    assert alone.time_s < other.time_s < one.time_s
    assert one.memory.weights_bytes == alone.memory.weights_bytes == 2 * COUNTS["qwen2_5-vl-7b"]["total"]
    assert one.floor_s <= one.time_s
    a, b = (decode(s, Layout()) for s in (seen, longer))
    assert (a.time_s, a.memory.kv_cache_bytes) == (b.time_s, b.memory.kv_cache_bytes)


def test_windows_of_a_tower_bound_its_scores():
    """Qwen2.5-VL: 28 of 32 layers attend inside 64 patches."""
    spec = tower_of("qwen2_5-vl-7b")
    more = flops(spec, 3996.0) - 2 * flops(spec, 1998.0)
    assert more == 4 * 4 * 16 * 80 * (3996**2 - 2 * 1998**2)  # of the four whole ones; the rest grows in proportion


def test_tiles_are_inputs_of_their_own():
    one, many = pictured("internvl-odd", image="252x252"), pictured("internvl-odd", image="756x504")
    assert [t.count for s in (one, many) for t in s.ledger.towers] == [1.0, 7.0]
    assert many.prompt - one.prompt == 6 * 256


def test_an_image_that_cross_attention_reads_costs_cache_and_one_token():
    text, seen = pictured("mllama-odd"), pictured("mllama-odd", images=3.0)
    assert seen.prompt == 515
    crossing, tokens, values = 3, 3 * 528, 2 * 2 * 80
    more = decode(seen, Layout()).memory.kv_cache_bytes - decode(text, Layout()).memory.kv_cache_bytes
    own = 8 * 3 * values * 2 * 4  # three tokens in the eight layers that attend to text, of four sequences
    assert more == crossing * tokens * values * 2 * 4 + own


def test_without_an_image_layers_that_would_read_it_are_skipped():
    """As transformers skips them: torch's count of a text alone."""
    text = pictured("mllama-odd", attention_flops="full")
    assert text.model_flops(1.0, 512.0, 512.0, 512.0, decode=False) == COUNTS["mllama-odd"]["flops_512"]
    assert parameters(text.spec).total == COUNTS["mllama-odd"]["total"]


@pytest.mark.parametrize("name", ["qwen2_5-vl-7b", "llava-odd", "mllama-odd", "gemma3-vl-odd"])
@pytest.mark.parametrize("tp", [1.0, 2.0])
def test_every_phase_is_priced_with_images(name, tp):
    asked = pictured(name, devices=tp, images=1.0, image="640x480", seq=256.0)
    for phase in (prefill, decode, train):
        answer = phase(asked, Layout(tp=tp))
        assert answer.time_s >= answer.floor_s > 0
        assert answer.interval_s[0] <= answer.time_s <= answer.interval_s[1]


def test_a_tower_lends_its_heads_to_tensor_parallelism():
    with pytest.raises(UsageError, match="--tp 16 exceeds the 8 attention heads of gemma3 image tower"):
        legality.check(EstimateContext(Request(load_vl("gemma3-vl-odd"), load_hardware("h100"), tp=16.0, devices=16.0)))


def load_vl(name: str):
    """A config whose decoder has heads enough."""
    return read(name, {"text_config.num_attention_heads": 16, "text_config.num_key_value_heads": 16})


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("qwen3-vl-8b", {"vision_config.model_type": "swin"}, "is a 'swin', not a supported image encoder"),
        ("qwen3-vl-8b", {"vision_config.rope_width": 3}, "rope_width: unknown field for this model_type"),
        ("qwen2-vl-odd", {"vision_config.num_heads": 7}, "7 heads do not divide the width 528"),
        ("qwen2-vl-odd", {"vision_config.hidden_size": 64}, "64 is not the decoder's width 1120"),
        ("gemma3-vl-odd", {"mm_tokens_per_image": 60}, "60 tokens make no square"),
        ("llava-odd", {"vision_feature_select_strategy": "middle"}, "'middle' is not known"),
        ("internvl-odd", {"vision_config.image_size": [252, 500]}, "252 by 500 is no square"),
        ("llama4-scout-vl", {"vision_config.intermediate_size": 100}, "100 is not 4 x hidden_size"),
        ("mllama-odd", {"vision_config.vision_output_dim": 100}, "100 is not hidden_size x 3"),
        ("mllama-odd", {"text_config.cross_attention_layers": [40]}, "names a layer outside the 11"),
        ("mistral-small-3.1-24b", {"projector_width": 9}, "projector_width: unknown field for this model_type"),
    ],
)
def test_what_of_a_tower_is_refused(name, change, says):
    with pytest.raises(DataError, match=says):
        read(name, change)


def test_a_config_without_a_tower_is_its_decoder_and_says_so():
    text = others().config("qwen3-vl-8b")
    del text["vision_config"]
    spec = model_from(Document(from_config(text), Path("config.json")))
    assert parameters(spec).total == COUNTS["qwen3-vl-8b"]["text_params"]
    assert any(note.startswith("No vision_config") for note in spec.notes)


def test_images_for_a_model_that_reads_none_are_refused():
    with pytest.raises(UsageError, match="--num-images: Llama 3 8B has no tower that reads images"):
        ctx("llama-3-8b", images=1.0)


@pytest.mark.parametrize("said", ["1024", "0x5", "axb", "1x2x3", "99999999x4", "-3x4", ""])
def test_a_size_that_is_none_is_refused(said):
    with pytest.raises(UsageError, match="expected WIDTHxHEIGHT in pixels"):
        request({"model": "llama-3-8b", "hw": "h100", "image": said})


def test_the_page_of_a_model_shows_its_tower():
    page = sheet(str(ORACLE.parent / "data" / "hf_counts" / "qwen3-vl-8b.json"))
    (tower,) = page["towers"]
    assert tower["parameters"]["total"] == COUNTS["qwen3-vl-8b"]["vision_params"]
    assert tower["image"].to_dict() == {
        "pixels": "1024x1024",
        "inputs": 1,
        "positions": 4096,
        "tokens": 1026,
        "rule": "smart-resize",
        "source": tower["image"]["source"],
    }


# --- an encoder with a decoder ----------------------------------------------------------------------------------------------

PAIRS = {
    "bart-odd": (512.0, 512.0),
    "flan-t5-xl": (512.0, 512.0),
    "mt5-odd": (512.0, 512.0),
    "whisper-odd": (1100.0, 520.0),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_is_exact(name):
    """Source and target as the counts say; of Whisper a whole window with its convolutions."""
    source, target = PAIRS[name]
    spec, known = read(name), COUNTS[name]
    assert parameters(spec).total == known["total"]
    book = with_cross_attention(ledger(spec), source)
    book = replace(book, towers=tuple(replace(tower, length=source) for tower in book.towers))
    counted = ledger_flops(book, FULL, PLAIN, 1.0, target, target, target)
    assert counted == (known["flops_512"] or known["flops_example"])


def asked_pair(name: str, **asked) -> EstimateContext:
    asked = {"devices": 1.0, "prompt": 700.0, "output": 100.0, "batch": 4.0, **asked}
    return EstimateContext(Request(read(name), load_hardware("h100"), **asked))


def test_the_encoder_reads_the_prompt_and_the_decoder_starts_with_a_token():
    t5 = asked_pair("flan-t5-xl")
    answer = prefill(t5, Layout())
    full = ForwardPass(formats("bf16", None, None, {"bf16": 1}, "any"))
    encoder = ledger_flops(ledger(t5.spec.towers[0]), full, PLAIN, 1.0, 700.0, 700.0, 700.0)
    width, inner, ff, layers, vocab = 2048, 2048, 5120, 24, 32128
    token = (
        2 * width * inner * 6 + 2 * 3 * width * ff + 4 * inner * (0.5 + 700)
    )  # q, k, v, o; q, o across; itself halved
    source = 700 * 2 * width * inner * 2  # keys and values of the source, once
    assert answer.flops == pytest.approx(encoder + layers * (token + source) + 2 * width * vocab, rel=1e-12)
    assert answer.tokens_per_s == pytest.approx(700 / answer.time_s)


def test_cross_attention_keeps_the_source_and_does_not_grow():
    """24 layers of 2 x 2048 values for each token of the source, and as much for each token written."""
    t5 = asked_pair("flan-t5-xl")
    assert decode(t5, Layout()).memory.kv_cache_bytes == 4 * 24 * 2 * 2048 * (700 + 101) * 2
    longer = asked_pair("flan-t5-xl", prompt=1400.0)
    assert decode(longer, Layout()).memory.kv_cache_bytes == 4 * 24 * 2 * 2048 * (1400 + 101) * 2


def test_a_decode_step_runs_neither_the_encoder_nor_the_keys_of_the_source():
    t5 = asked_pair("flan-t5-xl", output=0.0)
    step = decode(t5, Layout())
    width, ff, layers, vocab = 2048, 5120, 24, 32128
    token = 2 * width * width * 6 + 2 * 3 * width * ff + 4 * width * (1 + 700)
    assert step.flops == pytest.approx(4 * (layers * token + 2 * width * vocab), rel=1e-12)
    read_once = 2 * (layers * (width * width * 6 + 3 * width * ff) + width * vocab)
    cached = 4 * layers * 2 * width * (700 + 1) * 2
    assert read_once + cached < step.bytes_per_device < 1.02 * (read_once + cached)


def test_whisper_reads_a_window_whatever_the_prompt():
    a, b = (asked_pair("whisper-odd", prompt=p, output=50.0) for p in (4.0, 64.0))
    assert [t.length for s in (a, b) for t in s.ledger.towers] == [1100.0, 1100.0]
    assert asked_pair("whisper-odd", prompt=None).prompt == 4
    assert prefill(b, Layout()).flops > prefill(a, Layout()).flops


def test_a_pair_trains_on_a_source_as_long_as_the_target_unless_told():
    spec = read("bart-odd")
    learned = EstimateContext(
        Request(
            spec, load_hardware("h100"), devices=1.0, seq=512.0, batch=2.0, phases=("train",), attention_flops="full"
        )
    )
    assert train(learned, Layout()).flops == pytest.approx(3 * 2 * COUNTS["bart-odd"]["flops_512"], rel=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("tp", [1.0, 2.0])
def test_every_phase_of_a_pair_is_priced(name, tp):
    heads = {"mt5-odd": 1.0, "whisper-odd": 1.0}.get(name, tp)  # 7 and 9 heads do not split
    asked = asked_pair(name, devices=heads, prompt=300.0, seq=256.0)
    for phase in (prefill, decode, train):
        answer = phase(asked, Layout(tp=heads))
        assert answer.time_s >= answer.floor_s > 0
        assert answer.interval_s[0] <= answer.time_s <= answer.interval_s[1]


def test_a_source_longer_than_the_encoder_takes_is_refused():
    with pytest.raises(UsageError, match="--prompt 1000 exceeds the 900 learned positions of the encoder"):
        legality.check(asked_pair("bart-odd", prompt=1000.0))


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("bart-odd", {"tie_word_embeddings": False}, "untied embeddings of encoder and decoder are not supported"),
        ("bart-odd", {"normalize_before": True}, "only BART's form is supported"),
        ("bart-odd", {"is_encoder_decoder": False}, "a pair is an encoder with a decoder"),
        ("bart-odd", {"encoder_attention_heads": 11}, "11 heads do not divide the width 672"),
        ("flan-t5-xl", {"architectures": ["T5ForSequenceClassification"]}, "has a head that is not supported"),
        ("flan-t5-xl", {"num_experts": 8}, "num_experts: unknown field for this model_type"),
        ("whisper-odd", {"architectures": ["WhisperForAudioClassification"]}, "has a head that is not supported"),
    ],
)
def test_what_of_a_pair_is_refused(name, change, says):
    with pytest.raises(DataError, match=says):
        read(name, change)


# --- encoders of images -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vit-odd", "dinov2-odd", "clip-vit-large-14", "siglip-odd"])
def test_an_encoder_of_images_is_exact(name):
    """One image of its size, and one text of the longest where there is a tower of text; the patches' convolution included."""
    spec, known = read(name), COUNTS[name]
    assert parameters(spec).total == known["total"]
    tokens = float(spec.max_context)
    assert ledger_flops(ledger(spec), FULL, PLAIN, 1.0, tokens, tokens, 1.0) == known["flops_example"]


def test_a_sweep_over_images_is_what_estimates_say():
    asked = "sweep qwen2.5-vl-7b --hw h100 -n 1 --num-images 0,2 --image-size 512x512 --prompt 512 --phase prefill --format csv"
    head, *rows = run_cli(*asked.split(), "--columns", "prefill.time_s").out.splitlines()
    place = head.split(",").index("prefill.time_s")
    for many, row in zip((0.0, 2.0), rows, strict=True):
        one = ctx("qwen2.5-vl-7b", prompt=512.0, images=many, image="512x512")
        assert float(row.split(",")[place]) == prefill(one, Layout()).time_s


# --- images made in steps ---------------------------------------------------------------------------------------------------


def making(name: str, **asked) -> EstimateContext:
    return EstimateContext(Request(load_model(name), load_hardware("h100"), devices=1.0, **asked))


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("dit-xl-2", 675_129_632),  # the checkpoint's, 675M in Peebles and Xie 2023, table 1
        (
            "flux.1-dev",
            23_802_816_640 // 2,
        ),  # total_size of diffusion_pytorch_model.safetensors.index.json, two bytes each
        ("sd3-medium", 2_028_328_000),  # 2B in Esser et al. 2024, a depth of 24
    ],
)
def test_a_diffusion_transformer_is_exact(name, published):
    assert parameters(load_model(name)).total == published


@pytest.mark.parametrize(("image", "gmacs"), [("256x256", 118.64), ("512x512", 524.60)])
def test_a_step_of_dit_costs_what_its_paper_says(image, gmacs):
    """Peebles and Xie 2023, tables 1 and 8: Gflops, counted as multiply-adds, of DiT-XL/2."""
    one = making("dit-xl-2", image=image, steps=1.0, guidance=False, attention_flops="full")
    assert prefill(one, Layout()).flops / 2e9 == pytest.approx(gmacs, rel=2e-3)


def test_steps_and_guidance_multiply_the_passes():
    one, many, guided = (
        prefill(making("sd3-medium", steps=s, guidance=g), Layout())
        for s, g in ((1.0, False), (28.0, False), (28.0, True))
    )
    assert many.flops == 28 * one.flops and guided.flops == 2 * many.flops
    assert many.time_s == pytest.approx(28 * one.time_s, rel=1e-9)
    assert 1.5 * many.time_s < guided.time_s < 2.1 * many.time_s
    assert many.memory.activations_bytes == one.memory.activations_bytes < guided.memory.activations_bytes


def test_images_per_second_are_those_that_come_out():
    found = answer(making("sd3-medium", batch=4.0), Layout(), "prefill")
    assert found.derived["images_per_s"] == pytest.approx(4 / found.time_s)
    assert "images_per_s" not in answer(ctx("bert-base"), Layout(), "prefill").derived


def test_the_streams_of_a_joint_layer_have_weights_of_their_own_and_one_attention():
    """FLUX: 4,096 tokens of image and 512 of prompt; 19 layers of two streams, 38 of one."""
    flux = making("flux.1-dev", steps=1.0, attention_flops="full")
    d, image, text = 3072, 4096, 512
    matmuls = 2 * 12 * d * d * (19 + 38) * (image + text)
    scores = 4 * d * (image + text) ** 2 * (19 + 38)
    modulation = 2 * d * d * (12 * 19 + 3 * 38 + 2)
    ends = 2 * (64 * d * image * 2 + 4096 * d * text) + 2 * (256 + d) * d * 2 + 2 * (768 + d) * d
    assert prefill(flux, Layout()).flops == matmuls + scores + modulation + ends


@pytest.mark.parametrize("name", ["dit-xl-2", "flux.1-dev", "sd3-medium"])
@pytest.mark.parametrize("tp", [1.0, 2.0])
def test_a_diffusion_transformer_is_priced_and_trained(name, tp):
    asked = EstimateContext(Request(load_model(name), load_hardware("h100"), devices=tp, image="256x256", batch=4.0))
    for phase in (prefill, train):
        found = phase(asked, Layout(tp=tp))
        assert found.time_s >= found.floor_s > 0
        assert found.interval_s[0] <= found.time_s <= found.interval_s[1]


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("flux", {"image": "1000x1000"}, "multiples of 16 pixels"),
        ("flux", {"images": 2.0}, "--batch says how many it makes"),
        ("flux", {"prompt": 20.0}, "its prompt has a length of its own"),
        ("llama-3-8b", {"steps": 20.0}, "makes no images in steps"),
        ("bert-base", {"guidance": True}, "makes no images in steps"),
    ],
)
def test_what_makes_no_sense_of_an_image_is_refused(name, given, says):
    with pytest.raises(UsageError, match=says):
        ctx(name, **given)


def test_a_language_model_head_on_bert_is_the_masked_one():
    """BertLMHeadModel holds what BertForMaskedLM does, and no pooler."""
    masked, head = (read("bert-odd", {"architectures": [name]}) for name in ("BertForMaskedLM", "BertLMHeadModel"))
    assert (
        parameters(head).total
        == parameters(masked).total
        != parameters(read("bert-odd", {"architectures": ["BertModel"]})).total
    )


def test_the_decoder_alone_of_a_model_that_reads_images():
    """MllamaForCausalLM holds no tower, whatever its config does; to count one would be wrong by 9 %."""
    with pytest.raises(DataError, match="MllamaForCausalLM is the decoder without the image encoder"):
        read("mllama-odd", {"architectures": ["MllamaForCausalLM"]})


def test_marian_writes():
    spec = read("marian", {"architectures": ["MarianMTModel"]})
    assert spec.writes and spec.paired and not read("marian").writes
