"""Encoders, pairs and models that read images against transformers 5.23.0: parameters and FLOPs to the unit, and how a pass goes.

tests/oracle/golden_others.json holds random sizes, classes and switches (tests/oracle/others.py made it on the meta device).
"""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path

import pytest

from rooflinecli.answers.parameters import parameters
from rooflinecli.engine.inference import prefill
from rooflinecli.engine.scene import Scene
from rooflinecli.engine.training import train
from rooflinecli.errors import DataError
from rooflinecli.layers.build import ledger
from rooflinecli.lift import PLAIN
from rooflinecli.phases.flops import ledger_flops
from rooflinecli.phases.forward import Pass
from rooflinecli.specs.dtypes import formats
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.hf import from_config
from rooflinecli.specs.load import Document
from rooflinecli.specs.model import load_model, model_from
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.request import Request

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
COUNTS = json.loads((ORACLE.parent / "data" / "hf_counts" / "counts.json").read_text())
RANDOM = json.loads((ORACLE / "golden_others.json").read_text())["cases"]
FULL = Pass(formats("bf16", None, None, {"bf16": 1}, "any"), full_attention=True)
ENCODERS = ("bert-odd", "roberta-large", "modernbert-large")


@cache
def others():
    """tests/oracle/others.py, which says what a case changes."""
    found = importlib.util.spec_from_file_location("others", ORACLE / "others.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def read(name: str, change: dict | None = None):
    return model_from(Document(from_config(others().changed(others().config(name), change or {})), Path("config.json")))


def flops(spec, tokens: float) -> float:
    return ledger_flops(ledger(spec), FULL, PLAIN, 1.0, tokens, tokens, tokens)


def scene(name: str, **asked) -> Scene:
    asked = {"devices": 1.0, **asked}
    return Scene(Request(load_model(name), load_hardware("h100"), **asked))


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
    bert = scene("bert-base", prompt=512.0)
    assert not bert.generates
    answer = prefill(bert, Plan())
    assert answer.memory.kv_cache_bytes == 0
    assert answer.floor_s <= answer.time_s


def test_the_batch_of_an_encoder_goes_through_in_one_pass():
    one, many = (scene("bert-base", prompt=128.0, batch=b) for b in (1.0, 64.0))
    alone, together = prefill(one, Plan()), prefill(many, Plan())
    assert together.flops == 64 * alone.flops
    assert together.tokens_per_s == pytest.approx(64 * 128 / together.time_s)
    assert alone.time_s < together.time_s < 64 * alone.time_s
    assert together.memory.activations_bytes > 32 * alone.memory.activations_bytes


def test_an_encoder_trains_with_every_position_scored():
    bert = scene("bert-base", seq=512.0, batch=8.0)
    spec = load_model("bert-base")
    assert train(bert, Plan()).flops == pytest.approx(3 * 8 * flops(spec, 512.0), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("bert-odd", {"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice has a head"),
        ("bert-odd", {"position_embedding_type": "relative_key"}, "only absolute positions are read"),
        ("bert-odd", {"is_decoder": True}, "only its use as an encoder is read"),
        ("bert-odd", {"num_attention_heads": 7}, "7 heads do not divide the width 660"),
        ("bert-odd", {"embedding_size": 128}, "embedding_size: not a field this importer knows"),
        ("roberta-large", {"max_position_embeddings": 2}, "2 rows leave none"),
        ("modernbert-large", {"sliding_window": 32}, "local_attention says 64; keep one"),
    ],
)
def test_what_is_refused(name, change, says):
    with pytest.raises(DataError, match=says):
        read(name, change)


@pytest.mark.parametrize("kind", ["deberta-v2", "albert"])
def test_encoders_of_another_form_say_why(kind):
    with pytest.raises(DataError, match=f"'{kind}' is not read: its .*has no rows here"):
        from_config({"model_type": kind})
