"""models/*.yaml: every file loads, cites a source, and counts the parameters others publish, to the unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.questions.models.answer import sheet
from rooflinecli.specs.model import load_model
from rooflinecli.specs.name_lookup import aliases

FOLDER = Path(__file__).resolve().parents[2] / "models"
FILES = sorted(FOLDER.glob("*.yaml"))
PUBLISHED = [path for path in FILES if "parameters_published" in path.read_text(encoding="utf-8")]

# What papers and model cards round to: (file, total in billions, active in billions or None), to the digits printed there
REPORTED = [
    ("gpt3-175b", 175.0, None, 0.003),
    ("palm-540b", 540.35, None, 1e-4),
    ("palm-62b", 62.50, None, 1e-3),
    ("opt-175b", 175.0, None, 0.003),
    ("falcon-180b", 180.0, None, 0.01),
    ("glm-4.5", 355.0, 32.0, 0.06),
    ("glm-4.5-air", 106.0, 12.0, 0.13),
    ("mixtral-8x7b", 46.7, 12.9, 5e-3),
    ("deepseek-v3", 671.0, 37.0, 0.02),
    ("kimi-k2", 1026.0, 32.0, 0.03),
    ("qwen3-235b-a22b", 235.0, 22.0, 0.01),
    ("llama-4-scout", 109.0, 17.0, 0.02),
    ("addition-10m", 0.0106, None, 0.01),
]
# KV cache at bf16, bytes per token: 2 x 2 x layers x kv_heads x head_dim; MLA caches rank + rope = 576 values per layer
CACHE = [
    ("llama-3-70b", 2 * 2 * 80 * 8 * 128),
    ("llama-2-7b", 2 * 2 * 32 * 32 * 128),
    ("deepseek-v3", 2 * 61 * 576),
    ("gpt3-175b", 2 * 2 * 96 * 96 * 128),
    ("falcon-7b", 2 * 2 * 32 * 1 * 64),
    ("vit-b-16", 0),
]


@pytest.mark.sampled(60)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_loads_and_cites(path):
    spec = load_model(path.stem)
    assert len(spec.source) > 20 and spec.family
    assert parameters(spec).total >= parameters(spec).active >= parameters(spec).active_without_embedding > 0


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda p: p.stem)
def test_published_count_to_the_unit(path):
    spec = load_model(path.stem)
    assert parameters(spec).total == spec.parameters_published


@pytest.mark.parametrize(("name", "total", "active", "tolerance"), REPORTED)
def test_reported_size(name, total, active, tolerance):
    counted = parameters(load_model(name))
    assert counted.total == pytest.approx(total * 1e9, rel=tolerance)
    if active:
        assert counted.active == pytest.approx(active * 1e9, rel=tolerance)


@pytest.mark.parametrize(("name", "expected"), CACHE)
def test_cache_per_token(name, expected):
    assert sheet(name)["kv_cache"]["bytes_per_token"] == expected


def test_windowed_layers_stop_growing():
    """Gemma 2 9B at 8192 tokens: half of the 42 layers keep 4096 of them."""
    assert sheet("gemma-2-9b")["kv_cache"]["bytes_at_max_context"] == 2 * 2 * 21 * 8 * 256 * (8192 + 4096)


def test_both_conventions_of_active():
    """gpt-oss-20b: 4.19B with the input embedding, 3.61B without, as its card counts."""
    counted = parameters(load_model("gpt-oss-20b"))
    assert counted.active == 4187440704
    assert counted.active_without_embedding == counted.active - 201088 * 2880


def test_heads_need_not_fill_the_width():
    for name in ("gemma-7b", "gemma-2-9b", "qwen3-32b", "gpt-oss-20b", "palm-540b"):
        spec = load_model(name)
        attention = spec.layers[0].attention
        assert attention.n_heads * attention.head_dim != spec.d_model


def test_names_and_aliases_are_unambiguous():
    names = [path.stem for path in FILES] + [alias for path in FILES for alias in aliases(path)]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("llama70b", "llama-3-70b"),
        ("llama3-8b", "llama-3-8b"),
        ("llama2-7b", "llama-2-7b"),
        ("gpt2-small", "gpt2"),
        ("gpt-2", "gpt2"),
        ("GPT-3", "gpt3-175b"),
        ("falcon40b", "falcon-40b"),
        ("mixtral", "mixtral-8x7b"),
        ("llama405b", "llama-3.1-405b"),
    ],
)
def test_aliases(alias, name):
    assert load_model(alias).id == name


def test_a_tower_knows_its_lines():
    tower = load_model("clip").towers[0]
    line = int(tower.document.location("vocab_size").rpartition(":")[2])
    assert "vocab_size: 49408" in (FOLDER / "clip-vit-b-32.yaml").read_text(encoding="utf-8").splitlines()[line - 1]
