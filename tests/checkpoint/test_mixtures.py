"""Mixing rules of llama-quantize against published file sizes."""

from __future__ import annotations

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.gguf import (
    Shape,
    file_bytes,
    file_type,
    file_types,
    tensor_bytes,
    tensor_type,
    types,
)
from rooflinecli.specs.model import load_model

# GB, from a second, independent coding of the rules of src/llama-quant.cpp@007dbbf3fd, itself held to 0.18 % by 13 published files
TABLE = {
    "Q2_K": (2.53, 3.17, 26.37), "Q2_K_S": (2.32, 2.98, 24.46), "Q3_K_S": (2.95, 3.66, 30.90), "Q3_K_M": (3.30, 4.01, 34.26),
    "Q3_K_L": (3.60, 4.31, 37.13), "Q4_K_S": (3.86, 4.68, 40.34), "Q4_K_M": (4.08, 4.91, 42.51),
    "Q5_K_S": (4.65, 5.59, 48.65), "Q5_K_M": (4.78, 5.73, 49.94), "Q6_K": (5.53, 6.59, 57.88), "IQ1_S": (1.53, 2.01, 15.34),
    "IQ1_M": (1.65, 2.15, 16.74), "IQ2_XXS": (1.85, 2.39, 19.09), "IQ2_XS": (2.03, 2.60, 21.13),
    "IQ2_S": (2.20, 2.75, 22.23), "IQ2_M": (2.36, 2.94, 24.11), "IQ3_XXS": (2.70, 3.39, 28.65),
    "IQ3_XS": (2.80, 3.51, 29.30), "IQ3_S": (2.95, 3.67, 30.90), "IQ3_M": (3.11, 3.78, 31.93), "IQ4_NL": (3.85, 4.70, 40.34),
    "IQ4_XS": (3.65, 4.48, 38.26), "Q4_0": (3.83, 4.65, 39.96), "Q4_1": (4.24, 5.12, 44.31), "Q5_0": (4.65, 5.59, 48.65),
    "Q5_1": (5.06, 6.06, 52.99), "Q8_0": (7.16, 8.53, 74.97), "F16": (13.48, 16.06, 141.11),
}  # fmt: skip


def size(model: str, file: str) -> int:
    spec = load_model(model)
    return file_bytes(spec, file, parameters(spec).total)["total"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("file", sorted(TABLE))
def test_file_sizes(file):
    for model, published in zip(("llama-2-7b", "llama-3-8b", "llama-3-70b"), TABLE[file], strict=True):
        assert size(model, file) / 1e9 == pytest.approx(published, abs=0.0051)


def test_which_formats_name_a_file_type():
    """As people write them; formats of a machine are none."""
    assert [file_type(name) for name in ("q4_k_m", "IQ2_xxs", "q8_0", "f16")] == ["Q4_K_M", "IQ2_XXS", "Q8_0", "F16"]
    machine = (None, "", "int4", "fp8", "bf16", "fp16", "f32", "mxfp4", "nvfp4", "q9_z")
    assert [file_type(name) for name in machine] == [None] * 10


BOARD = "ggml-org/llama.cpp discussions 4167 and 15013 (llama-bench prints the size in GiB)"
PULL = "ggml-org/llama.cpp pull request 3084, comment of 2023-09-09"
CARDS = "cards of bartowski/Qwen2.5-32B-Instruct-GGUF and Qwen2.5-72B-Instruct-GGUF on the Hub"
SPARK = "ggml-org/llama.cpp@4c7e9893c4 benches/dgx-spark.md"


@pytest.mark.parametrize(
    ("model", "file", "published", "source"),
    [
        ("llama-2-7b", "Q4_0", 3822520893, BOARD),
        ("llama-2-7b", "Q8_0", 7161857966, BOARD),
        ("llama-2-7b", "F16", 13475459891, BOARD),
        ("llama-2-7b", "Q4_1", 4241280204, PULL),
        ("llama-2-7b", "Q4_K_M", 4080218931, PULL),
        ("llama-2-7b", "Q5_K_S", 4649302097, PULL),
        ("llama-2-7b", "Q5_K_M", 4778151116, PULL),
        ("llama-2-7b", "Q6_K", 5529770393, PULL),
        ("mistral-7b", "Q4_0", 4112431185, "ggml-org/llama.cpp pull request 16634, comment of 2025-10-25"),
        ("qwen2.5-7b", "Q8_0", 8096013352, SPARK),
        ("qwen2.5-32b", "Q6_K_L", 27.26e9, CARDS),
        ("qwen2.5-32b", "Q5_K_L", 23.74e9, CARDS),
        ("qwen2.5-72b", "Q3_K_XL", 40.60e9, CARDS),
        ("qwen3-30b-a3b", "Q8_0", 32480690176, SPARK),
        ("gpt-oss-20b", "MXFP4_MOE", 12101070356, SPARK),
        ("gpt-oss-120b", "MXFP4_MOE", 63372242452, SPARK),
    ],
)
def test_published_files(model, file, published, source):
    """What llama-bench printed, rounded to 0.01 GiB."""
    assert size(model, file) == pytest.approx(published, rel=0.002), source


KEPT = "ailocalcheck.com/model/unsloth/gpt-oss-120b-GGUF: sizes of unsloth's files, in GiB"
FORUM = "community.frame.work/t/73280, llama-bench of gpt-oss-120b-F16.gguf: 60.87 GiB"
MADE = "bartowski/openai_gpt-oss-20b-GGUF README: 'All quants keep the feed forward networks at mxfp4'"


@pytest.mark.parametrize(
    ("model", "file", "published", "source"),
    [
        *(("gpt-oss-120b", file, gib * 2**30, KEPT) for file, gib in (
            ("Q2_K", 58.27), ("Q3_K_S", 58.27), ("Q3_K_M", 58.33), ("Q4_0", 58.32), ("Q4_1", 58.41), ("Q4_K_S", 58.45),
            ("Q4_K_M", 58.46), ("Q5_K_S", 58.56), ("Q5_K_M", 58.57), ("Q6_K", 58.94), ("Q8_0", 59.03),
        )),
        ("gpt-oss-120b", "F16", 60.87 * 2**30, FORUM),
        ("gpt-oss-20b", "Q6_K", 12.04e9, MADE),
    ],
)  # fmt: skip
def test_experts_published_in_four_bits_keep_them_in_every_file(model, file, published, source):
    """Of the rest of gpt-oss 58 to 61 GiB make a difference; with experts converted a Q8_0 would be 115."""
    assert size(model, file) == pytest.approx(published, rel=0.0015), source


def test_experts_that_a_tuner_saved_in_16_bits_are_converted():
    """A fine-tune of gpt-oss without its quantization_config: 3 x 24 x 32 x 2880 x 2880 values go from 4.25 to 8.5 bits."""
    spec = load_model("gpt-oss-20b")
    plain = spec.with_changes(quantization=None)
    native, wide = (file_bytes(s, "Q8_0", parameters(s).total) for s in (spec, plain))
    assert wide["experts"] == 2 * native["experts"] == 24 * 3 * 32 * 2880 * 2880 * 34 // 32
    assert {k: v for k, v in wide.items() if k not in ("experts", "total")} == {
        k: v for k, v in native.items() if k not in ("experts", "total")
    }


def test_block_sizes():
    bits = {name: 8 * size / block for name, (_, block, size) in types().items()}
    assert [bits[name] for name in ("Q4_K", "Q6_K", "IQ4_XS", "MXFP4")] == [4.5, 6.5625, 4.25, 4.25]
    assert tensor_bytes("Q8_0", (3, 64)) == 3 * 2 * 34
    with pytest.raises(ValueError, match="whole number of Q4_K blocks"):
        tensor_bytes("Q4_K", (3, 100))
    assert all(block > 0 and size > 0 for _, block, size in types().values())
    assert {row["most"] for row in file_types().values()} <= set(types())


def test_eight_experts_and_odd_widths():
    mixtral = Shape(layers=32, groups=4, experts=8)
    assert tensor_type("Q4_K_M", "attn_v", 0, 4096, mixtral) == "Q8_0"
    assert tensor_type("Q4_K_M", "attn_output", 9, 4096, mixtral) == "Q5_K"
    assert tensor_type("Q4_K_M", "ffn_down_exps", 0, 14336, mixtral) == "Q6_K"
    assert tensor_type("Q4_K_M", "ffn_up", 9, 2880, Shape(24, 8)) == "Q5_0"  # 2880 is no multiple of 256
    assert tensor_type("Q4_K_M", "output", -1, 4096, Shape(24, 8)) == "Q6_K"
    assert tensor_type("Q4_0", "token_embd", -1, 4096, Shape(24, 8, tied=True)) == "Q6_K"
    assert tensor_type("Q4_0", "ffn_down", 0, 4096, Shape(32, 1, imatrix=True)) == "Q4_1"


def test_an_encoder_has_no_such_file():
    with pytest.raises(UsageError):
        file_bytes(load_model("vit-b-16"), "Q4_K_M", 86_000_000)
