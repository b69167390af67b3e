"""Hybrid and recurrent models against transformers 5.23.0: parameters, active parameters, state and FLOPs, to the unit.

tests/data/hf_counts holds configs and, in counts.json, what torch counts of the classes built from them on the meta device.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from rooflinecli.answers.parameters import parameters
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.scene import Scene
from rooflinecli.engine.training import train
from rooflinecli.errors import DataError
from rooflinecli.layers.build import ledger
from rooflinecli.lift import PLAIN
from rooflinecli.mixer import Mode
from rooflinecli.phases.flops import rows_flops
from rooflinecli.phases.sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.specs.dtypes import formats
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.hf import TYPES, from_config
from rooflinecli.specs.load import Document
from rooflinecli.specs.model import model_from
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.request import Request

ROOT = Path(__file__).resolve().parent / "hf_counts"
COUNTS = {k: v for k, v in json.loads((ROOT / "counts.json").read_text()).items() if k != "_meta"}
READ = sorted(name for name, c in COUNTS.items() if c["model_type"] in TYPES)
STATEFUL = [name for name in READ if {"conv", "recurrent", "indexer"} & set(COUNTS[name]["state_parts_bytes"] or {})]
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
        ledger(spec_of(name)),
        work_sizes(1.0, 1.0, 1.0, 1.0, Plan()),
    )
    held = [(layer, layer_sizes(layer, work, Plan(), None, PLAIN)) for layer in book.layers if layer.mixer is not None]
    return sum(layer.mixer.cache_bytes(f, sizes, 1.0, 4096.0) * layer.repeat for layer, sizes in held)


@pytest.mark.parametrize("name", READ)
def test_parameters(name):
    counted, known = parameters(spec_of(name)), COUNTS[name]
    assert counted.total == known["total"]
    assert counted.active == (known["active"] or known["total"])


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
    book, mode = ledger(spec_of(name)), Mode(PLAIN_FORMATS, full_attention=True)
    work, linear, scores = work_sizes(1.0, TOKENS, TOKENS, TOKENS, Plan()), 0.0, 0.0
    for layer in book.layers:
        sizes = layer_sizes(layer, work, Plan(), None, PLAIN)
        linear += rows_flops(tuple(r for r in layer.rows if r.mixer is None), mode, sizes) * layer.repeat
        softmax = [r.mixer for r in layer.rows if r.mixer is not None and hasattr(r.mixer, "pairs")]
        scores += sum(m.flops(mode, sizes) for m in softmax) * layer.repeat
    linear += rows_flops((*book.stem, *book.head), mode, outer_sizes(book, work, Plan(), None, PLAIN))
    parts = COUNTS[name]["flops_parts"]
    assert linear == parts["linear"]
    assert scores == parts.get("attention", 0)


@pytest.mark.parametrize("name", ["minimax-text-01", "qwen3-next-80b-a3b", "kimi-linear-odd"])
def test_chunked_forms_where_the_counter_sees_all_products(name):
    """Lightning attention's blocks; the delta rule's, whose triangular solves torch does not count."""
    book, seen = ledger(spec_of(name)), 0.0
    for layer in book.layers:
        sizes = layer_sizes(layer, work_sizes(1.0, TOKENS, TOKENS, TOKENS, Plan()), Plan(), None, PLAIN)
        if not hasattr(layer.mixer, "pairs"):
            solves = TOKENS * sizes["N"] * sizes["chunk"] * (sizes["H"] + sizes["Hv"]) if "Hv" in sizes else 0.0
            seen += (layer.mixer.scan(TOKENS, sizes) - solves) * layer.repeat
    assert seen == COUNTS[name]["flops_parts"]["scan"]


@pytest.mark.parametrize("name", [n for n in STATEFUL if COUNTS[n]["total"] < 1e9] + ["zamba2-2.7b"])
@pytest.mark.parametrize("chip", ["h100", "tpu-v5p"])
def test_every_mixer_is_priced_in_every_phase(name, chip):
    asked = {"devices": 1.0, "prompt": 512.0, "output": 64.0, "batch": 4.0, "seq": 512.0}
    scene = Scene(Request(spec_of(name), load_hardware(chip), **asked))
    for phase in (prefill, decode, train):
        answer = phase(scene, Plan())
        assert answer.time_s >= answer.floor_s > 0
        assert answer.interval_s[0] <= answer.time_s <= answer.interval_s[1]


@pytest.mark.parametrize("name", ["mamba2-2.7b-odd", "falcon-mamba-7b", "rwkv-odd"])
def test_a_state_does_not_grow_with_the_context(name):
    def held(prompt: float) -> float:
        scene = Scene(Request(spec_of(name), load_hardware("h100"), prompt=prompt, output=1.0, batch=8.0))
        return decode(scene, Plan()).memory.kv_cache_bytes

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
        ("jamba-v0.1", {"mamba_width": 3}, "mamba_width: not a field this importer knows"),
    ],
)
def test_what_is_refused(name, change, says):
    with pytest.raises(DataError, match=says):
        from_config({**config(name), **change})
