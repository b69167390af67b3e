"""Rows of Hugging Face families: every key is one that is read, every type stands in one file, every reader and projector exists."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from rooflinecli.importers.hf import TYPES, WRAPPED, from_config, projectors, refused, rows
from rooflinecli.importers.hf.ignored_fields import SETS

KEYS = {
    *("reader", "arguments", "extends", "defaults", "ignored", "own_head", "pair", "varied", "expect"),
    *(
        "width",
        "layers",
        "max_context",
        "optional_context",
        "norm",
        "norms",
        "shared_norm",
        "embedding_norm",
        "final_norm",
    ),
    *(
        "attention",
        "feedforward",
        "experts",
        "mixtures",
        "windows",
        "parallel",
        "positions",
        "lm_head_bias",
        "predictions",
    ),
    *("full_attention", "full_every"),
}
NESTED = {
    "attention": {"heads", "kv", "head_dim", "window", "bidirectional", "qkv_bias", "out_bias", "qk_norm", "sinks"}
    | {"out_gate", "out_norm", "kind"},
    "feedforward": {"kind", "size", "multiple", "bias", "optional", "scalars", "inner_norm"},
    "experts": {
        "size",
        "count",
        "top_k",
        "n_shared",
        "shared_d_ff",
        "optional_shared_d_ff",
        "shared_gate",
        "shared_bias",
    }
    | {"score_bias", "router_bias", "bias"},
    "mixtures": {"first", "default", "every", "except"},
    "windows": {"size", "when", "usual", "full_every", "full_first", "full_without_positions", "first", "end"},
    "positions": {"kind", "extra_rows"},
}
ALL = [(where, name) for where in ("families", "vision_encoders") for name in rows.texts(where)]


@pytest.mark.parametrize("where", ["families", "vision_encoders"])
def test_a_type_is_in_one_file(where):
    names = [
        name
        for file in (rows.HERE / where).glob("*.yaml")
        for name in re.findall(r"^([\w.-]+):", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert set(names) == set(rows.texts(where))


@pytest.mark.parametrize(("where", "name"), ALL, ids=[name for _, name in ALL])
def test_keys_are_read_and_readers_exist(where, name):
    row = rows.row(where, name)
    assert set(row) <= KEYS
    for key, known in NESTED.items():
        assert set(row.get(key) or ()) <= known, key
    assert "reader" in row or "feedforward" in row or "experts" in row
    assert all(field[1:] in SETS for field in row.get("ignored", "").split() if field.startswith("$"))
    assert callable(rows.family(where, name).convert)


@pytest.mark.parametrize("name", sorted(WRAPPED))
def test_wrappers_name_known_parts(name):
    row = rows.row("wrappers.yaml", name)
    assert set(row) <= {"decoder", "any_decoder", "tied", "encoder", "projector", "renamed"}
    assert row["decoder"] in TYPES and row["encoder"] in rows.texts("vision_encoders")
    assert callable(getattr(projectors, row["projector"]))


def test_only_the_row_of_a_type_is_parsed():
    rows.row.cache_clear()
    rows.family.cache_clear()
    from_config({"model_type": "glm4"})
    assert rows.row.cache_info().currsize == 1
    assert len(refused()) > 600
