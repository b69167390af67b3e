"""Spec classes: what was written and what is a default, copies with changes, equality, plain data."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from pydantic import ValidationError

from rooflinecli.specs.efficiency import CONSTANTS, Efficiency
from rooflinecli.specs.figure import ByteRate, differs
from rooflinecli.specs.model import AttentionSpec, ComponentSpec, PositionSpec, Quantization, load_model
from rooflinecli.specs.validation import validated


def test_an_object_has_what_was_written_and_its_class_the_rest():
    entry = validated(Efficiency, {"compute": "80%", "source": "here"})
    assert entry.given == {"compute": 0.8, "source": "here"} and entry.memory == 1.0
    same = Efficiency(compute=0.8, memory=1.0, source="here")  # a default that is written is the same number
    assert entry == same and hash(entry) == hash(same) and "memory" in same.given
    assert entry != Efficiency(compute=0.8, memory=0.9, source="here")
    assert repr(entry) == "Efficiency(compute=0.8, source='here')"
    assert set(CONSTANTS) == {name for name, _ in entry.items()} - {"p", "source", "note"}


def test_made_defaults_are_an_objects_own():
    one, other = (validated(Quantization, {"dtype": "int4"}) for _ in range(2))
    assert one.only == [] and one.only is not other.only


@pytest.mark.parametrize(("wrong", "said"), [({"source": "x", "speed": 1}, "has no speed"), ({}, "needs source")])
def test_a_constructor_checks_its_names(wrong, said):
    with pytest.raises(TypeError, match=f"Efficiency {said}"):
        Efficiency(**wrong)


def test_a_spec_is_changed_by_a_copy():
    model = load_model("llama-3-8b")
    assert model.order == [0] * 32
    less = model.with_changes(layers=[model.layers[0].with_changes(repeat=2)])
    assert less.n_layers == 2 and less.order == [0, 0] and model.n_layers == 32  # nothing worked out before is kept
    assert less.document is model.document
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot change d_model of a ModelSpec"):
        model.d_model = 1


def test_plain_data_of_a_spec():
    stored = validated(Quantization, {"dtype": "int4", "experts": {"dtype": "fp8", "group_size": None}})
    assert stored.to_dict(differs) == {"dtype": "int4", "experts": {"dtype": "fp8"}}
    whole = stored.to_dict()
    assert whole["experts"]["scale_bits"] == 16 and validated(Quantization, whole) == stored
    assert PositionSpec().to_dict() == {"kind": "rotary", "length": None}


def test_what_follows_from_other_entries_counts_as_written():
    given = {"kind": "mqa", "n_heads": 8, "head_dim": 64}
    assert validated(AttentionSpec, given).given == given | {"n_kv_heads": 1, "sizes": {}}
    assert given == {"kind": "mqa", "n_heads": 8, "head_dim": 64}  # the data are as they were


def test_a_spec_inside_its_like_is_checked_as_the_outer_one_is():
    """A reference to a class that contains itself is to all of its checks."""
    with pytest.raises(ValidationError, match="others"):
        validated(Quantization, {"dtype": "int4", "others": [{"modules": ["a"], "stored": {"dtype": "fp8", "x": 1}}]})
    nested = validated(Quantization, {"dtype": "a", "experts": {"dtype": "b", "experts": {"dtype": "c"}}})
    assert nested.experts.experts.given.keys() == {"dtype", "only", "kept", "others"}


def test_specs_travel_between_processes():
    figure = validated(ByteRate, {"value": "3 GB/s", "source": "here"})
    part = ComponentSpec(kind="linear", width=8)
    for spec in (figure, part, load_model("clip-vit-l-14")):
        for other in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
            assert other == spec
    assert pickle.loads(pickle.dumps(figure)).si == 3e9
