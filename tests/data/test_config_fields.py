"""Fields of a config.json: each kind of value with its bounds and what stands in for it, and what notes say of the rest."""

from __future__ import annotations

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.importers.hf import from_config
from rooflinecli.specs.field_reader import MISSING, ConfigFields

pytestmark = pytest.mark.sampled(100)  # each set is a case of its own

DATA = {
    "zero": 0, "two": 2, "half": 0.5, "yes": True, "no": False, "word": "silu", "null": None, "auto": "auto", "many": [1, 2, 3], "none": [], "square": [14, 14], "oblong": [14, 28],
    "also": 2, "other": 3, "num_hidden_layers": 10_000, "n_layer": 10_001, "id2label": {"0": "a", "1": "b", "2": "c"}, "architectures": ["XForCausalLM"],
}  # fmt: skip


def fields(**data):
    return ConfigFields(
        DATA | data, {"usual": 7, "kept": [1]}, lambda *path: "c.json:" + ".".join(path), ("text_config",)
    )


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda f: f.raw("two", "also"), 2), (lambda f: f.raw("absent", "also"), 2), (lambda f: f.raw("usual"), 7), (lambda f: f.raw("absent") is MISSING, True),
        (lambda f: f.integer("two"), 2), (lambda f: f.integer("usual"), 7), (lambda f: f.integer("zero", least=0), 0), (lambda f: f.integer("null", null=5), 5), (lambda f: f.integer("absent", null=5), 5),
        (lambda f: f.integer("num_hidden_layers"), 10_000), (lambda f: f.integer("absent", "two"), 2),
        (lambda f: f.optional("zero"), None), (lambda f: f.optional("null"), None), (lambda f: f.optional("absent"), None), (lambda f: f.optional("two"), 2),
        (lambda f: f.flag("yes"), True), (lambda f: f.flag("no", True), False), (lambda f: f.flag("null", True), True), (lambda f: f.flag("absent"), False),
        (lambda f: f.text("word"), "silu"), (lambda f: f.text("null", default="gelu"), "gelu"), (lambda f: f.text("absent"), ""),
        (lambda f: f.items("many", int, 3), [1, 2, 3]), (lambda f: f.items("none", int, 3), []), (lambda f: f.items("null", int), None), (lambda f: f.items("kept", int), [1]),
        (lambda f: f.listed("many"), [1, 2, 3]), (lambda f: f.listed("word"), []),
        (lambda f: f.side("square"), 14), (lambda f: f.side("two"), 2),
        (lambda f: f.ratio("half"), 0.5), (lambda f: f.ratio("two"), 2.0), (lambda f: f.ratio("absent", null=1.5), 1.5), (lambda f: f.ratio("null", null=1.5), 1.5), (lambda f: f.ratio("half", most=0.5), 0.5),
        (lambda f: f.integer_or_auto("auto", null=4), 4), (lambda f: f.integer_or_auto("absent", null=4), 4), (lambda f: f.integer_or_auto("two", null=4), 2),
        (lambda f: f.labels(), 3), (lambda f: fields(num_labels=9).labels(), 9), (lambda f: fields(id2label={}).labels(), 2),
        (lambda f: f.head({"Model": "bare", "ForCausalLM": "lm"}), "lm"), (lambda f: fields(architectures=None).head({"Model": "bare"}), "bare"),
        (lambda f: f.expect("word", ("silu", None), "x"), None), (lambda f: f.expect("absent", ("silu",), "x"), None), (lambda f: f.expect("null", (None,), "x"), None),
    ],
)  # fmt: skip
def test_a_value_is_read_or_what_stands_in_for_it(call, found):
    assert call(fields()) == found


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f: f.raw("also", "other"), "also: disagrees with other, another name of it; keep one"),
        (lambda f: f.integer("absent"), "absent: required, but missing; add it"), (lambda f: f.integer("null"), "null: required, but missing"),
        (lambda f: f.integer("zero"), "zero: expected at least 1, got 0"), (lambda f: f.integer("absent", "half"), "half: expected a whole number, got '0.5'"),
        (lambda f: f.integer("yes"), "yes: expected a whole number, got 'True'"), (lambda f: f.integer("n_layer"), "n_layer: 10001 layers are more than"),
        (lambda f: f.flag("two"), "two: expected true or false, got '2'"), (lambda f: f.text("two"), "two: expected text, got '2'"),
        (lambda f: f.items("many", str), "many: expected a list of str values"), (lambda f: f.items("two", int), "two: expected a list"), (lambda f: f.items("many", int, 4), "many: has 3 entries for 4 layers"),
        (lambda f: f.side("oblong"), "oblong: 14 by 28 is no square"), (lambda f: f.side("many"), "many: expected a whole number"), (lambda f: fields(square=[0, 0]).side("square"), "square: expected a whole number"),
        (lambda f: f.ratio("zero"), "zero: expected a number above zero"), (lambda f: f.ratio("yes"), "yes: expected a number above zero"), (lambda f: f.ratio("absent"), "absent: expected a number"),
        (lambda f: f.ratio("two", most=1.0), "two: expected a share of at most 1"),
        (lambda f: f.head({"Model": "bare"}), "architectures: XForCausalLM has a head that is not supported; supported: Model"),
        (lambda f: f.expect("yes", (1, "silu"), "drop it"), "yes: 'True' is not supported; drop it"), (lambda f: f.expect("null", ("silu",), "drop it"), "null: 'None' is not supported"),
        (lambda f: f.finish(frozenset(DATA) - {"two"}), "two: unknown field for this model_type that may change shapes"),
        (lambda f: f.finish(frozenset(DATA) - {"two", "half", "word"}), r"two: unknown field for this model_type \(and 2 more: half, word\)"),
    ],
)  # fmt: skip
def test_another_value_is_refused_where_it_stands(call, said):
    with pytest.raises(DataError, match=rf"^c\.json:text_config\.\w+: {said}"):
        call(fields())


def test_what_says_nothing_may_be_left_unread():
    read = ConfigFields({"a": None, "b": [], "c": {}, "mlp_bias": False, "d": 1}, {}, lambda *_: "x", used={"d"})
    read.finish(frozenset())
    with pytest.raises(DataError, match="mlp_bias: unknown field"):
        ConfigFields({"mlp_bias": True}, {}, lambda *_: "x").finish(frozenset())
    with pytest.raises(DataError, match="a: unknown field"):
        ConfigFields({"a": False}, {}, lambda *_: "x").finish(frozenset())


def test_notes_name_what_was_not_read_and_what_was_assumed():
    """DeepSeek-V3's routing changes no shape; its rope and dropout are no news; a decisive size that is absent is said twice."""
    given = {
        "model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96, "num_attention_heads": 4,
        "n_group": 8, "topk_method": "noaux_tc", "scoring_func": None, "rope_theta": 1e6, "attention_dropout": 0.1,
    }  # fmt: skip
    model = from_config(given)
    unused, assumed = model["notes"]
    assert unused == "Config fields not used because they change no shape: n_group, topk_method."
    names = {part.split()[0] for part in assumed.partition("defaults: ")[2].split(", ")}
    assert names >= {"vocab_size", "kv_lora_rank", "n_routed_experts"} and not names & set(given)
    assert "tie_word_embeddings" not in names  # a switch, no size
    assert model["assumed"] == "config.json: absent, so the defaults of transformers' deepseek_v3: vocab_size 129280"
    assert "assumed" not in from_config(given | {"vocab_size": 100})
