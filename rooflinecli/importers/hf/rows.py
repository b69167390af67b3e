"""Rows of YAML, one per model type: how it is read, transformers' defaults, and fields that change no shape.

A row has the keys of a decoder (decoder.py) or a `build`. In `build`, text that starts with = is an expression; one that starts
with ? leaves its key out where it comes to false, null, 0 or none. An entry of a list stands where its `if` holds, once for each value of its
`each`. `use` is a block of BLOCKS, or a row of fragments.yaml with values for its names. A name in an expression is one of `let`, one of FUNCTIONS, or
a whole-number field of the config. A row is parsed when a config of its type is read; a model type is a key at the left margin of a file.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.core import expressions
from rooflinecli.core.record import Json
from rooflinecli.importers.hf import blocks
from rooflinecli.importers.hf.decoder import decoder
from rooflinecli.importers.hf.layer_pattern import layer_kinds, merged, placed, stack, windows
from rooflinecli.specs.field_reader import ConfigFields, Family
from rooflinecli.specs.snapshots import table
from rooflinecli.specs.yaml_loader import Loader

HERE = Path(__file__).parent
IGNORED: Json = table(HERE / "ignored_fields.yaml")
NOISE = frozenset(" ".join(IGNORED["noise"].values()).split())
SETS = {name: frozenset(fields.split()) for name, fields in IGNORED["sets"].items()}
_ROW = re.compile(r'^(?:"([^"\n]+)"|([\w.-]+)):(.*\n(?:[ #].*\n|\n)*)', re.MULTILINE)
_SET = "$"  # before the name of a set of ignored fields
_NOTHING: tuple[Any, ...] = (False, None, 0, "none", {})  # values that leave a key out after ?
_MERGED = ("defaults", "let", "expect", "build")  # of a row and the one that it extends, field by field
BLOCKS: dict[str, Callable[..., blocks.Block]] = {
    "mha": blocks.mha,
    "attention": blocks.attention,
    "mlp": blocks.feedforward,
    "experts": blocks.experts,
    "latent": blocks.latent,
    "frame": blocks.frame,
    "patches": blocks.patches,
    "linear": lambda _, **given: blocks.linear(**given),
}
READERS = "integer integer_or_auto optional flag text items listed side ratio labels head".split()  # of ConfigFields


_BUILTINS = "all any bool dict enumerate int isinstance len list max min range round set str zip".split()
_OWN = (math.isqrt, merged, placed, stack, blocks.sparse)
FUNCTIONS: Json = {name: getattr(builtins, name) for name in _BUILTINS} | {own.__name__: own for own in _OWN}
FUNCTIONS["is_whole"] = lambda value: isinstance(value, int) and not isinstance(value, bool)


@cache
def texts(where: str) -> dict[str, str]:
    """The text behind each key of a file, or of all files of a folder."""
    path = HERE / where
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path.with_suffix(".yaml")]
    return {
        match[1] or match[2]: match[3] for file in files for match in _ROW.finditer(file.read_text(encoding="utf-8"))
    }


@cache
def row(where: str, name: str) -> Mapping[str, Any]:
    """A row, on top of the one (of the same place, or a fragment) that it extends."""
    own: Json = yaml.load(texts(where)[name], Loader)
    if "extends" not in own:
        return own
    place, _, base = own.pop("extends").rpartition(".")
    under = row(place or (where if base in texts(where) else "fragments"), base)
    for key in _MERGED:
        base, mine = under.get(key, {}), own.get(key, {})
        removed = {name for name in base if name in mine and mine[name] is None}
        own[key] = {name: value for name, value in {**base, **mine}.items() if name not in removed}
    return {**under, **own}


@cache
def family(where: str, name: str) -> Family:
    """How a model type of a folder is read."""
    given = row(where, name)
    ignored: set[str] = set()
    for field in given.get("ignored", "").split():
        ignored |= SETS[field[1:]] if field.startswith(_SET) else {field}
    switches = {key: True for key in ("own_head", "pair", "varied") if given.get(key)}
    convert = partial(built if given.get("build") else decoder, given)
    return Family(convert, given["defaults"], frozenset(ignored), **switches)


def built(row: Mapping[str, Any], fields: ConfigFields, known: Mapping[str, Any] | None = None) -> Any:
    """What a row builds from the fields of a config, with further names `known`. Raises DataError."""
    nested: list[ConfigFields] = []
    readers = {name: getattr(fields, name) for name in READERS} | {
        "stated": fields.data.__contains__,
        "attention": partial(blocks.attention, fields),
        "mlp": partial(blocks.feedforward, fields),
        "fields": {**fields.defaults, **fields.data},
        "word": lambda name: value if isinstance(value := fields.raw(name), str) else "",
        "given": {**fields.defaults, **fields.data}.__contains__,
        "windows": partial(windows, fields),
        "layer_kinds": partial(layer_kinds, fields),
        "mixture_layers": partial(blocks.mixture_layers, fields),
        "inside": partial(_inside, fields, nested),
        "leave_out": partial(blocks.leave_out_predictions, fields),
        "is_none": lambda name: fields.data.get(name) is None,
        "part": partial(_part, fields),
    }
    try:
        made = _of(row, Scope(fields, {**readers, **(known or {})}, row.get("let", {})))
    except (ArithmeticError, LookupError, NameError, TypeError) as error:  # sizes that no check of the row foresaw
        raise fields.fail("model_type", f"its fields do not fit together ({error}); check their values") from None
    for part in nested:
        part.finish(NOISE)
    return made


def _inside(
    fields: ConfigFields, nested: list[ConfigFields], name: str, *path: Any, unread: str | None = None
) -> ConfigFields:
    """The fields of an object inside the config; none where there is no object. Where fields may stay `unread`, every other one must be read."""
    inside = fields.raw(name)
    for key in path:
        inside = inside[key]
    part = ConfigFields(inside if isinstance(inside, dict) else {}, {}, fields.where, (*fields.prefix, name, *path))
    if unread is not None:
        part.used |= {*unread.split(), "is_encoder_decoder", "add_cross_attention"}
        nested.append(part)
    return part


def _part(fields: ConfigFields, name: str, kind: str) -> blocks.Block:
    """One of two towers, read from its part of the config as a row of another place. Raises DataError."""
    inside = fields.raw(name)
    if not isinstance(inside, dict):
        raise fields.fail(name, "required; add it")
    one = family(*kind.split("."))
    part = ConfigFields(inside, one.defaults, fields.where, (name,))
    part.used.add("model_type")
    part.expect("is_encoder_decoder", (False, None), "an encoder has no decoder")
    part.expect("add_cross_attention", (False, None), "an encoder has no cross-attention")
    made = one.convert(part)
    part.finish(NOISE | one.ignored | {"hidden_act"})
    return made


def _of(row: Mapping[str, Any], scope: Scope) -> Any:
    for name, (allowed, remedy) in row.get("expect", {}).items():
        scope.fields.expect(name, tuple(scope.built(allowed)), remedy.format_map(scope))
    for condition, place, problem in row.get("check", ()):
        if not scope.value(condition):
            where, _, name = place.format_map(scope).rpartition(".")
            raise (scope[where] if where else scope.fields).fail(name, problem.format_map(scope))
    for name in row.get("reads", ()):
        scope[name]
    condition, sentence = row.get("note", ("", ""))
    if condition and scope.value(condition):
        scope.fields.notes.append(sentence.format_map(scope))
    return scope.built(row["build"])


class Scope(expressions.Scope):
    """The names of a row's expressions over one config (ConfigFields, or another reader with an `integer`).

    `let` are the row's own; `parent` has those around a fragment or a repeated entry.
    """

    def __init__(self, fields: Any, known: Mapping[str, Any], let: Mapping[str, Any], parent: Scope | None = None):
        super().__init__(known, let, fields)
        self.fields, self.parent = fields, parent

    def __missing__(self, name: str) -> Any:
        if name in self.let:
            given = self.let[name]
            self[name] = self.value(given) if isinstance(given, str) else self.built(given)
            return self[name]
        if self.parent is not None:
            return self.parent[name]
        return FUNCTIONS[name] if name in FUNCTIONS else self.fields.integer(name)

    def built(self, template: Any) -> Any:
        """A template with its expressions worked out."""
        if isinstance(template, str):
            return self.value(template[1:]) if template[:1] in ("=", "?") else template
        if isinstance(template, list):
            return [made for entry in template for made in self._entries(entry)]
        if not isinstance(template, Mapping):
            return template
        if "then" in template:
            return self.built(template["then" if self.value(template["if"]) else "else"])
        worked = {key: (str(written)[:1] == "?", self.built(written)) for key, written in template.items()}
        made = {
            key: value
            for key, (optional, value) in worked.items()
            if value != [] and not (optional and value in _NOTHING)
        }
        if "use" not in made:
            return made
        name, also = made.pop("use"), made.pop("also", {})
        if name in BLOCKS:
            return BLOCKS[name](self.fields, **made) | also
        fragment = row("fragments", name)
        part = _of(fragment, Scope(self.fields, made, fragment.get("let", {}), self))
        return part | also if also else part

    def _entries(self, entry: Any) -> list[Any]:
        """What an entry of a list comes to: nothing, itself, or several."""
        if not isinstance(entry, Mapping):
            return [self.built(entry)]
        if "if" in entry and not self.value(entry["if"]):
            return []
        rest = {key: value for key, value in entry.items() if key not in ("if", "each")}
        values = self.value(entry["each"]) if "each" in entry else (None,)
        made = [Scope(self.fields, {"each": value}, {}, self).built(rest) for value in values]
        return [one for part in made for one in (part if isinstance(part, list) else [part])]
