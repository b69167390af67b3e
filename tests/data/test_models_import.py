"""Hugging Face configs against what transformers itself builds: parameters, active parameters and forward FLOPs, to the unit."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import run_cli

import rooflinecli as rl
from rooflinecli.core.errors import DataError, RooflineWarning
from rooflinecli.core.lift import PLAIN
from rooflinecli.importers.hf import TYPES, WRAPPED, from_config, model_document
from rooflinecli.importers.hf.config_json import parse_config
from rooflinecli.layers.build import ledger
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.phases.forward import ForwardPass, ledger_flops
from rooflinecli.quantization.formats import formats
from rooflinecli.render.formats.model_file import to_yaml
from rooflinecli.specs.document import Document
from rooflinecli.specs.model import load_model, model_from
from rooflinecli.specs.name_lookup import files
from rooflinecli.specs.yaml_loader import parse

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = json.loads((ROOT / "oracle" / "golden.json").read_text(encoding="utf-8"))
DECODERS = json.loads((ROOT / "oracle" / "golden_decoders.json").read_text(encoding="utf-8"))["cases"]
RANDOM = [row for row in (*GOLDEN["cases"], *DECODERS) if "config" in row]
REAL = [row for row in GOLDEN["cases"] if "file" in row]
BY_TYPE: dict[str, list] = {}
for case in RANDOM:
    BY_TYPE.setdefault(case["config"]["model_type"], []).append(case)
PER_TYPE = 12
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}


# Rows the ledger does not have yet; strict, so that the mark goes when the row comes
def spec_of(config: dict):
    return model_from(Document(from_config(config), Path("config.json")))


def config_path(name: str) -> Path:
    return ROOT / "data" / "hf" / f"{name}.json"


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", sorted(BY_TYPE))
def test_parameters_of_random_configs(kind):
    for row in BY_TYPE[kind]:
        counted = parameters(spec_of(row["config"]))
        assert (counted.total, counted.active) == (row["total"], row["active"]), row["config"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", sorted(BY_TYPE))
def test_forward_flops_of_random_configs(kind):
    """Matmuls of a whole forward pass, attention counted over every pair of tokens."""
    sequence = float(GOLDEN["sequence"])
    forward = ForwardPass(formats("bf16", None, None, {"bf16": 1}, "any"), full_attention=True)
    for row in (row for row in BY_TYPE[kind] if "forward_flops" in row):
        flops = ledger_flops(
            ledger(spec_of(row["config"])), forward, PLAIN, float(GOLDEN["batch"]), sequence, sequence, sequence
        )
        assert flops == row["forward_flops"], row["config"]


@pytest.mark.parametrize("row", REAL, ids=lambda row: row["file"])
def test_parameters_of_published_configs(row):
    counted = parameters(load_model(str(config_path(row["file"]))))
    assert (counted.total, counted.active) == (row["total"], row["active"])


@pytest.mark.parametrize("name", [row["file"] for row in REAL if row["file"] in files("models")])
def test_config_and_packaged_file_agree(name):
    """Both ways to the same model; only the router's correction bias, a buffer in transformers, may differ."""
    ours, theirs = load_model(name), load_model(str(config_path(name)))
    biases = sum(g.repeat * g.feedforward.n_experts for g in ours.layers if g.feedforward.score_bias)
    towers = sum(parameters(tower).total for tower in theirs.towers)  # the packaged files are of the decoder
    assert parameters(ours).total == parameters(theirs).total - towers + biases
    assert (ours.max_context, ours.n_layers, ours.vocab_size) == (
        theirs.max_context,
        theirs.n_layers,
        theirs.vocab_size,
    )

    def spans(spec):
        return sorted(
            Counter({(g.attention.window, g.attention.chunk, g.attention.rotary): g.repeat}).items()
            for g in spec.layers
        )

    assert {w for group in spans(ours) for w, _ in group} == {w for group in spans(theirs) for w, _ in group}


@pytest.mark.parametrize("row", REAL, ids=lambda row: row["file"])
def test_written_yaml_is_the_same_model(row):
    document = model_document(config_path(row["file"]))
    again = model_from(parse(to_yaml(document.data), Path("again.yaml")))
    assert again == model_from(document)


def test_every_type_has_cases():
    """No supported type goes unchecked: random configs, or one of hf_counts; kimi_k2 runs deepseek_v3's code and has a published config."""
    counts = json.loads((ROOT / "data" / "hf_counts" / "counts.json").read_text(encoding="utf-8"))
    counted = {c["model_type"] for name, c in counts.items() if name != "_meta"}
    drawn = json.loads((ROOT / "oracle" / "golden_encoder_families.json").read_text(encoding="utf-8"))["cases"]
    others = {case["file"] for case in drawn} | {"mllama_text_model"}  # the last as mllama
    others |= {
        "mimo",
        "nemotron-nas",
        "minimax_m3",
        "minimax_m3_vl",
        "minimax_m3_vl_text",
        "kimi_k25",
    }
    remote = json.loads((ROOT / "data" / "hf_remote_code.json").read_text(encoding="utf-8"))
    others |= {case["config"]["model_type"] for case in remote.values()}
    more = json.loads((ROOT / "oracle" / "golden_dense_families.json").read_text(encoding="utf-8"))["cases"]
    others |= {case["config"]["model_type"] for case in more} | {
        "glm4v_text",
        "glm4v_moe_text",
        "glm_ocr_text",
    }  # the last as wrappers
    same = {
        "xlm-roberta": "roberta",
        "camembert": "roberta",
        "bailing_moe_v2": "bailing_moe",
        "umt5": "mt5",
        "deepseek_ref": "deepseek_v4",
        "youtu_llm": "youtu",
        "exaone4_5_text": "exaone4",
        "hy_v4_vl_text": "hy_v4",
    }  # one code, two names
    assert set(same.values()) <= counted | set(BY_TYPE) | others
    left = set(TYPES) - set(BY_TYPE) - counted - {f"{kind}_text" for kind in counted}
    assert left - others - set(same) == {"kimi_k2"}
    real = {json.loads(config_path(r["file"]).read_text())["model_type"] for r in REAL}
    assert real | counted | others >= {"kimi_k2", *WRAPPED}
    assert all(
        len(rows) == PER_TYPE or kind in {c["config"]["model_type"] for c in DECODERS} for kind, rows in BY_TYPE.items()
    )
    assert min(len(rows) for rows in BY_TYPE.values()) >= 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"model_type": "hyena"},
            "model_type: unknown type 'hyena'; known: ",
        ),
        ({"model_type": "llama5_text"}, "unknown type 'llama5_text'; did you mean llama4_text"),
        ({"moonshot_width": 12}, "moonshot_width: unknown field for this model_type"),
        ({"per_layer_config": {"0": {"hidden_size": 8}}}, "per-layer configurations"),
        ({"is_encoder_decoder": True}, "only decoders are supported for this model_type"),
        ({"pruned_heads": {"0": [1]}}, "pruned heads"),
        ({"hidden_size": "64"}, "hidden_size: expected a whole number, got '64'"),
        ({"hidden_size": True}, "hidden_size: expected a whole number"),
        ({"hidden_size": 64.0}, "hidden_size: expected a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: expected at least 1, got 0"),
        ({"num_attention_heads": 5}, "5 heads do not divide the width 64"),
        ({"num_key_value_heads": 3}, "3 key/value heads do not divide 4 heads"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings: expected true or false"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "a head that is not supported"),
        ({"quantization_config": {"quant_method": "quip"}}, "unknown scheme 'quip'; known: auto-round, awq"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 5}}, "5-bit integers are not known"),
        ({"quantization_config": {"quant_method": "exl3", "bits": "four"}}, "expected a number from 1 to 8"),
        (
            {"quantization_config": {"quant_method": "torchao", "quant_type": "uintx"}},
            "'uintx' is not supported; supported: int4",
        ),
    ],
)
def test_what_is_refused(change, says):
    text = json.dumps({**LLAMA, **change}, indent=1)
    document = parse_config(text, Path("config.json"))
    with pytest.raises(DataError, match=r"^config.json:") as error:
        from_config(document.data, document.location)
    assert says in str(error.value)
    key = next(iter(change))
    line = int(str(error.value).split(":")[1])
    assert f'"{key}"' in text.splitlines()[line - 1] or key in ("quantization_config",)


def test_line_of_a_field_inside_text_config():
    text = '{\n "model_type": "gemma3",\n "text_config": {\n  "hidden_size": 64,\n  "novelty": 3\n }\n}'
    document = parse_config(text, Path("config.json"))
    with pytest.raises(DataError, match=r"^config.json:5: novelty"):
        from_config(document.data, document.location)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "config.json:1: not valid JSON"),
        ("[]", "expected a JSON object"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ("{}", "model_type"),
        ('{"model_type": "llama",\n "hidden_size": 3e}', "config.json:2"),
        ("[" * 100000, "config.json"),
    ],
)
def test_broken_json(text, says):
    with pytest.raises(DataError, match=r"^config.json:\d") as error:
        document = parse_config(text, Path("config.json"))
        from_config(document.data, document.location)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            {"dtype": "fp8", "block": [128, 128], "scale_bits": 32},
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128},
            {"dtype": "int4", "group_size": 128, "scale_bits": 16, "zero_bits": 4},
        ),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True},
            {"dtype": "int4", "group_size": 64, "zero_bits": 4},
        ),
        ({"quant_method": "mxfp4"}, {"dtype": "mxfp4", "group_size": 32, "scale_bits": 8, "applies_to": "experts"}),
        (
            {"load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            {"dtype": "int4", "group_size": 64, "scale_bits": 8},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "ignore": ["lm_head"],
                "config_groups": {
                    "group_0": {
                        "targets": ["Linear"],
                        "weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True},
                    }
                },
            },
            {"dtype": "int4", "group_size": 32, "scale_bits": 16},
        ),
    ],
)
def test_quantization(config, expected):
    stored = from_config({**LLAMA, "quantization_config": config})["quantization"]
    assert expected.items() <= stored.items()


def test_defaults_that_shaped_the_model_are_named():
    assert (
        "num_hidden_layers 32"
        in from_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})["notes"][-1]
    )
    assert "notes" not in from_config({**LLAMA, "num_key_value_heads": 4, "max_position_embeddings": 64})


def test_a_model_without_a_head():
    assert from_config({**LLAMA, "architectures": ["LlamaModel"]})["lm_head"] is False


def test_a_folder_is_read_by_its_bare_name_and_a_default_that_decides_is_named(tmp_path, monkeypatch):
    config = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "intermediate_size": 1024}
    for folder, more in (("dir with space", {"vocab_size": 1000, "num_attention_heads": 8}), ("bare", {})):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(json.dumps(config | more))
    monkeypatch.chdir(tmp_path)
    ran = run_cli("estimate", "dir with space", "--hw", "h100", "--phase", "decode")
    assert (ran.code, ran.err) == (0, "")
    monkeypatch.chdir(tmp_path / "bare")
    ran = run_cli("estimate", ".", "--hw", "h100", "--phase", "decode")
    assert ran.code == 0 and "transformers' llama: vocab_size 32000, num_attention_heads 32; they decide" in ran.err
    for _ in range(2):  # a long-lived process says it of every question, though it reads the file once
        with pytest.warns(RooflineWarning, match="num_attention_heads 32; they decide"):
            rl.estimate(".", "h100", phase="decode")


@pytest.mark.parametrize(
    "config, count",
    [
        # openai/whisper-tiny, whose repository has 37,760,640 parameters
        ({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": True, "d_model": 384, "vocab_size": 51865, "encoder_layers": 4,
          "decoder_layers": 4, "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "num_mel_bins": 80,
          "max_source_positions": 1500, "max_target_positions": 448, "forced_decoder_ids": [[1, 50259], [2, 50359], [3, 50363]]}, 37_760_640),
        # openai-community/gpt2-xl as older releases wrote it: 1,557,611,200
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_ctx": 1024, "n_positions": 1024, "vocab_size": 50257,
          "output_past": True}, 1_557_611_200),
    ],
    ids=["whisper-tiny", "gpt2-xl"],
)  # fmt: skip
def test_fields_of_older_releases_change_no_shape(config, count):
    assert parameters(model_from(Document(from_config(config), Path("config.json"), {}))).total == count
