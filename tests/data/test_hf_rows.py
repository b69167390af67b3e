"""Rows of Hugging Face families: every key is one that is read, every type stands in one file, every projector exists."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.core.expressions import Scope
from rooflinecli.importers.hf import TYPES, WRAPPED, from_config, refused, rows
from rooflinecli.importers.hf.rows import SETS
from rooflinecli.specs.field_reader import ConfigFields

pytestmark = pytest.mark.sampled(100)  # each set is a case of its own

KEYS = {
    *("extends", "defaults", "ignored", "own_head", "pair", "varied", "expect"),
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
    *("full_attention", "full_every", "let", "reads", "check", "note", "build"),
}
NESTED = {
    "attention": {"heads", "kv", "head_dim", "window", "bidirectional", "qkv_bias", "out_bias", "qk_norm", "sinks"}
    | {"out_gate", "out_norm", "kind", "fused"},
    "feedforward": {"kind", "size", "multiple", "bias", "optional", "scalars", "inner_norm", "fused"},
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


@pytest.mark.parametrize("where", ["families", "vision_encoders", "projectors", "fragments", "wrappers"])
def test_a_type_is_in_one_file(where):
    folder = rows.HERE / where
    files = sorted(folder.glob("*.yaml")) if folder.is_dir() else [folder.with_suffix(".yaml")]
    names = [
        name for file in files for name in re.findall(r"^([\w.-]+):", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert set(names) == set(rows.texts(where))


def test_keys_are_read_and_readers_exist():
    assert len(ALL) > 150
    for where, name in ALL:
        row = rows.row(where, name)
        assert set(row) <= KEYS, name
        for key, known in NESTED.items():
            assert set(row.get(key) or ()) <= known, (name, key)
        assert "build" in row or "feedforward" in row or "experts" in row, name
        assert all(field[1:] in SETS for field in row.get("ignored", "").split() if field.startswith("$")), name
        assert callable(rows.family(where, name).convert), name


@pytest.mark.parametrize("name", sorted(WRAPPED))
def test_wrappers_name_known_parts(name):
    row = rows.row("wrappers", name)
    assert set(row) <= {"decoder", "any_decoder", "tied", "encoder", "projector", "renamed"}
    assert row["decoder"] in TYPES and row["encoder"] in rows.texts("vision_encoders")
    assert set(rows.row("projectors", row["projector"])["build"]) == {"after", "images"}


def _used(template) -> set[str]:
    """Names of the blocks and fragments that a template uses."""
    if isinstance(template, dict):
        own = {template["use"]} if "use" in template else set()
        return own.union(*map(_used, template.values()))
    return set().union(*map(_used, template)) if isinstance(template, list) else set()


def test_every_fragment_is_used_and_exists():
    used, extended = set(), set()
    for where in ("families", "vision_encoders", "projectors", "fragments"):
        for name, text in rows.texts(where).items():
            row = rows.row(where, name)
            used |= _used([row.get("let"), row.get("build")])
            extended |= set(re.findall(r"^  extends: (\S+)", text, re.MULTILINE))
    assert used - set(rows.BLOCKS) <= set(rows.texts("fragments"))
    assert set(rows.texts("fragments")) <= used | extended
    types = {name for where in ("families", "vision_encoders", "projectors") for name in rows.texts(where)}
    assert not types & set(rows.texts("fragments"))  # what a row extends is looked for among its own kind first


def test_a_row_builds_what_its_expressions_say():
    row = {
        "let": {"width": "hidden_size", "half": "width // 2"},
        "check": [["width % 2 == 0", "hidden_size", "{width} is odd"]],
        "build": {
            "kept": "=half - 2", "left_out": "?half - 2", "listed": [{"each": "range(2)", "place": "=each + half"}, {"if": "half > 2", "no": 1}],
            "either": {"if": "half == 2", "then": "yes", "else": "no"}, "empty": [{"if": "half > 2", "no": 1}],
        },
    }  # fmt: skip
    made = rows.built(row, ConfigFields({"hidden_size": 4}, {}, lambda *_: "here:1"))
    assert made == {"kept": 0, "listed": [{"place": 2}, {"place": 3}], "either": "yes"}
    with pytest.raises(DataError, match="here:1: hidden_size: 5 is odd"):
        rows.built(row, ConfigFields({"hidden_size": 5}, {}, lambda *_: "here:1"))
    with pytest.raises(DataError, match="hidden_size: required, but missing"):
        rows.built(row, ConfigFields({}, {}, lambda *_: "here:1"))


def test_only_the_row_of_a_type_is_parsed():
    rows.row.cache_clear()
    rows.family.cache_clear()
    from_config({"model_type": "glm4"})
    assert rows.row.cache_info().currsize == 1
    assert len(refused()) > 600


def test_sizes_that_no_check_foresaw_are_refused_in_a_sentence():
    """An infinite ratio comes from 1e999 in a file; the step of Qwen2-VL's encoder is no whole number then."""
    config = {
        "model_type": "qwen2_vl",
        "text_config": {"hidden_size": 3584},
        "vision_config": {"mlp_ratio": float("inf")},
    }
    with pytest.raises(
        DataError, match=r"model_type: its fields do not fit together \(.*infinity.*\); check their values"
    ):
        from_config(config)


@pytest.mark.parametrize(
    "text",
    [
        "a + 2 * b ** 2 - -a // 3 % 5 | 8",
        "a / b if a and not b or c else [*c, a][1:]",
        "1 <= a < b != 3 in c",
        "(a or b, a and 0, {x: y for x, y in zip(c, c)}, {x % 2 for x in c if x > 1})",
        "sorted([x * y for x in c for y in range(x) if y], reverse=True)[-1]",
        "f'blk.{a + 1}.{b}' + str(c)",
        "{'a': [c.index(i) for i in c if i not in (1,)], 'b': a is not None}",
    ],
)
def test_expressions_of_rows_come_to_what_python_says(text):
    names = {"a": 2, "b": 5, "c": [1, 2, 3], "zip": zip, "range": range, "sorted": sorted, "str": str}
    assert Scope(names, {}, None).value(text) == eval(text, dict(names))


@pytest.mark.parametrize("text", ["c.__class__", "lambda: a", "(x := a)", "c._x"])
def test_expressions_of_rows_have_no_other_syntax(text):
    with pytest.raises(TypeError, match="is no expression of a row"):
        Scope({"a": 1, "c": []}, {}, None).value(text)
