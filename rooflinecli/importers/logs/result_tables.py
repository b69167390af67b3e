"""Tables of results with a header, as READMEs, posts and scripts have them: Markdown, boxes, CSV. A column is found by its name in result_tables.yaml.

Used where a file has no output of a benchmark itself, which such a table would only sum up.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rooflinecli.core.record import Json
from rooflinecli.importers.logs.serving_run import ServingRun, between, engine_of
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive
from rooflinecli.specs.snapshots import table

TOOL = "table of results"
AGREES = 0.1  # of a latency: how far that of its rate may differ, which its start and end are in
_TABLE = table(Path(__file__).with_suffix(".yaml"))
_FIELDS = {name: field for field, names in _TABLE["columns"].items() for name in names}
_SPELLINGS = [(re.compile(pattern), text) for pattern, text in _TABLE["spellings"]]
_MEASURES = {
    "ttft",
    "itl",
    "throughput",
    "rate",
    "total",
    "user_rate",
    "device_rate",
    "decode",
    "prefill",
    "latency",
    "step",
}
_RULE = re.compile(r"^[\s|:\-=+─━┄┅┈┉┌-╿]*$")  # a line between rows
_MARKUP = re.compile(r"<[^>]*>|[*`]|\]\([^)]*\)|\[(?=[^\]]*$)")
_NUMBER = re.compile(r"^[~≈]? *([\d,]*\.?\d+(?:e[+-]?\d+)?) *([kK]\b)? *([a-zA-Zµ][^\d±(]*?)?(?: *[±(].*)?$")
_SHAPE = re.compile(r"^\D*([\d,.]+[kK]?)\D+?([\d,.]+[kK]?)\D*$")
_COUNTED = re.compile(r"^(\d+) ?[x×] ?(.*)|^(.*?) ?[x×] ?(\d+)$")  # 8x H100
_SIZES = re.compile(r"\b(tp|pp|dp|ep)[ =-]*(\d+)", re.IGNORECASE)

Cells = dict[str, tuple["Column", str]]
Lines = list[tuple[int, list[str]]]


class Column(NamedTuple):
    """What a header names: a field of result_tables.yaml, its statistic, and the unit that it states."""

    field: str = ""
    statistic: str = ""
    unit: str = ""


TAIL = Column(statistic="tail")  # a percentile, or a change against another row


def read(source: Source) -> list[MeasuredRow]:
    """A row of each line of the tables that state a time or a rate of tokens."""
    return [row for lines in _tables(source) for row in _table(source, lines)]


def _tables(source: Source) -> Iterator[Lines]:
    """The lines of each table, its header first; turned over where its first column names the figures."""
    blocks: list[Lines] = [[]]
    first = next((i for i, text in enumerate(source.lines) if text.strip() and text[0] != "#"), 0)
    if source.lines[first].count(",") > 1 and "|" not in source.lines[first]:
        blocks[0] = [(i, row) for i, row in enumerate(csv.reader(source.lines[first:]), first + 1) if any(row)]
    for line, text in enumerate(source.lines, start=1):
        plain = re.sub(r"[│┃]", "|", text).strip()
        if "|" in plain and not _RULE.match(plain):
            blocks[-1].append((line, [cell.strip() for cell in re.sub(r"^\||\|$", "", plain).split("|")]))
        elif blocks[-1] and (not plain or not _RULE.match(plain)):
            blocks.append([])
    for block in blocks:
        rows = [(line, row) for line, row in block if len(row) == len(block[0][1])]
        across, down = (
            {column(name).field for name in names} & _MEASURES
            for names in (block[0][1] if block else (), [row[0] for _, row in rows])
        )
        if len(down) > len(across):
            yield [(rows[0][0], list(names)) for names in zip(*(row for _, row in rows), strict=True)]
        elif len(rows) > 1:
            yield rows


def unknown(source: Source) -> str:
    """The first table whose columns sound like results, and are none that is known; empty without one."""
    for (line, header), *rows in _tables(source):
        names = [name for name in header if column(name)[:2] == ("", "") and re.search(_TABLE["hints"], name.lower())]
        if names and any(re.search(r"\d", cell) for _, row in rows for cell in row):
            return f", or its table at line {line} has columns that are not known ({', '.join(names[:3])})"
    return ""


def column(header: str) -> Column:
    """The field that a header names, empty for an unknown one and for one whose statistic is neither mean nor median."""
    text = _MARKUP.sub(" ", header).replace("_", " ").lower()
    unit = " ".join(re.findall(r"[(\[]([^)\]]*)[)\]]", text))
    text = re.sub(r"[(\[][^)\]]*[)\]]", " ", text)
    for pattern, spelled in _SPELLINGS:
        text, unit = pattern.sub(spelled, text), pattern.sub(spelled, unit)
    words = re.sub(r"[,:-]", " ", text).split()
    if re.search(_TABLE["tails"], text):
        return TAIL
    statistic = next((name for word in (*words, *unit.split()) if (name := _TABLE["statistics"].get(word))), "")
    words = [word for word in words if word not in _TABLE["statistics"]]
    if len(words) > 1 and words[-1] in _TABLE["units"]:
        unit = words.pop()
    if len(words) > 1 and words[-1] == "tokens/s" and " ".join(words) not in _FIELDS:
        unit = words.pop()
    field = _FIELDS.get(" ".join(words), "")
    if "tokens/s" in unit:
        each = next((each for name, each in (("/device", "device_rate"), ("/user", "user_rate")) if name in unit), "")
        field = (each or {"prompt": "prefill", "output": "throughput"}.get(field, field)) if field else ""
    return Column(field, statistic, "tokens/s" if "tokens/s" in text else unit)


def _table(source: Source, lines: Lines) -> list[MeasuredRow]:
    (_, header), *rows = lines
    columns = [column(name) for name in header]
    for i, each in enumerate(columns):  # a unit that only some of the cells repeat
        units = [match[3] for _, row in rows if (match := _NUMBER.match(_MARKUP.sub("", row[i]).strip())) and match[3]]
        columns[i] = each if each.unit or not units else each._replace(unit=units[0].strip().lower())
    fields = {each.field for each in columns}
    if not fields & _MEASURES:
        return []
    kinds = [kind for kind in ("serving", "training") if fields & {*_TABLE[kind]}]
    unread = [
        name for name, each in zip(header, columns, strict=True) if name and not each.field and column(name) != TAIL
    ]
    found, skipped = list[MeasuredRow](), list[str]()
    for line, row in rows:
        cells: Cells = {}
        for each, cell in zip(columns, row, strict=True):
            if each.field and cell and (each.field not in cells or each.statistic == "mean"):
                cells[each.field] = each, _MARKUP.sub(" ", cell).strip()
        made = _row(source, line, cells, kinds[0] if len(kinds) == 1 else "")
        if re.search(_TABLE["apart"], " ".join(row)):
            made = [replace(each, unread="separate pools of prefill and decode are not one estimate") for each in made]
        found += made
        figures = [cells[name][1] for name in _MEASURES & cells.keys()]
        skipped += [str(line)] * (not made and any(re.search(r"\d", figure) for figure in figures))
    notes = [f"of its table the columns {', '.join(unread)} are not read"] * bool(unread)
    notes += [f"lines {', '.join(skipped)} of its table are not read: no single figure"] * bool(skipped)
    if "rate" in fields and any(row.quantity == "throughput" for row in found):
        notes.append("the tokens per second of its table are taken as those of the output")
    return [replace(row, notes=(*row.notes, *notes * (i == 0))) for i, row in enumerate(found)]


def _row(source: Source, line: int, cells: Cells, kind: str) -> list[MeasuredRow]:
    """What one line of a table measured; `kind`: serving, training or, where its columns do not say, neither."""

    def number(field: str, units: Json | None = None) -> float | None:
        """The figure of a field, or None; in SI where `units` are those that it may have."""
        match = _NUMBER.match(cells[field][1]) if field in cells else None
        scale = (1024.0 if field in ("prompt", "output", "both", "seq") else 1000.0) if match and match[2] else 1.0
        if match and units:
            scale = units.get((match[3] or cells[field][0].unit).strip().lower(), 0.0)
        return (positive(match[1]) or 0.0) * scale or None if match else None

    def seconds(field: str) -> float | None:
        return number(field, _TABLE["units"])

    def rate(field: str) -> float | None:
        """Tokens per second of all devices; a throughput of requests has the same name."""
        said = f"{cells[field][0].unit} {cells[field][1]}".lower() if field in cells else ""
        each = re.search(r"/ ?(gpu|device|chip)\b", said) or field == "device_rate"
        found = number(field) if re.search(r"tok|\bt/s|tps", said) else None
        return found if not found or not each or kind == "training" else found * n if n else None

    load, qps, burst = number("concurrency") or number("batch"), number("qps"), False
    for pattern, name in _TABLE["loads"] if "load" in cells else ():
        if match := re.search(pattern, cells["load"][1].lower()):
            value: float | None = float(match[1]) if match.lastindex else 1.0
            load, qps, burst = value if name == "cap" else None, value if name == "rate" else None, name == "burst"
    options = _options(cells, number)
    sizes = [options.get(name) for name in ("tp", "pp", "dp")]
    n = options.get("n") or (math.prod(size or 1.0 for size in sizes) if any(sizes) else None)
    batch, output, requests = number("batch"), options.get("output"), number("requests")
    ttft, itl, whole, step = (seconds(name) for name in ("ttft", "itl", "latency", "step"))
    answers, unsure, total, user = (rate(name) for name in ("throughput", "rate", "total", "user_rate"))
    answers = answers or unsure or rate("device_rate")
    if requests and answers and (duration := seconds("duration")) and not output:
        options["output"] = output = round(answers * duration / requests)
    where, device, rows = source.at(line), cells.get("device", (Column(), ""))[1], list[MeasuredRow]()
    stated, latency = number("throughput") or number("rate"), number("latency")
    if not whole and batch and output and stated and latency:  # without a unit, in the one that its rate agrees with
        both = {output * batch / stated, (output + (options.get("prompt") or 0.0)) * batch / stated}
        scales = [scale for scale in (1.0, 1e-3) if any(abs(latency * scale / time - 1) < AGREES for time in both)]
        whole = latency * scales[0] if scales else None
    if kind == "training":
        options |= {"batch": batch, "seq": number("seq")}
        value, unit = (
            (step, "s") if step else (answers or total, "tokens/s/device" if "device_rate" in cells else "tokens/s")
        )
        rows = [MeasuredRow(where, TOOL, "train", value, unit)] if value else []
    else:
        static = whole if batch and ttft is itl is None and output != 1 else None
        options |= {"batch": batch} if static else {}
        user = user or (rate("decode") if load in (None, 1.0) else None)
        itl = itl or (1 / user if user else None) or between(whole, ttft, output)
        run = ServingRun(options, ttft, itl, answers, load, qps, requests, seconds("duration"))
        run.both, run.static, run.load_stated = total, static, burst or bool(requests and output)
        rows = run.rows(source, line, TOOL)
        if not rows and (pace := rate("prefill")) and options.get("prompt"):
            rows = [MeasuredRow(where, TOOL, "prefill", options["prompt"] / pace, options={"batch": 1})]
    lost = next((name for name in ("ttft", "itl", "latency", "step") if number(name) and not seconds(name)), "")
    unread = "" if kind else "its table says neither of serving nor of training what it is"
    if lost and not whole:
        rows = rows or [MeasuredRow(where, TOOL, "itl", number(lost) or 1.0)]
        unread = f"the unit of its {lost} is not stated"
    if "drafted" in cells:
        unread = "speculative decoding; its tokens of a step are not stated"
    given = {name: value for name, value in options.items() if value is not None}
    probe = {"device": [re.sub(r"^\d+ ?[x×] ?| GPUs?$", "", device)]} if device else {}
    return [
        replace(row, options={**given, **row.options}, probe={**row.probe, **probe}, unread=unread or row.unread)
        for row in rows
    ]


def _options(cells: Cells, number: Callable[[str], float | None]) -> Options:
    """Model, engine, sizes and formats of a row."""
    text = {name: cell for name, (_, cell) in cells.items()}
    engine = text.get("engine", "").split()
    options: Options = {"model": text.get("model") or None, "engine": engine_of(engine[0].lower()) if engine else None}
    options |= {name: number(name) for name in ("tp", "pp", "dp", "n", "prompt", "output")}
    if both := number("both"):
        options |= {"prompt": both, "output": both}
    if match := _SHAPE.match(text.get("shape", "")):
        sizes = [
            (positive(re.sub("[kK]", "", size)) or 0.0) * (1024 if size[-1] in "kK" else 1) or None
            for size in match.groups()
        ]
        options |= dict(zip(("prompt", "output"), sizes, strict=True))
    options |= {name.lower(): float(size) for name, size in _SIZES.findall(text.get("layout", ""))}
    if counted := _COUNTED.match(text.get("device", text.get("n", ""))):
        options["n"] = options["n"] or float(counted[1] or counted[4])
    said = text.get("format", "").lower()
    for pattern, meaning in _TABLE["formats"]:
        if match := re.search(pattern, said):
            options |= {name: value.format(match[0]) for name, value in meaning.items()}
            break
    return options
