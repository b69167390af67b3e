"""Numbers as people write them, read at their bounds; and YAML that PyYAML would quietly misread, refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflinecli.core.errors import DataError, ImpossibleValue, UsageError
from rooflinecli.specs import parse_values, yaml_loader
from rooflinecli.specs.options import Field, Option

pytestmark = pytest.mark.sampled(99)  # every set is a bound of its own


def option(kind: str, **more: Any) -> Option:
    made: Any = Field(kind, "what it is", **more)
    made.__set_name__(object, "some_value")
    return made


@pytest.mark.parametrize(
    "written, kind, found",
    [
        ("512", "count", 512), ("4k", "count", 4000), ("4k", "length", 4096), ("70B", "amount", 70e9), ("2.5", "price", 2.5), ("$2.5", "price", 2.5), ("2.5/h", "price", 2.5),
        ("80%", "share", 0.8), ("1e3", "count", 1000), (True, "count", None), ("2.5", "count", None), ("1e999", "number", None), ("many", "count", None), (None, "count", None),
        ("15T", "amount", 15e12), ("1.5", "number", 1.5), ("512 tokens", "length", 512),
    ],
)  # fmt: skip
def test_a_number_of_a_kind(written: Any, kind: str, found: float | None) -> None:
    if found is None:
        with pytest.raises(UsageError, match="--flag"):
            parse_values.number("--flag", written, kind)
    else:
        assert parse_values.number("--flag", written, kind) == pytest.approx(found)


def test_a_batch_in_tokens_counts_in_1024s() -> None:
    assert parse_values.number("--batch", "4M-tokens", "count", "batch") == 4 * 2**20
    assert parse_values.number("--batch", "4M", "count", "batch") == 4e6


@pytest.mark.parametrize(
    "written, found", [("2 M USD", 2e6), ("$2M", 2e6), ("2e6", 2e6), ("3B", 3e9), ("1.5 kUSD", 1500), ("1e18", 1e18)]
)
def test_a_sum_of_money(written: str, found: float) -> None:
    assert parse_values.dollars("--budget", written) == pytest.approx(found)


@pytest.mark.parametrize(
    "written, says",
    [
        ("0", "above zero"),
        ("-5", "above zero"),
        ("much", "expected a sum"),
        ("1.1e18", "supported maximum of 1e\\+18 USD"),
    ],
)
def test_what_is_no_sum(written: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"--budget {written}: .*{says}"):
        parse_values.dollars("--budget", written)


@pytest.mark.parametrize("written, found", [("1", 1), ("2k", 2000), (1e12, 1e12), ("4.0", 4)])
def test_a_size_of_an_array(written: Any, found: float) -> None:
    assert parse_values.size("m", written) == found


@pytest.mark.parametrize("written", ["0", "0.5", "1.5", "-1", 1.1e12, "x"])
def test_what_is_no_size(written: Any) -> None:
    with pytest.raises(UsageError, match="m "):
        parse_values.size("m", written)


def test_lengths_of_documents() -> None:
    assert parse_values.document_lengths("512, 2k,8k") == [512, 2048, 8192] and parse_values.document_lengths("1") == [
        1
    ]
    for written in ("0,5", "5,", "x"):
        with pytest.raises(UsageError, match="--doc-lengths"):
            parse_values.document_lengths(written)


@pytest.mark.parametrize(
    "kind, written, found",
    [
        ("time", "40 ms", 0.04), ("time", "30d", 2_592_000), ("seconds", "3", 3), ("bytes", "64MB", 64e6), ("bytes", "64", 64), ("usd", "$5", 5), ("usd", "2M USD", 2e6), ("hertz", "1.5 GHz", 1.5e9),
        ("fraction", "0", 0), ("fraction", "1", 1), ("fraction", "25%", 0.25), ("real", "-3", -3), ("flop", "1e21", 1e21), ("tokens_per_s", "5000 tokens/s", 5000), ("usd_per_hour", "2.5", 2.5), ("positive", 1e39, 1e39),
    ],
)  # fmt: skip
def test_a_quantity_in_its_unit(kind: str, written: Any, found: float) -> None:
    assert parse_values.quantity(option(kind), written) == pytest.approx(found)


@pytest.mark.parametrize(
    "kind, written, says",
    [
        ("time", "40", "--some-value 40"), ("time", "0 s", "must be above zero; give a positive number"), ("positive", "0", "must be above zero"), ("fraction", "-0.1", "must not be negative"),
        ("fraction", "1.1", "cannot exceed 1; give a fraction of 0 to 1, or 1.1% for"), ("fraction", "101", "it cannot exceed 1; give a fraction of 0 to 1$"), ("positive", 1e41, "supported range of 1e-40 to 1e40"),
        ("positive", 1e-41, "supported range"), ("hertz", "3", "--some-value 3"), ("bytes", "-1", "must be above zero"),
    ],
)  # fmt: skip
def test_a_quantity_out_of_bounds(kind: str, written: Any, says: str) -> None:
    with pytest.raises((UsageError, ImpossibleValue), match=says):
        parse_values.quantity(option(kind), written)


def test_bounds_of_a_field_replace_those_of_its_kind() -> None:
    most = option("real", least=2, most=5)
    assert parse_values.quantity(most, 2) == 2 and parse_values.quantity(most, 5) == 5
    with pytest.raises(UsageError, match="must be at least 2"):
        parse_values.quantity(most, 1.9)
    with pytest.raises(UsageError, match="must be at most 5"):
        parse_values.quantity(most, 5.1)
    assert parse_values.quantity(option("time", least=0), "0 s") == 0
    assert parse_values.whole(option("count", most=8), "8") == 8 and parse_values.whole(option("count"), "2k") == 2000
    for field, written, says in (
        (option("count", most=8), "9", "supported maximum of 8"),
        (option("count"), "0", "at least 1"),
        (option("count"), "2e12", "supported maximum of 1e\\+12"),
    ):
        with pytest.raises(UsageError, match=says):
            parse_values.whole(field, written)


@pytest.mark.parametrize(
    "kind, number, says",
    [
        ("share", 0.5, ""), ("share", 1, ""), ("share", 0, "expected a share above 0 and up to 1"), ("share", 1.01, "expected a share above 0 and up to 1"), ("rate", 0, "must be above zero"), ("rate", 0.1, ""),
        ("number", -1, "must not be negative"), ("number", 0, ""), ("number", 1e18, ""), ("number", 1.1e18, "exceeds the supported maximum of 1e+18"), ("count", 1e12, ""), ("count", 1.1e12, "exceeds the supported maximum of 1e+12"),
        ("room", 1e6, ""), ("room", 9e5, "a bare number is bytes; write the unit, such as '80 GiB' or 80GB"), ("room", 0, "must be above zero"), ("number", float("inf"), ""),
    ],
)  # fmt: skip
def test_which_bound_a_number_breaks(kind: str, number: float, says: str) -> None:
    assert parse_values.broken_bound(option(kind), number) == says


def test_a_stage_is_one_of_its_choices() -> None:
    stage = option("stage", choices=("0", "1", "3"))
    assert parse_values.broken_bound(stage, 3.0) == "" and parse_values.broken_bound(stage, 2.0) == "expected 0, 1, 3"


def yaml(text: str) -> Any:
    return yaml_loader.parse(text, Path("a.yaml"))


def test_yaml_is_read_with_its_lines() -> None:
    found = yaml("a: 1\nb:\n  c: [x, 2.5]\n  d: true\ne: '1e9'\nf: 1.0e+9\n")
    assert found.data == {"a": 1, "b": {"c": ["x", 2.5], "d": True}, "e": "1e9", "f": 1e9}
    assert [found.lines[key][1] for key in (("a",), ("b",), ("b", "c"), ("b", "c", 1), ("b", "d"), ("f",))] == [
        1,
        2,
        3,
        3,
        4,
        6,
    ]


@pytest.mark.parametrize(
    "text, says",
    [
        ("- 1\n", "a.yaml:1: expected a mapping of fields"), ("", "a.yaml:1: expected a mapping"), ("a: 1\na: 2\n", "a.yaml:2: 'a' is given twice"), ("a: 1\nb: 1e9\n", "a.yaml:2: YAML reads 1e9 as text"),
        ("a: 2.5E9\n", "YAML reads 2.5E9 as text"), ("a: 1e-9\n", "YAML reads 1e-9"), ("a: [1\nb: 2\n", "a.yaml:2: not valid YAML"), ('a: "\\0"\n', "a.yaml:1: .* holds control characters"), ("? [x]\n: 1\n", "a.yaml:1: a field name must be plain text"),
        ("'': 1\n", "a field name must be plain text"), ("a: &x [*x]\n", "an alias that contains itself"), ("a: 2026-13-01\n", "a.yaml:1: '2026-13-01' cannot be read"), ("a: " + "[" * 3000 + "]" * 3000, "nested too deeply"),
    ],
)  # fmt: skip
def test_yaml_that_would_be_misread(text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        yaml(text)


def test_aliases_may_not_expand_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &a [x, x, x]\nb: [*a, *a, *a]\n"
    monkeypatch.setattr(
        yaml_loader, "LARGEST", 18
    )  # a document, two lists, three and nine values, and three lists of those
    assert yaml(text).data["b"] == [["x"] * 3] * 3
    monkeypatch.setattr(yaml_loader, "LARGEST", 10)
    with pytest.raises(DataError, match="more than 10 values once its aliases are written out"):
        yaml(text)


def test_a_mapping_over_another() -> None:
    assert yaml_loader._merge({"a": {"x": 1, "y": 2}, "b": {"z": 3}, "c": 4}, {"a": {"y": 5}, "b": [6], "d": 7}) == {
        "a": {"x": 1, "y": 5},
        "b": [6],
        "c": 4,
        "d": 7,
    }
    hidden = yaml_loader._hidden
    assert (
        hidden(("a", "x"), {"a": [1]})
        and not hidden(("a", "x"), {"a": {"x": 1}})
        and not hidden(("a", "x"), {"b": 1})
        and hidden(("a", "x", "y"), {"a": {"x": 2}})
    )
