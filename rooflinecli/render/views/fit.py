"""What fits, as a table: a file type on a line."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import units
from rooflinecli.render.formats import json, terminal
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats.terminal_style import PIPE

_HEAD = ["file type", "size", "bits", "context", "tok/s", "80% interval", "prompt tok/s"]
_COLUMNS = (
    "file",
    "bytes",
    "bits_per_weight",
    "fits",
    "max_context",
    "layers_on_host",
    "experts_on_host",
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
)


def render(answer: dict[str, Any], fmt: str, width: int = PIPE) -> str:
    """The answer in a format."""
    if fmt == "json":
        return json.dumps(answer)
    if fmt == "csv":
        from rooflinecli.render.formats import csv

        return csv.rows([list(_COLUMNS), *([f[c] for c in _COLUMNS] for f in answer["files"])])
    rows = [_HEAD, *map(_line, answer["files"])]
    head, about = _title(answer), _about(answer)
    if fmt == "markdown":
        notes = [f"- {marked.cell(note)}" for note in answer["notes"]]
        return "\n".join(
            [f"# {marked.cell(head)}", "", marked.table(rows, right=range(1, len(_HEAD))), "", about, *notes]
        )
    made = terminal.fit(rows, width, drop=("prompt tok/s", "80% interval", "bits"))
    top = "\n".join(made.head(_HEAD))
    body = list(map(made.line, rows[1:]))
    notes = [line for note in answer["notes"] for line in terminal.prose(f"note: {note}", width, "  ")]
    return "\n".join([head, "", top, *body, "", *terminal.prose(about, width), *notes, *made.note(width)])


def _title(answer: dict[str, Any]) -> str:
    chip, model = answer["hardware"], answer["model"]
    return f"{model['name']} ({units.count(model['parameters'])} parameters) on {chip['name']}, {units.si(chip['capacity_bytes'], 'B')}"


def _about(answer: dict[str, Any]) -> str:
    work = answer["workload"]
    asked = f"{work['prompt']:g} + {work['output']:g} tokens"
    best = answer["largest"]
    said = (
        f"Largest that holds {asked}: {best}."
        if best
        else f"None holds {asked} on the device alone; the rates are those with the rest on the host."
        if any(map(_away, answer["files"]))
        else f"None holds {asked}; take a smaller model or --kv-dtype q8_0."
    )
    reserve = units.si(answer["hardware"]["reserve_bytes"], "B")
    return f"{said} context: longest of one sequence beside the weights and {reserve} for buffers and desktop; rates of one stream by {_engines(answer)}."


def _engines(answer: dict[str, Any]) -> str:
    """Who runs the files that fit; every format its own tool where nobody says."""
    return ", ".join(dict.fromkeys(f["engine"] for f in answer["files"])) or str(answer["workload"]["engine"])


def _line(f: dict[str, Any]) -> list[str]:
    size, bits = units.si(f["bytes"], "B"), f"{f['bits_per_weight']:.2f}"
    away = _away(f)
    if not f["fits"] and not away:
        return [f["file"], size, bits, "does not fit", "-", "-", "-"]
    low, high = f["decode_interval_per_s"]
    return [
        f["file"],
        size,
        bits,
        away or f"{f['max_context']:,}",
        _rate(f["decode_tokens_per_s"]),
        f"{_rate(low)} - {_rate(high)}",
        _rate(f["prefill_tokens_per_s"]),
    ]


def _away(f: dict[str, Any]) -> str:
    """What of it is on the host."""
    if f["experts_on_host"] is not None:
        return f"experts of {f['experts_on_host']} layers on host"
    return f"{f['layers_on_host']} layers on host" if f["layers_on_host"] is not None else ""


def _rate(value: float) -> str:
    """Tokens per second to three digits, in full."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
