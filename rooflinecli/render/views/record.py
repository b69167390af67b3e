"""A small answer (nested dicts whose keys end in their unit) as table, JSON, CSV or markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rooflinecli.core import num, units
from rooflinecli.core.errors import unknown
from rooflinecli.render.blocks import Column, Note, Page, Pairs, Table, page

_SHARES = ("utilization", "share", "occupancy", "fraction", "acceptance", "mfu", "saving")
_USD = re.compile(r"(^|_)usd(?=_per_|$)")
# what a name does not say to a person
_CALLED = {"training_usd": "bill"}
_COUNTS = ("params", "tokens", "examples", "steps", "sequences", "devices", "batch", "blocks", "warps", "registers")


def plain(value: Any) -> Any:
    """The answer with bare numbers: traced ones lose their trace, infinities become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    bare = num.value(value)
    return None if isinstance(bare, float) and (bare != bare or abs(bare) == float("inf")) else bare


def quantities(answer: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of the answer with its dotted name."""
    if isinstance(answer, dict):
        for key, item in answer.items():
            yield from quantities(item, f"{path}.{key}" if path else str(key))
    elif not isinstance(answer, (str, list, tuple, bool)) and answer is not None:
        yield path, answer


def find(answer: dict[str, Any], name: str) -> Any:
    """The quantity called `name`. Raises UsageError listing what there is."""
    known = dict(quantities(answer))
    if name not in known:
        raise unknown("quantity", name, known)
    return known[name]


def format_value(key: str, value: Any) -> str:
    """One number for people, by the unit its key ends in."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_value(key, item) for item in value)
    if not isinstance(value, (int, float)):
        return str(value)
    for suffix, unit in (
        ("_flops_per_s", "FLOP/s"),
        ("_bytes_per_s", "B/s"),
        ("_flops", "FLOP"),
        ("_bytes", "B"),
        ("_tokens_per_s", "tok/s"),
        ("_per_s", "/s"),
        ("_s", "s"),
    ):
        if f"_{key}".endswith(suffix):
            return units.si(value, unit)
    last = key.rpartition("_")[2]
    if _USD.search(key):
        return f"${value:,.2f}" if abs(value) >= 0.01 else f"${value:.3g}"
    if last in _SHARES:
        return f"{100 * value:.2f} %"
    if last in _COUNTS and abs(value) >= 1:
        return units.count(value) if abs(value) >= 1e6 else f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
    return f"{value:,.0f}" if value == int(value) and 1e3 <= abs(value) < 1e12 else f"{value:.5g}"


def _label(key: str) -> str:
    if key in _CALLED:
        return _CALLED[key]
    if _USD.search(key):
        return _USD.sub("" if not key.startswith("usd") else "cost", key).replace("_", " ")
    for suffix in ("_bytes", "_s", "_usd"):
        if not key.endswith("_per_s"):
            key = key.removesuffix(suffix)
    return key.replace("_", " ")


def _grid(rows: dict[str, dict[str, Any]]) -> list[list[str]]:
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    head = ["", *(_label(column) for column in columns)]
    return [head, *([_label(name), *(format_value(c, row.get(c)) for c in columns)] for name, row in rows.items())]


def _parts(answer: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, dict[str, Any]]], list[str]]:
    """Plain quantities, tables (a dict of dicts, or a dict of numbers as a table of one row), notes."""
    notes = answer.get("notes", [])
    scalars = {k: v for k, v in answer.items() if not isinstance(v, dict) and k not in ("notes", "schema")}
    tables = {
        k: v if all(isinstance(i, dict) for i in v.values()) else {"": v}
        for k, v in answer.items()
        if isinstance(v, dict) and v
    }
    return scalars, tables, notes


def view(answer: Any) -> Page:
    """Quantities as pairs, each mapping of rows as a table, then the notes."""
    scalars, grids, notes = _parts(plain(dict(answer.entries())))
    tables = []
    for name, rows in grids.items():
        head, *body = _grid(rows)
        columns = [Column(text, text=i == 0) for i, text in enumerate(head)]
        tables.append([Table(columns, body, title=_label(name), indent=2)])
    return page(
        [Pairs([(_label(key), format_value(key, value)) for key, value in scalars.items()])],
        *tables,
        [Note(text) for text in notes],
    )
