"""Models as text: the list, and one model's page."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rooflinecli.core import units
from rooflinecli.render.formats import json, terminal
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats.terminal_style import PIPE

Row = list[str]
Model = dict[str, Any]
_HEAD = ["model", "parameters", "active", "layers", "d_model", "context"]
_FEW, _LONGEST = 4, 60  # items of a list that a page shows, and characters of one
_COLUMNS = ("name", "family", "parameters_total", "parameters_active", "layers", "d_model", "max_context")


def listing(models: list[Model], fmt: str, width: int = PIPE) -> str:
    """Every model on a line."""
    if fmt == "json":
        return json.dumps(models)
    if fmt == "csv":
        from rooflinecli.render.formats import csv

        flat = [
            [m["name"], m["family"], m["parameters"]["total"], m["parameters"]["active"], *(m[c] for c in _COLUMNS[4:])]
            for m in models
        ]
        return csv.rows([list(_COLUMNS), *flat])
    rows = [_HEAD, *map(_line, models)]
    if fmt == "markdown":
        return marked.table(rows, right=range(1, len(_HEAD)))
    made = terminal.fit(rows, width, drop=("d_model", "layers", "context", "active"))
    lines = list(map(made.line, rows[1:]))
    body: list[str] = []
    for family, pairs in groupby(zip(models, lines, strict=True), key=lambda pair: pair[0]["family"]):
        body += ["", family or "other", *(line for _, line in pairs)]
    about = f"{len(models)} models. active: parameters a token meets, input embedding included. `roofline models NAME` shows one."
    top = "\n".join(made.head(_HEAD))
    rule = "-" * max(map(len, [top, *lines]))
    return "\n".join([top, rule, *body[1:], "", *terminal.prose(about, width), *made.note(width)])


def _line(m: Model) -> Row:
    total, active = m["parameters"]["total"], m["parameters"]["active"]
    return [
        m["name"],
        units.count(total),
        units.count(active) if active != total else "-",
        str(m["layers"]),
        str(m["d_model"]),
        str(m["max_context"] or "-"),
    ]


def page(model: Model, fmt: str, width: int = PIPE) -> str:
    """One model: what it is, its parameters by each convention, its cache, its layers."""
    if fmt == "json":
        return json.dumps(model)
    if fmt == "csv":
        from rooflinecli.render.formats import csv

        return csv.rows([["quantity", "value"], *_flat(model)])
    parts = _parts(model)
    if fmt == "markdown":
        text = [f"# {marked.cell(model['title'])}", "", marked.table([["quantity", "value"], *parts], right=[1])]
        return "\n".join([*text, "", *(f"- {marked.cell(note)}" for note in model["notes"])]).rstrip()
    notes = [line for note in model["notes"] for line in terminal.prose(f"note: {note}", width, "  ")]
    return "\n".join([model["title"], "", *terminal.pairs(parts, width), *([""] if notes else []), *notes])


def _parts(m: Model) -> list[Row]:
    p, cache = m["parameters"], m["kv_cache"]
    rows = [
        ["name", ", ".join([m["name"], *m["aliases"]])],
        ["family", m["family"] or "-"],
        ["file", m["file"]],
        ["source", m["source"]],
        ["parameters", _exact(p["total"])],
    ]
    if p["published"]:
        rows.append(["  published", _exact(p["published"])])
    rows += [
        ["  active, with input embedding", _exact(p["active"])],
        ["  active, without it", _exact(p["active_without_embedding"])],
        ["  input embedding", _exact(p["embedding"])],
    ]
    rows += [row for tower in m["towers"] for row in _tower(tower)]
    rows += [
        ["layers", str(m["layers"])],
        ["d_model", str(m["d_model"])],
        ["vocabulary", f"{m['vocab_size']}{', tied' if m['tied_embeddings'] else ''}"],
        ["context", str(m["max_context"] or "-")],
        ["KV cache, bf16, per token", units.si(cache["bytes_per_token"], "B")],
    ]
    if cache["state_bytes_per_sequence"]:
        rows.append(
            ["  state of a sequence", f"{units.si(cache['state_bytes_per_sequence'], 'B')}, whatever its length"]
        )
        rows.append(["  of 4,096 tokens, state included", units.si(cache["bytes_at_4096"], "B")])
    if cache["bytes_at_max_context"]:
        rows.append(["  of one full context", units.si(cache["bytes_at_max_context"], "B")])
    if m["quantization"]:
        rows.append(["checkpoint", _said({k: v for k, v in m["quantization"].items() if k != "widths"})])
    if m["checkpoint"]:
        rows += _header(m["checkpoint"], p["total"])
    rows.append(["layer pattern", m["pattern"]])
    return rows + [["layers of one kind", said] for said in _groups(m["groups"])]


def _tower(t: Model) -> list[Row]:
    """A further tower, and what an image becomes in it."""
    rows = [[f"  {t['title']}", _exact(t["parameters"]["total"])]]
    if t["reads"] != "its own":
        rows.append(["    its layers", f"{t['pattern']}, d_model {t['d_model']}"])
        rows.append(["    it reads", t["reads"]])
    if "image" in t:
        i = t["image"]
        many = f"{i['inputs']} x " if i["inputs"] > 1 else ""
        rows.append(
            [f"    an image of {i['pixels']}", f"{many}{i['positions']:,} positions, {i['tokens']:,} prompt tokens"]
        )
    return rows


def _header(c: Model, parameters: int) -> list[Row]:
    """What the file's header says, and whether it holds as many parameters as the model has."""
    rows = [
        [
            "file",
            f"{c['file']}, {c['tensors']} tensors in {c['files']} file{'s' if c['files'] > 1 else ''}, {units.si(c['bytes'], 'B')}",
        ]
    ]
    rows += [[f"  {name}", units.si(size, "B")] for name, size in c["dtypes"].items()]
    off = c["elements"] - parameters
    said = (
        "header and model agree"
        if not off
        else f"the header holds {abs(off):,} {'more' if off > 0 else 'fewer'} than the model"
    )
    return [*rows, ["  elements", f"{c['elements']:,}: {said}"]]


def _groups(groups: list[Model]) -> list[str]:
    """Each kind of layer once, with how many there are, in the order in which they are met."""
    kinds: dict[str, int] = {}
    for group in groups:
        said = _group(group)
        kinds[said] = kinds.get(said, 0) + group["layers"]
    return [f"{count} x {said}" for said, count in kinds.items()]


def _group(group: Model) -> str:
    attention = _said(group["attention"] or {"kind": "no attention"})
    beside = " beside " if group["parallel"] else "; "
    return f"{units.count(group['parameters_per_layer'])}: {attention}{beside}{_said(group['feedforward'])}"


def _said(block: Model) -> str:
    """A block as words: 'gqa, n_heads 64, head_dim 128'; flags that are on by name alone."""
    words = [str(block["kind"])] if "kind" in block else []
    for key, value in block.items():
        if isinstance(value, dict):
            words.append(f"{key}: {_said(value)}")
        elif isinstance(value, list) and value:
            words.append(f"{key} {_few(value)}")
        elif key != "kind" and value not in (None, False, "", []):
            words.append(key if value is True else f"{key} {value}")
    return ", ".join(words)


def _few(items: list[Any]) -> str:
    """A list as far as a line of a page bears it: a quantized checkpoint names hundreds of modules. JSON has all of them."""
    said = [_said(x) if isinstance(x, dict) else _short(str(x)) for x in items[:_FEW]]
    more = [f"and {len(items) - _FEW:,} more"] if len(items) > _FEW else []
    return f"[{', '.join([*said, *more])}]"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _exact(value: int) -> str:
    return f"{value:,} ({units.count(value)})" if value >= 1000 else str(value)


def _flat(value: Any, path: str = "") -> list[list[Any]]:
    """Every number of the page with its dotted name."""
    if isinstance(value, dict):
        return [row for key, item in value.items() for row in _flat(item, f"{path}.{key}" if path else key)]
    if isinstance(value, list):
        return [row for i, item in enumerate(value) for row in _flat(item, f"{path}.{i}")]
    return [[path, value]] if isinstance(value, (int, float)) and not isinstance(value, bool) else []
