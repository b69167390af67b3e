"""Tables of results with a header, as READMEs, posts and scripts have them: Markdown, boxes, CSV. A column is found by its name in result_tables.yaml.

Used where a file has no output of a benchmark itself, which such a table would only sum up.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.logs.serving import ServingFormat
from rooflinecli.importers.logs.serving_run import engine_of
from rooflinecli.importers.source import MeasuredRow, Options, Source, patterns, positive
from rooflinecli.specs.snapshots import table

TOOL = "table of results"
AGREES = 0.1  # of a latency: how far that of its rate may differ, which its start and end are in
NESTED = 3  # objects in a record: more are records themselves
_P = patterns("result_tables")
_TABLE = table(Path(__file__).with_suffix(".yaml"))
_FIELDS = {name: field for field, names in _TABLE["columns"].items() for name in names}
_KINDS = {field: kind for kind, fields in _TABLE["kinds"].items() for field in fields}
_MEASURES = {*_TABLE["measures"]}
_SPELLINGS = [(re.compile(pattern), text) for pattern, text in _TABLE["spellings"]]
_FORMAT = ServingFormat(TOOL, _TABLE["row"])
Lines = list[tuple[int, list[str]]]


class Column(NamedTuple):
    """What a header names: a field of result_tables.yaml, its statistic, and the unit that it states."""

    field: str = ""
    statistic: str = ""
    unit: str = ""

    def figure(self, cell: str) -> float | str | None:
        """A cell as text, in seconds, in tokens per second or as a number; None for none, or one in an unknown unit."""
        kind, match = _KINDS.get(self.field, "number"), _P.number.match(cell)
        if kind == "text" or match is None:
            return cell if kind == "text" else None
        unit = (match[3] or self.unit).strip().lower()
        scale = {"time": _TABLE["units"].get(unit), "rate": 1000.0 if match[2] else 1.0}.get(
            kind, 1024.0 if match[2] else 1.0
        )
        return (
            None
            if kind == "rate" and not _P.tokens.search(unit)
            else (positive(match[1]) or 0.0) * (scale or 0.0) or None
        )


TAIL = Column(statistic="tail")  # a percentile, or a change against another row


def read(source: Source) -> list[MeasuredRow]:
    """A row of each line of the tables that state a time or a rate of tokens."""
    return [row for lines in _tables(source) for row in _table(source, lines)]


def _tables(source: Source) -> Iterator[Lines]:
    """The lines of each table, its header first; turned over where its first column names the figures."""
    blocks: list[Lines] = [*_objects(source), []]
    first = next((i for i, text in enumerate(source.lines) if text.strip() and text[0] != "#"), 0)
    if source.lines[first].count(",") > 1 and "|" not in source.lines[first]:
        blocks[-1] = [(i, row) for i, row in enumerate(csv.reader(source.lines[first:]), first + 1) if any(row)]
    for line, text in enumerate(source.lines, start=1):
        plain = re.sub(r"[│┃]", "|", text).strip()
        if "|" in plain and not _P.rule.match(plain):
            blocks[-1].append((line, [cell.strip() for cell in re.sub(r"^\||\|$", "", plain).split("|")]))
        elif blocks[-1] and (not plain or not _P.rule.match(plain)):
            blocks.append([])
    for block in blocks:
        rows = [(line, row) for line, row in block if len(row) == len(block[0][1])]
        across, down = (
            {column(name).field for name in names} & _MEASURES
            for names in (block[0][1] if block else (), [row[0] for _, row in rows])
        )
        if len(down) > len(across):  # without changes, and statistics that are no mean
            yield [(rows[0][0], list(n)) for n in zip(*(row for _, row in rows), strict=True) if column(n[0]) != TAIL]
        elif len(rows) > 1:
            yield rows


def unknown(source: Source) -> str:
    """The first table whose columns sound like results, and are none that is known; empty without one."""
    for (line, header), *rows in _tables(source):
        names = [name for name in header if column(name)[:2] == ("", "") and re.search(_TABLE["hints"], name.lower())]
        if names and any(re.search(r"\d", cell) for _, row in rows for cell in row):
            return f", or its table at line {line} has columns that are not known ({', '.join(names[:3])})"
    return ""


def _objects(source: Source) -> Iterator[Lines]:
    """JSON objects that state a load, as tables: names and figures of each, and of the objects that are its fields."""
    try:
        objects = source.members if source.looks_like_json else []
    except DataError:  # a text that begins like one
        return
    for line, record in objects:
        inner = [more for more in record.values() if isinstance(more, dict)]
        flat = {
            name: str(v)
            for each in (*inner[:NESTED], record)
            for name, v in each.items()
            if isinstance(v, str | int | float)
        }
        if len(inner) <= NESTED and {column(name).field for name in flat} & {*_TABLE["loaded"]}:
            yield [(line, [*flat]), (line, [*flat.values()])]


def column(header: str) -> Column:
    """The field that a header names, empty for an unknown one and for one whose statistic is neither mean nor median."""
    text = _P.markup.sub(" ", header).replace("_", " ").lower()
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
    (_, header), *rows = [(line, [_P.markup.sub(" ", cell).strip() for cell in row]) for line, row in lines]
    columns = [column(name) for name in header]
    for i, each in enumerate(columns):  # a unit that only some of the cells repeat
        units = [match[3] for _, row in rows if (match := _P.number.match(row[i])) and match[3]]
        columns[i] = column(f"{header[i]} ({units[0]})") if units and each.field and not each.unit else each
    fields = {each.field for each in columns}
    if not fields & _MEASURES:
        return []
    kinds = [kind for kind in ("serving", "training") if fields & {*_TABLE[kind]}]
    unread = [name for name, each in zip(header, columns, strict=True) if name and not each.field and each != TAIL]
    found, skipped = list[MeasuredRow](), list[str]()
    for line, row in rows:
        cells, figures = Json(), 0
        for each, cell in sorted(zip(columns, row, strict=True), key=lambda pair: pair[0].statistic != "mean"):
            if each.field and cell and each.field not in cells:
                cells[each.field] = each.figure(cell)
                figures += each.field in _MEASURES and re.search(r"\d", cell) is not None
                if cells[each.field] is None and _P.number.match(cell):
                    cells[f"{each.field} as written"] = Column().figure(cell)
        made = _row(source, line, cells, kinds[0] if len(kinds) == 1 else "")
        if re.search(_TABLE["apart"], " ".join(row)):
            made = [replace(each, unread="separate pools of prefill and decode are not one estimate") for each in made]
        found += made
        skipped += [str(line)] * (not made and figures > 0)
    notes = [f"of its table the columns {', '.join(unread)} are not read"] * bool(unread)
    notes += [f"lines {', '.join(skipped)} of its table are not read: no single figure"] * bool(skipped)
    if "rate" in fields and any(row.quantity == "throughput" for row in found):
        notes.append("the tokens per second of its table are taken as those of the output")
    return [replace(row, notes=(*row.notes, *notes * (i == 0))) for i, row in enumerate(found)]


def _row(source: Source, line: int, cells: Json, kind: str) -> list[MeasuredRow]:
    """What one line of a table measured; `kind`: serving, training or, where its columns do not say, neither."""
    options = _options(cells)
    sizes = [options.get(name) for name in ("tp", "pp", "dp")]
    n = options.get("n") or (math.prod(size or 1.0 for size in sizes) if any(sizes) else None)
    batch, requests, latency = (cells.get(name) for name in ("batch", "requests", "latency"))
    prompt, output = (options.pop(name, None) for name in ("prompt", "output"))
    load, qps, burst = cells.get("concurrency") or batch, cells.get("qps"), False
    for pattern, name in _TABLE["loads"] if "load" in cells else ():
        if match := re.search(pattern, cells["load"].lower()):
            value: float | None = float(match[1]) if match.lastindex else 1.0
            load, qps, burst = value if name == "cap" else None, value if name == "rate" else None, name == "burst"
    rate = cells.get("throughput") or cells.get("rate")
    if cells.get("device_rate") and kind != "training":
        rate = rate or (cells["device_rate"] * n if n else None)
    if requests and rate and cells.get("duration") and not output:
        output = round(rate * cells["duration"] / requests)
    written, stated = cells.get("latency as written"), rate or cells.get("rate as written")
    if written and batch and output and stated:  # without a unit, in the one that its rate agrees with
        both = {output * batch / stated, (output + (prompt or 0.0)) * batch / stated}
        scales = [scale for scale in (1.0, 1e-3) if any(abs(written * scale / time - 1) < AGREES for time in both)]
        latency = written * scales[0] if scales else None
    where, unread = source.at(line), "" if kind else "its table says neither of serving nor of training what it is"
    if kind == "training":
        options |= {"batch": batch, "seq": cells.get("seq")}
        value, unit = cells.get("step"), "s"
        if not value:
            value, unit = cells.get("device_rate") or rate or cells.get("total"), "tokens/s"
            unit += "/device" if cells.get("device_rate") else ""
        rows = [MeasuredRow(where, TOOL, "train", value, unit)] if value else []
    else:
        user = cells.get("user_rate") or (cells.get("decode") if load in (None, 1.0) else None)
        static = latency if batch and not (cells.get("ttft") or cells.get("itl")) and output != 1 else None
        record = {**cells, "throughput": rate, "latency": latency, "static": static, "concurrency": load, "qps": qps}
        record |= {"itl": cells.get("itl") or (1 / user if user else None), "prompt": prompt, "output": output}
        run = _FORMAT.run(source, line, {name: figure for name, figure in record.items() if figure is not None})
        assert run is not None
        run.load_stated = burst or bool(requests and output)
        rows = run.rows(source, line, TOOL)
        if not rows and cells.get("prefill") and prompt:
            rows = [
                MeasuredRow(where, TOOL, "prefill", prompt / cells["prefill"], options={"batch": 1, "prompt": prompt})
            ]
    lost = next((name for name in _TABLE["kinds"]["time"] if cells.get(f"{name} as written")), "")
    if lost and not latency:
        rows = rows or [MeasuredRow(where, TOOL, "itl", cells[f"{lost} as written"])]
        unread = f"the unit of its {lost} is not stated"
    if "drafted" in cells:
        unread = "speculative decoding; its tokens of a step are not stated"
    given = {name: value for name, value in options.items() if value is not None}
    name = _P.device.sub("", cells.get("device") or "")
    probe: Json = {"device": [name], "hardware": name} if name else {}
    return [
        replace(row, options={**given, **row.options}, probe={**row.probe, **probe}, unread=unread or row.unread)
        for row in rows
    ]


def _options(cells: Json) -> Options:
    """Model, engine, sizes and formats of a row."""
    engine = (cells.get("engine") or "").split()
    options: Options = {"model": cells.get("model"), "engine": engine_of(engine[0].lower()) if engine else None}
    options |= {name: cells.get(name) for name in ("tp", "pp", "dp", "prompt", "output")}
    if both := cells.get("both"):
        options |= {"prompt": both, "output": both}
    for name in ("prompt", "output"):
        if cells.get(f"{name} total") and cells.get("requests"):
            options[name] = round(cells[f"{name} total"] / cells["requests"])
    if match := _P.shape.match(cells.get("shape") or ""):
        options |= dict(zip(("prompt", "output"), map(Column("prompt").figure, match.groups()), strict=True))
    options |= {name.lower(): float(size) for name, size in _P.sizes.findall(cells.get("layout") or "")}
    if counted := _P.counted.match(cells.get("n") or cells.get("device") or ""):
        options["n"] = float(counted[1] or counted[3])
    said = (cells.get("format") or "").lower()
    meaning = next(((m, more) for pattern, more in _TABLE["formats"] if (m := re.search(pattern, said))), None)
    return options | ({name: value.format(meaning[0][0]) for name, value in meaning[1].items()} if meaning else {})
