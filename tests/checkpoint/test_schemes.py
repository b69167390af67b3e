"""Formats of weights byte for byte: against the tensors that each tool writes, listed here one by one, and against published sizes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import run_cli

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.engine.stored_weights import checkpoint_format, with_weight_format
from rooflinecli.importers.hf import from_config
from rooflinecli.layers.build import ledger
from rooflinecli.memory import device_parameters
from rooflinecli.quantization.formats import experts_alone, formats
from rooflinecli.quantization.gguf import file_bytes
from rooflinecli.quantization.schemes import parse, schemes
from rooflinecli.specs.document import Document
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import Quantization, load_model, model_from

pytestmark = pytest.mark.sampled(100)  # each set is a case of its own

# a llama of odd sizes: width, feed-forward, query and value width, layers, vocabulary
D, FF, Q, KV, LAYERS, VOCAB = 320, 832, 384, 128, 3, 1000
TINY = {
    "model_type": "llama",
    "hidden_size": D,
    "intermediate_size": FF,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCAB,
}
MATRICES = [(D, Q), (D, KV), (D, KV), (Q, D), (D, FF), (D, FF), (FF, D)]  # inputs, outputs
NORMS = 2 * (2 * D * LAYERS + D)


def model(**more):
    return model_from(Document(from_config({**TINY, **more}), Path("config.json"), {(): ("config.json", 1)}))


def _linear_group(**weights):
    """A compressed-tensors config of one group of all linear layers."""
    group = {"targets": ["Linear"], "weights": {"type": "int", **weights}}
    return {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": group}}


def total(spec) -> float:
    p, w = device_parameters(ledger(spec), Layout(), PLAIN), spec.quantization.widths
    return p.inner * w.layers + p.experts * w.experts + p.outer * w.outer


def up(a: int, b: int) -> int:
    return math.ceil(a / b)


# tensors of a matrix of k inputs and n outputs as each tool writes them: (elements, bytes each)
TENSORS = {
    "awq": lambda k, n: [(k * n // 8, 4), (up(k, 128) * n // 8, 4), (up(k, 128) * n, 2)],
    "awq-g64": lambda k, n: [(k * n // 8, 4), (up(k, 64) * n // 8, 4), (up(k, 64) * n, 2)],
    "gptq": lambda k, n: [(k // 8 * n, 4), (up(k, 128) * n // 8, 4), (up(k, 128) * n, 2), (k, 4)],
    "gptq-8-g32": lambda k, n: [(k // 4 * n, 4), (up(k, 32) * n // 4, 4), (up(k, 32) * n, 2), (k, 4)],
    "gptq-3-g64": lambda k, n: [(k * 3 // 32 * n, 4), (up(k, 64) * n * 3 // 32, 4), (up(k, 64) * n, 2), (k, 4)],
    "exl3-3": lambda k, n: [(k // 16 * (n // 16) * 16 * 3, 2), (k, 2), (n, 2)],
    "mlx": lambda k, n: [(k * n // 8, 4), (up(k, 64) * n, 2), (up(k, 64) * n, 2)],
    "mlx-8-g32": lambda k, n: [(k * n // 4, 4), (up(k, 32) * n, 2), (up(k, 32) * n, 2)],
    "nf4": lambda k, n: [(k * n // 2, 1), (up(k * n, 64), 4), (16, 4)],
    "nf4-double": lambda k, n: [(k * n // 2, 1), (up(k * n, 64), 1), (up(up(k * n, 64), 256), 4), (16 + 256 + 1, 4)],
    "bnb-int8": lambda k, n: [(k * n, 1), (n, 4), (1, 1)],
    "hqq": lambda k, n: [(k * n // 2, 1), (k * n // 64, 2), (k * n // 64, 2)],
    "torchao-int4": lambda k, n: [(k * n // 2, 1), (up(k, 128) * n, 2), (up(k, 128) * n, 2)],
    "torchao-int8": lambda k, n: [(k * n, 1), (n, 2)],
    "fp8-block": lambda k, n: [(k * n, 1), (up(k, 128) * up(n, 128), 4)],
    "fp8-channel": lambda k, n: [(k * n, 1), (n, 2)],
    "fp8-tensor": lambda k, n: [(k * n, 1), (1, 4)],
    "nvfp4-modelopt": lambda k, n: [(k * n // 2, 1), (k * n // 16, 1), (2, 4)],
    "w4a16": lambda k, n: [(k * n // 8, 4), (up(k, 128) * n, 2), (2, 8)],
}


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_bytes_are_those_of_the_tensors(name):
    def size(k, n):
        return sum(count * each for count, each in TENSORS[name](k, n))

    table = 2 * VOCAB * D
    outside = size(D, VOCAB) if name.startswith("mlx") else table
    head = VOCAB * D * 6 / 8 + 2 * (D + VOCAB) if name.startswith("exl3") else outside
    expected = LAYERS * sum(size(k, n) for k, n in MATRICES) + outside + head + NORMS
    assert total(with_weight_format(model(), name)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "name", "published", "source"),
    [
        ("llama-3-8b", "awq", 5.73e9, "vLLM's AWQ tensors of llama-3-8b, summed"),
        ("llama-3-70b", "awq", 39.8e9, "the same for 70B"),
        ("llama-2-7b", "awq", 3.89e9, "model.safetensors of TheBloke/Llama-2-7B-AWQ on the Hub"),
        ("llama-2-7b", "gptq", 3.90e9, "model.safetensors of TheBloke/Llama-2-7B-GPTQ on the Hub, main branch"),
        ("llama-3-8b", "nf4-double", 5.70e9, "model.safetensors of unsloth/llama-3-8b-bnb-4bit on the Hub"),
        ("gpt-oss-120b", "mxfp4-experts", 60.8 * 2**30, "OpenAI, gpt-oss model card: checkpoint of 60.8 GiB"),
    ],
)
def test_published_sizes(spec, name, published, source):
    assert total(with_weight_format(load_model(spec), name)) == pytest.approx(published, rel=0.002), source


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "awq"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32, "desc_act": True, "sym": False}, "gptq-8-g32"),
        ({"quant_method": "exl3", "bits": 3.0, "head_bits": 6}, "exl3-3"),
        ({"bits": 4, "group_size": 64}, "mlx"),
        ({"bits": 4, "group_size": 32, "mode": "mxfp4"}, "mlx-mxfp4"),
        ({"bits": 4, "group_size": 16, "mode": "nvfp4"}, "mlx-nvfp4"),
        ({"bits": 8, "group_size": 32, "mode": "mxfp8"}, "mlx-mxfp8"),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4-double"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["lm_head"]}, "bnb-int8"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "hqq"),
        (
            {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 128}},
            "torchao-int4",
        ),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig", "_data": {}}}},
            "torchao-int8",
        ),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4-modelopt"),
    ],
)
def test_a_config_says_the_same(config, name):
    by_config = model(quantization_config=config)
    held = by_config.with_changes(quantization=checkpoint_format(by_config))
    assert total(held) == pytest.approx(total(with_weight_format(model(), name)), rel=1e-12)


def packed(**more):
    weights = {"num_bits": 4, "type": "int", "group_size": 64, "symmetric": True, "strategy": "group"}
    group = {"weights": weights, "targets": ["Linear"]}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": group},
        **more,
    }


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        (["lm_head"], []),
        (["lm_head", "re:.*self_attn.*"], [(layer, m) for layer in range(3) for m in range(4)]),
        (["model.layers.1.mlp.down_proj"], [(1, 6)]),
        (["re:.*layers\\.0\\..*"], [(0, m) for m in range(7)]),
    ],
)
def test_modules_left_in_16_bits(ignored, left):
    spec = model(quantization_config=packed(ignore=ignored))

    def size(k, n):
        return k * n // 2 + 2 * n * (k // 64) + 16

    both = 0
    for layer in range(LAYERS):
        for at, (k, n) in enumerate(MATRICES):
            both += 2 * k * n if (layer, at) in left else size(k, n)
    expected = both + 2 * 2 * VOCAB * D + NORMS
    assert total(spec.with_changes(quantization=checkpoint_format(spec))) == pytest.approx(expected, rel=1e-12)


def test_a_module_that_is_not_there():
    with pytest.raises(
        DataError,
        match=r"'model\.layers\.0\.spin_proj', quantized otherwise than the rest or not at all, names no linear layer",
    ):
        checkpoint_format(model(quantization_config=packed(ignore=["model.layers.0.spin_proj"])))
    checkpoint_format(
        model(quantization_config=packed(ignore=["model.layers.61.mlp.up_proj"]))
    )  # a prediction module behind the layers
    with pytest.raises(DataError, match="is no regular expression"):
        checkpoint_format(model(quantization_config=packed(ignore=["re:*("])))


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("awq-3", "awq has 4 bits, not 3"),
        ("exl3-9", "exl3 has 1 to 8 bits, not 9"),
        ("gptq-4-g100", "gptq has groups of 16, 32"),
        ("fp8-block-8-g64", "fp8-block has no groups"),
        ("awq-4-h6", "awq has no head of its own"),
        ("mlx-fast", "unknown format 'mlx-fast'"),
    ],
)
def test_what_no_tool_writes(written, says):
    with pytest.raises(UsageError, match=says):
        parse(written)
    assert run_cli("estimate", "llama-3-8b", "--hw", "rtx-4090", "--weight-dtype", written).code == 2


def test_every_row_has_a_source_and_parses():
    for name, scheme in schemes().items():
        assert scheme.source and parse(name).method == name
    assert parse("int4") is None and parse("q4_k_m") is None and parse("mlx-mxfp4").dtype == "mxfp4"


def test_on_the_command_line():
    def weights(*more):
        return run_cli(
            "estimate", "llama-3-8b", "--hw", "rtx-4090", "--phase", "decode", "--batch", "1", "--format", "json", *more
        ).json

    plain, awq, wide = weights(), weights("--weight-dtype", "awq"), weights("--weight-dtype", "exl3-8-h8")
    assert awq["model"]["weights_bytes"] == pytest.approx(5.728e9, rel=1e-3)
    assert awq["phases"]["decode"]["time_s"] < wide["phases"]["decode"]["time_s"] < plain["phases"]["decode"]["time_s"]
    fitted = json.loads(
        run_cli("fit", "llama-3-8b", "--hw", "rtx-4090", "--file", "awq,mlx-8,Q4_K_M", "--format", "json").out
    )
    largest_first = [(f["bytes"] // 10**8, f["engine"]) for f in fitted["files"]]
    assert largest_first == [(85, "MLX"), (57, "AutoAWQ"), (49, "llama.cpp")]


def test_a_model_without_a_vocabulary_keeps_its_format_as_written():
    """No table of words, so no bytes of one: its weights weigh what their format says."""
    from rooflinecli.engine.stored_weights import exact
    from rooflinecli.specs.model import Quantization

    spec, stored = load_model("vit-l-16"), Quantization(dtype="fp8")
    assert not spec.vocab_size
    assert exact(spec, stored) is stored


@pytest.mark.parametrize(("name", "tables"), [("llama-3.2-1b", 1), ("llama-3-8b", 2)])
def test_tables_outside_the_layers_count_once_where_they_are_tied(name, tables):
    """Embedding, head and final norm in 16 bits weigh two bytes each, whether they are one table or two."""
    from rooflinecli.engine.stored_weights import exact
    from rooflinecli.specs.model import Quantization

    spec = load_model(name)
    assert (1 if spec.tied_embeddings else 2) == tables
    widths = exact(spec, Quantization(dtype="fp8")).widths
    assert (widths.outer, widths.head) == (pytest.approx(2.0), pytest.approx(2.0))


def test_modules_that_gptqmodel_leaves_stay_in_16_bits():
    """A rule that begins with -: takes what its expression matches out."""
    whole = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    plain, some = (
        model(quantization_config=whole),
        model(quantization_config=whole | {"dynamic": {r"-:.*self_attn\.o_proj.*": {}}}),
    )
    size = [total(m.with_changes(quantization=checkpoint_format(m))) for m in (plain, some)]
    n = sum(g.repeat for g in plain.layers)
    heads = plain.layers[0].attention
    k = heads.n_heads * heads.head_dim
    packed = sum(count * width for count, width in (
        (k // 8 * plain.d_model, 4), (up(k, 32) * plain.d_model // 8, 4), (up(k, 32) * plain.d_model, 2), (k, 4)
    ))  # fmt: skip
    assert size[1] - size[0] == pytest.approx(n * (2 * k * plain.d_model - packed), rel=1e-9)


def test_scales_for_a_cache_of_8_bits_are_told():
    scheme = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    noted = model(quantization_config={"quant_method": "fp8", "kv_cache_scheme": scheme}).notes
    assert any("--kv-dtype fp8" in note for note in noted)
    assert not any("--kv-dtype" in note for note in model(quantization_config={"quant_method": "fp8"}).notes)


@pytest.mark.parametrize(
    ("config", "stored"),
    [  # transformers' AwqConfig: zero_point true; compressed-tensors' QuantizationArgs: symmetric true
        ({"quant_method": "awq", "bits": 4}, {"dtype": "int4", "zero_bits": 4, "scale_bits": 16, "group_size": 128}),
        ({"quant_method": "gptq", "bits": 8}, {"dtype": "int8", "zero_bits": 8, "group_size": 128}),
        ({"quant_method": "awq", "bits": 4, "zero_point": False}, {"zero_bits": 0}),
        (_linear_group(num_bits=8, strategy="channel"), {"zero_bits": 0, "output_bits": 16}),
        (_linear_group(num_bits=8, strategy="channel", symmetric=False), {"zero_bits": 0, "output_bits": 24}),
        (_linear_group(num_bits=4, strategy="group", group_size=64), {"zero_bits": 0, "scale_bits": 16}),
        (_linear_group(num_bits=4, strategy="group", group_size=64, symmetric=False), {"zero_bits": 4}),
    ],
)
def test_what_a_config_omits_is_its_tools_default(config, stored):
    read = model(quantization_config=config).quantization
    assert {name: getattr(read, name) for name in stored} == stored


def test_which_formats_mean_the_experts_alone():
    """gpt-oss: in serving 8 bits or 4 are its experts'; in training 8 bits are all matmuls."""
    experts = load_model("gpt-oss-20b").quantization
    for training, eight in ((False, True), (True, False)):
        assert experts_alone("fp8", None, experts, training) is eight
        assert experts_alone("mxfp4", None, experts, training)
        assert not experts_alone("bf16", None, experts, training)
    assert not experts_alone("fp8", "int4", experts) and not experts_alone("fp8", None, None)


def test_kernels_over_packed_experts_run_at_the_engines_rate():
    """Weights below 16 bits in the experts alone are packed weights too."""
    eight = Quantization(dtype="int8", bits=8, applies_to="experts", weight_only=True)
    peaks = {"bf16": 1, "int8": 1}
    assert formats("bf16", None, None, peaks, "chip", eight, packed="int8").compute == "int8"
    assert formats("bf16", None, None, peaks, "chip", packed="int8").compute == "bf16"


def test_more_matrices_than_parameters_are_none_of_a_file():
    with pytest.raises(UsageError, match="not those of a GGUF file"):
        file_bytes(load_model("llama-3-8b"), "Q4_K_M", 1_000_000)
