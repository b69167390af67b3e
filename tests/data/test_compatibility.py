"""The promise of docs/compatibility.md: today's schema still has every key of its first release, under the name that --schema 1 prints, at its place and of its type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from rooflinecli.interfaces.schemas import estimate_answer
from rooflinecli.specs.registry import canonical, kinds

KEPT = Path(__file__).parent / "estimate-1.txt"


def keys(schema: dict[str, Any], node: dict[str, Any], path: str = "", open_: tuple[str, ...] = ()) -> Iterator[str]:
    """`path: type` of every key, references followed once."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name not in open_:
            yield from keys(schema, schema["$defs"][name], path, (*open_, name))
        return
    for one in node.get("anyOf", ()):
        yield from keys(schema, one, path, open_)
    if "items" in node and isinstance(node["items"], dict):
        yield from keys(schema, node["items"], f"{path}[]", open_)
    if isinstance(node.get("additionalProperties"), dict):
        yield from keys(schema, node["additionalProperties"], f"{path}.*", open_)
    for name, inner in node.get("properties", {}).items():
        first = inner.get("x-former", name)
        yield from keys(schema, inner, f"{path}.{first}".lstrip("."), open_)
    if path and "properties" not in node:
        yield f"{path}: {node.get('type') or node.get('const') or 'one of several'}"


def today() -> set[str]:
    schema = estimate_answer()
    return set(keys(schema, schema))


def test_no_key_of_the_first_release_is_gone_or_another_type():
    kept = set(KEPT.read_text().split("\n")) - {"", "schema: roofline/estimate/1"}
    assert len(kept) > 150 and kept - today() == set(), (
        "a key that goes raises the number of the schema (docs/compatibility.md)"
    )


def test_a_key_that_goes_is_noticed():
    schema = estimate_answer()
    del schema["$defs"]["DecodeAnswer"]["properties"]["time_s"]
    gone = set(KEPT.read_text().split("\n")) - {"", "schema: roofline/estimate/1"} - set(keys(schema, schema))
    assert gone == {"phases.decode.time_s: number"}


def test_every_schema_has_a_name_and_a_number():
    found = [
        m
        for p in (ROOT / "rooflinecli").rglob("*.py")
        for m in re.findall(r'^SCHEMA = "([^"]+)"', p.read_text(), re.MULTILINE)
    ]
    ours = [name for name in found if not name.startswith("https://docs.oasis-open.org")]
    # logs of `roofline measure` were named before the rule, and are read back for as long as they lie about
    assert len(ours) > 8 and {name for name in ours if not re.fullmatch(r"roofline/[a-z-]+/\d+", name)} == {
        "roofline-measure/1"
    }


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        ("layers/attention", "uneven reused"),
        ("layers/components", "streams"),
        ("layers/images", "smart longest whole padded shrunk budget tiles split canvas latent"),
    ],
)
def test_kinds_of_earlier_model_files_are_still_read(folder, names):
    assert {canonical(folder, name) for name in names.split()} <= set(kinds(folder))
