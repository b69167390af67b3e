"""Blocks of a layer from rows of YAML: a file of attention/, feedforward/ or components/ declares one kind.

`rows` are its operations in order, each where its `if` holds. `matmul` is a contraction; `elementwise` and `gather` are what is read ->
what is written; `norm` is a kind of norm `over` some axes for each of `tokens`; `mixer` is a class of this package (`is`) with its fields.
Tensors are their axes, with commas between tensors; `params` of a matmul come after its weights, and `counted: false` counts none.

Text that starts with = is an expression over the fields of the spec, its `sizes`, the `model`, INF, and the names of `let`. `axes` are such
expressions (None: there is no such axis; "*": those of a dictionary), `derived` are expressions over the sizes of other axes; `split` and
`shared` are those of a Block. `variant_of` takes all of another kind; `core` then stands for the row of its mixer, and an entry of a mixer
alone is that row with another mixer. `use` has the rows of another kind, with axes renamed, fields changed (`with`) and names prefixed (`as`).
model.yaml has what is outside the blocks of a layer; an entry of `rows` there has those that a name stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rooflinecli.core.expressions import NOTHING, Scope, compiled
from rooflinecli.core.num import INF
from rooflinecli.core.record import Json
from rooflinecli.ledger.ledger import Axes, Block, Row, matmul, norm
from rooflinecli.ledger.mixer import Mixer
from rooflinecli.specs.model import ComponentSpec, ModelSpec
from rooflinecli.specs.snapshots import packaged, table

_HERE = Path(__file__).parent
_DERIVED = NOTHING | {"ep_within_tp": None}  # of derived sizes, where a layout sets no `ep_within_tp`
_RULES = ("scan_flops", "step_flops", "moved_values")  # of mixers: they follow from sizes, by formulas/recurrence.py
_TENSORS = ("cached", "channels", "shifts")  # fields of mixers that are lists of tensors
Names = Mapping[str, str]


@cache
def kind(folder: str, name: str) -> Json:
    """What the file of a kind declares, on top of the one that it is a variant of."""
    own: Json = table(_HERE / folder / f"{name}.yaml")
    if "variant_of" not in own:
        return own
    under = kind(folder, own["variant_of"])
    rows = [
        {**given, **entry} if "name" not in entry else entry
        for given in under["rows"]
        for entry in (own.get("core", [{}]) if "mixer" in given else [{}])
    ]
    merged = {key: {**under.get(key, {}), **own.get(key, {})} for key in ("axes", "derived")}
    return {**under, **own, **merged, "rows": [*rows, *own.get("rows", [])]}


def block(folder: str, spec: Any, known: Mapping[str, Any], renamed: Names = {}) -> Block:  # noqa: B006
    """The block of a spec, in a model of which some names are `known`; its axes renamed."""
    return _block(folder, kind(folder, spec.kind), spec, known, renamed)


def outside(part: str, spec: ModelSpec, **known: Any) -> Block:
    """A part of a model outside its blocks: its stem or head, what is before a branch, or the residual behind the branches."""
    return _block("", packaged(__file__, "model")[part], spec, known, {})


def _block(folder: str, given: Json, spec: Any, known: Mapping[str, Any], renamed: Names) -> Block:
    scope = Scope({"INF": INF, **known}, given.get("let", {}), spec)
    axes: dict[str, int] = {}
    for axis, expression in given.get("axes", {}).items():
        size = scope.value(expression)
        axes |= size if axis == "*" else {} if size is None else {renamed.get(axis, axis): size}
    derived = ((axis, scope.worked(written)) for axis, written in given.get("derived", {}).items())
    rules = tuple((axis, partial(eval, compiled(rule), _DERIVED)) for axis, rule in derived if rule is not None)
    split, shared = (tuple(scope.worked(given.get(key, "")).split()) for key in ("split", "shared"))
    return Block(tuple(_rows(folder, given["rows"], scope, renamed)), axes, rules, split, shared)


def component(spec: ComponentSpec, called: str, tag: str, d_model: int) -> Block:
    """The block of a component, whose axes have a prefix of their own: `tokens` are the positions that it runs over for each sequence."""
    renamed = {axis: f"{tag}_{axis}" for axis in ("in", "out", "rows", "width", "streams", "tokens")}
    rule: Any = None
    if spec.once:
        renamed["tokens"] = "one"
    elif spec.positions is not None:
        fixed = float(spec.positions)
        rule = lambda s: fixed  # noqa: E731
    elif spec.merge == spec.spread == 1 and not spec.less:
        renamed["tokens"] = "S"
    else:
        each, less = spec.spread / spec.merge, float(spec.less)
        rule = (lambda s: (s["S"] - less) * each) if less else (lambda s: s["S"] * each)
    made = block("components", spec, {"called": called, "d_model": d_model}, renamed)
    tensors = (t for row in made.rows for t in (*row.reads, *((row.contraction.x,) if row.contraction else ())))
    runs = rule and any(renamed["tokens"] in axes for axes in tensors)
    return replace(made, derived=((renamed["tokens"], rule),)) if runs else made


def _rows(folder: str, entries: list[Json], scope: Scope, renamed: Names, prefix: str = "attention") -> Iterator[Row]:
    for entry in entries:
        if "if" in entry and not scope.value(entry["if"]):
            continue
        if "rows" in entry:
            yield from scope.value(entry["rows"])
            continue
        if "use" in entry:
            own = {name: scope.value(expression) for name, expression in entry.get("with", {}).items()}
            inner = Scope({**scope, **own}, scope.let, scope.of)
            yield from _rows(folder, kind(folder, entry["use"])["rows"], inner, entry["axes"], entry["as"])
            continue
        of = {key: scope.worked(written) for key, written in entry.items() if key not in ("if", "mixer")}
        name = of["name"].replace("attention", prefix, 1)
        params, saves = (_tensors(of.get(key, ""), renamed) for key in ("params", "saves"))
        if "matmul" in of:
            biased, tied = bool(of.get("bias")), of.get("tied", False)
            text = _renamed(of["matmul"], renamed)
            row = matmul(name, text, bias=biased, saves=saves, tied=tied, kind=of.get("kind", "matmul"))
            if params or {"counted", "is_saved", "parts"} & set(of):
                counted = (*row.params, *params) if of.get("counted", True) else ()
                row = replace(row, params=counted, is_saved=of.get("is_saved", False), parts=of.get("parts", 1))
            yield row
        elif "norm" in of:
            (over,), (tokens,) = (
                _tensors(of.get(key, plain), renamed) for key, plain in (("over", "D"), ("tokens", "B Z"))
            )
            yield norm(name, of["norm"], over, tokens, of.get("saved", True))
        elif "mixer" in entry:
            yield Row(name, "attention", params=params, saves=saves, mixer=_mixer(entry["mixer"], scope, renamed))
        else:
            what = "gather" if "gather" in of else "elementwise"
            reads, _, writes = of[what].partition("->")
            moved = _tensors(reads, renamed), _tensors(writes, renamed)
            yield Row(
                name, what, None, params, *moved, saves, _tensors(of.get("masks", ""), renamed), None, of.get("linear", False),
            )  # fmt: skip


@cache
def _recurrence() -> dict[str, Any]:
    from rooflinecli.formulas import recurrence

    return vars(recurrence) | NOTHING


def _mixer(given: Json, scope: Scope, renamed: Names) -> Mixer:
    module, name = given["is"].split(".")
    fields = {key: scope.worked(written) for key, written in given.items() if key != "is"}
    for key, value in fields.items():
        if key in _RULES:
            fields[key] = partial(eval, compiled(_renamed(value, renamed)), _recurrence())
        elif isinstance(value, str):
            fields[key] = _tensors(value, renamed) if key in _TENSORS else renamed.get(value, value)
    mixer: Mixer = getattr(import_module(f"rooflinecli.layers.{module}"), name)(**fields)
    return mixer


def _renamed(text: str, renamed: Names) -> str:
    return re.sub(r"\w+", lambda match: renamed.get(match[0], match[0]), text) if renamed else text


def _tensors(text: str, renamed: Names) -> tuple[Axes, ...]:
    """The axes of each tensor of `B S D, N H`."""
    return tuple(tuple(one.split()) for one in _renamed(text, renamed).split(",") if one.strip())
