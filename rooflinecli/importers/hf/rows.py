"""Rows of YAML, one per model type: how it is read, transformers' defaults, and fields that change no shape.

A row has the keys of a decoder (docs/add-model.md) or a `build`. In `build`, text that starts with = is an expression; one that starts
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
from rooflinecli.importers.hf.blocks import IGNORED, Override, layer_kinds, merged, placed, stack, windows
from rooflinecli.importers.source import Tree
from rooflinecli.specs.field_reader import ConfigFields, Family
from rooflinecli.specs.yaml_loader import Loader

HERE = Path(__file__).parent
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
    rows = (match for file in files for match in _ROW.finditer(file.read_text(encoding="utf-8")))
    return {match[1] or match[2]: match[3] for match in rows}


@cache
def row(where: str, name: str) -> Tree:
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


def decoder(row: Tree, f: ConfigFields) -> blocks.Block:
    """A decoder as its row describes it (docs/add-model.md has the keys).

    In a row a switch is true, false, or the flag of the config that decides; a name of a field may be a list of the names it goes by.
    """
    for name, (allowed, remedy) in row.get("expect", {}).items():
        f.expect(name, tuple(allowed), remedy)
    width = f.integer(*_names(row.get("width", "hidden_size")))
    block = _attention(f, row["attention"], width) if "attention" in row else None
    context = f.integer(*_names(row["max_context"])) if "max_context" in row else None
    if "optional_context" in row:
        context = f.optional(*_names(row["optional_context"]))
    n = f.integer(*_names(row.get("layers", "num_hidden_layers")))
    layers = _windows(f, row["windows"], n) if "windows" in row else None
    if "experts" in row:
        base, mixed = _mixture(f, row, width, n)
        layers = merged(layers, mixed) if layers else mixed
    else:
        base = _feedforward(f, row["feedforward"], width)
    if "predictions" in row:
        blocks.leave_out_predictions(f, *_names(row["predictions"]))
    more: blocks.Block = {key: row[key] for key in ("embedding_norm", "final_norm") if key in row}
    more |= {key: _switch(f, row[key]) for key in ("parallel", "lm_head_bias") if key in row}
    if "norms" in row:
        more |= {"norms": count} if (count := _choice(f, row["norms"])) != "none" else {}
    if row.get("shared_norm"):  # one norm before both blocks where they are parallel
        more["norms"] = 1 if more["parallel"] else 2
    if "positions" in row:
        more["positions"] = dict(row["positions"])
        if "extra_rows" in row["positions"]:
            extra = more["positions"].pop("extra_rows")
            more["positions"]["length"] = (context or f.integer("max_position_embeddings")) + extra
    norm = row.get("norm", "rmsnorm")
    return blocks.frame(f, block, base, layers=layers or n, norm=norm, width=width, context=context, **more)


def _names(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _switch(f: ConfigFields, given: bool | str) -> bool:
    return f.flag(given) if isinstance(given, str) else given


def _choice(f: ConfigFields, given: Any) -> Any:
    """A value, or {flag: value}: the value where the flag is on, else none."""
    if not isinstance(given, dict):
        return given
    [(flag, value)] = given.items()
    return value if f.flag(flag) else "none"


def _attention(f: ConfigFields, given: Tree, width: int) -> blocks.Block:
    if given.get("kind") == "mla":
        return blocks.latent(f)
    more = dict(given)
    names = {key: more.pop(key) for key in ("heads", "kv", "head_dim") if key in more}
    window, both = more.pop("window", None), more.pop("bidirectional", None)
    more = {key: _choice(f, value) if key == "qk_norm" else _switch(f, value) for key, value in more.items()}
    if window:
        more["window"] = f.optional(window)
    block = blocks.attention(f, width=width, **names, **more)
    return block | {"causal": False} if both and f.flag(both) else block


def _feedforward(f: ConfigFields, given: Tree, width: int) -> blocks.Block:
    """A dense block; `multiple` times the width where the config has no size."""
    more = dict(given)
    kind, bias = more.pop("kind"), _switch(f, more.pop("bias", False))
    names, multiple = more.pop("size", ["intermediate_size"]), more.pop("multiple", None)
    usual = multiple * width if multiple else None
    size = f.integer(*_names(names), null=usual) if names else usual
    more.pop("optional", None)
    return blocks.feedforward(f, kind, bias=bias, d_ff=size) | more


def _windows(f: ConfigFields, given: Tree, n: int) -> list[Override]:
    """Which layers see a window where layer_types does not list them: all, all but one of `full_every`, or those from a layer on."""
    if "when" in given and not f.flag(given["when"]):  # sizes of windows that no layer has decide nothing
        f.used |= {given["size"], given.get("first", {}).get("field"), given.get("end")} - {None}
        return windows(f, [False] * n, None)
    window = f.optional(given["size"])
    local = [given.get("usual", True)] * n
    if "full_every" in given:
        every = given["full_every"]
        every = every if isinstance(every, int) else f.integer(every["field"], null=every.get("default"))
        full = 0 if given.get("full_first") else every - 1
        local = [i % every != full for i in range(n)]
    if "first" in given:
        usual = given["first"]["default"]
        first = f.integer(given["first"]["field"], null=n if usual is None else usual, least=0)
        local = [i >= first for i in range(n)]
    if "end" in given:
        end = f.integer(given["end"], null=0, least=0)
        local = [here and i < end for i, here in enumerate(local)]
    made = windows(f, local, window)
    if given.get("full_without_positions"):
        return [layer or {"attention": {"rotary": False}} for layer in made]
    return made


def _mixture(f: ConfigFields, row: Tree, width: int, n: int) -> tuple[blocks.Block, list[Override]]:
    """The mixture of `experts`, on all layers or on those of `mixtures`, the others dense as `feedforward`."""
    more = dict(row["experts"])
    size, count, top_k = more.pop("size"), _names(more.pop("count")), more.pop("top_k", "num_experts_per_tok")
    optional = more.pop("optional_shared_d_ff", None)
    for key, value in more.items():
        if key == "n_shared" and not isinstance(value, int):
            more[key] = f.integer(*_names(value), null=0, least=0)
        elif key == "shared_d_ff":
            more[key] = f.integer(*_names(value))
        elif key != "n_shared":
            more[key] = _switch(f, value)
    if optional and (shared := f.optional(optional)):
        more |= {"n_shared": 1, "shared_d_ff": shared}
    moe = blocks.experts(f, size, tuple(count), top_k, **more)
    if "mixtures" not in row:
        return moe, [{} for _ in range(n)]
    given = row["mixtures"]
    if "every" in given:
        every, dense = f.integer(given["every"]), f.items(given["except"], int) or []
        where = [i not in dense and (i + 1) % every == 0 for i in range(n)]
    else:
        first = f.integer(given["first"], null=given["default"], least=0) if "first" in given else 0
        where = blocks.mixture_layers(f, [i >= first for i in range(n)])
    if _switch(f, row["feedforward"].get("bias", False)):
        moe |= {"bias": False}  # that of the dense layers is not the experts'
    if row["feedforward"].get("optional"):
        f.optional("intermediate_size")  # of dense layers, which may not be there
        if all(where):
            return moe, [{} for _ in where]
    return blocks.sparse(_feedforward(f, row["feedforward"], width), moe, where)


def built(row: Tree, fields: ConfigFields, known: Tree | None = None) -> Any:
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
    part.finish(NOISE | one.ignored | {"hidden_act", "tie_word_embeddings"})
    return made


def _of(row: Tree, scope: Scope) -> Any:
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

    def __init__(self, fields: Any, known: Tree, let: Tree, parent: Scope | None = None):
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
        empty = [k for k, (optional, value) in worked.items() if value == [] or (optional and value in _NOTHING)]
        made = {key: value for key, (_, value) in worked.items() if key not in empty}
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
