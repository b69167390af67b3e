"""The promise of docs/compatibility.md: --schema prints every key of an earlier version, at its place and of its type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, run_cli

from rooflinecli.core.record import Record, former, former_keys, plain
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


EARLIER = yaml.safe_load((Path(__file__).parent / "earlier_keys.yaml").read_text())


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of all keys, without places in lists."""
    for item in value if isinstance(value, list) else ():
        yield from paths(item, path)
    for name, item in value.items() if isinstance(value, dict) else ():
        yield f"{path}{name}"
        yield from paths(item, f"{path}{name}.")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", EARLIER["commands"], ids=lambda row: row["command"])
def test_an_earlier_version_has_the_keys_that_it_had(tmp_path, monkeypatch, row):
    for name, text in EARLIER["files"].items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    version = row["schema"].rpartition("/")[2]
    then = run_cli(*shlex.split(row["command"]), "--format", "json", "--schema", version).json
    assert then["schema"] == row["schema"] and set(paths(then)) - {*EARLIER["added"]} == set(row["keys"].split())


def test_a_key_is_the_former_one_until_a_version():
    class Inner(Record):
        bottleneck: str = field(metadata=former("bound", 2))

    class Answer(Record):
        schema: str = "roofline/answer/3"
        time_s: float = field(metadata=former("seconds"))
        rows: list[dict[str, float]] = field(metadata=former_keys(2, total_batch="batch"))
        inner: Inner

    answer = Answer(time_s=1.0, rows=[{"total_batch": 2.0}], inner=Inner(bottleneck="memory"))
    second = {"schema": "roofline/answer/2", "time_s": 1.0, "rows": [{"batch": 2.0}], "inner": {"bound": "memory"}}
    assert plain(answer, 2) == second
    assert plain(answer, 1) == {
        "schema": "roofline/answer/1",
        "seconds": 1.0,
        **{k: second[k] for k in ("rows", "inner")},
    }
    assert plain(answer, 3) == plain(answer, 9) == plain(answer)
    assert plain(answer)["rows"] == [{"total_batch": 2.0}] and plain(answer)["inner"] == {"bottleneck": "memory"}


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
