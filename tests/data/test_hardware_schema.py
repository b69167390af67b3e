"""docs/schema/*.json is what the code generates, and it accepts and refuses what the loader does."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rooflinecli.core.errors import UsageError
from rooflinecli.specs.schema import KINDS, generate, text

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"hardware": ROOT / "hardware", "model": ROOT / "models"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_checked_in_schema_is_current(kind: str) -> None:
    checked_in = (ROOT / "docs" / "schema" / f"{kind}.json").read_text(encoding="utf-8")
    assert checked_in == text(kind), "run `python docs/generate.py`"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_file_passes_the_schema(kind: str) -> None:
    schema = json.loads(text(kind))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    paths = sorted(FOLDERS[kind].glob("*.yaml"))
    assert paths
    for path in paths:
        problems = list(validator.iter_errors(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)))
        assert not problems, f"{path.name}: {problems[0].json_path} {problems[0].message[:200]}"


def wrong(change: str) -> dict[str, Any]:
    data: dict[str, Any] = copy.deepcopy(
        yaml.load((FOLDERS["hardware"] / "tpu-v5e.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    )
    memory = data["memory"]
    if change == "unit":
        memory["bandwidth"]["value"] = "819 GB"
    elif change == "bare number":
        memory["capacity"]["value"] = 16
    elif change == "no source":
        del memory["capacity"]["source"]
    elif change == "no memory":
        del data["memory"]
    elif change == "half a memory":
        del memory["capacity"]
    elif change == "field":
        data["colour"] = "red"
    elif change == "fraction":
        data["network"][0]["efficiency"]["any"]["memory"] = 1.5
    return data


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "change", ["unit", "bare number", "no source", "no memory", "half a memory", "field", "fraction"]
)
def test_an_editor_would_underline_it(change: str) -> None:
    assert not jsonschema.Draft202012Validator(generate("hardware")).is_valid(wrong(change))
    assert jsonschema.Draft202012Validator(generate("hardware")).is_valid(wrong("nothing"))


def test_an_overlay_may_be_short() -> None:
    figure = {"value": "40 GiB", "source": "our slice"}
    validator = jsonschema.Draft202012Validator(generate("hardware"))
    assert validator.is_valid({"extends": "h100-sxm", "memory": {"capacity": figure}})
    assert not validator.is_valid({"name": "x", "memory": {"capacity": figure}})


def test_hardware_files_name_their_schema() -> None:
    for path in FOLDERS["hardware"].glob("*.yaml"):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        reference = first.rpartition("$schema=")[2]
        assert (path.parent / reference).resolve() == ROOT / "docs" / "schema" / "hardware.json"


def test_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="hardware, model"):
        generate("spaceship")
