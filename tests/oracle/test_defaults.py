"""Rows of importers/hf assume what transformers' configuration classes assume (golden_defaults.json, written by defaults.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GOLDEN = json.loads((HERE / "golden_defaults.json").read_text(encoding="utf-8"))["defaults"]
SWITCHED = {"sliding_window"}  # the class sets it to none where use_sliding_window is off, and so do the readers
DEPENDENT = {  # the class works it out from other fields: from the heads, or one width for every layer
    "cohere2_moe": {"num_key_value_heads"},
    "granitemoe_swa": {"num_key_value_heads"},
    "hyperclovax": {"num_key_value_heads"},
    "gemma3n_text": {"intermediate_size"},
}


@pytest.fixture(scope="module")
def defaults():
    sys.path.insert(0, str(HERE))
    try:
        import defaults
    finally:
        sys.path.remove(str(HERE))
    return defaults


def test_rows_assume_what_the_classes_assume(defaults):
    differing: dict[str, set[str]] = {}
    for kind, fields in defaults.rows().items():
        for name, value in GOLDEN.get(kind, {}).items():
            if fields[name] != value and not (name in SWITCHED and value in (None, 0)):
                differing.setdefault(kind, set()).add(name)
    assert differing == DEPENDENT
    assert len(GOLDEN) > 180


@pytest.mark.slow
def test_the_golden_file_is_what_transformers_says(defaults):
    pytest.importorskip("transformers")
    rows = defaults.rows()
    for kind, values in GOLDEN.items():
        assert json.loads(json.dumps(defaults.assumed(kind, rows[kind]))) == values, kind
