"""Hugging Face Trainer: train_results.json, or the summary it prints; the whole run divided by its steps."""

from __future__ import annotations

import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive

TOOL = "Hugging Face Trainer"
_FIELD = re.compile(r"['\"]?(\w+)['\"]?\s*[:=]\s*['\"]?([\d.]+(?:e[+-]?\d+)?)")
_TABLE = re.compile(r"\s*train_runtime\s+=\s+(\d+):(\d+):([\d.]+)")
DIGITS = 100  # a rate printed with fewer significant digits than this needs the run's own figures


def claims(source: Source) -> bool:
    return "train_runtime" in source.plain and "train_steps_per_second" in source.plain


def read(source: Source) -> list[MeasuredRow]:
    found = []
    for match in re.finditer("train_runtime", source.plain):
        line = source.line_of(match.start())
        if table := _TABLE.match(source.plain, source.plain.rfind("\n", 0, match.start()) + 1):
            found += _run(source, line, _printed(source, line, table))
            continue
        block = source.plain[
            max(source.plain.rfind(mark, 0, match.start()) for mark in ("TrainOutput", "{")) : match.start() + 600
        ]
        end = block.find("}")
        if end < 0:
            raise DataError(f"{source.at(line)}: the summary does not end; was the file cut short?")
        fields = {name: float(value) for name, value in _FIELD.findall(block[:end])}
        found += _run(source, line, fields)
    return found


def _printed(source: Source, line: int, runtime: re.Match[str]) -> dict[str, float]:
    """The fields of the table that Trainer.log_metrics prints; its time is of a clock."""
    hours, minutes, seconds = (float(part) for part in runtime.groups())
    fields = {"train_runtime": 3600 * hours + 60 * minutes + seconds}
    for text in source.lines[line : line + 4]:
        if pair := re.match(r"\s*(\w+)\s+=\s+([\d.]+)\s*$", text):
            fields[pair[1]] = float(pair[2])
    return fields


def _run(source: Source, line: int, fields: dict[str, float]) -> list[MeasuredRow]:
    runtime, steps = positive(fields.get("train_runtime")), positive(fields.get("global_step"))
    rate, samples = positive(fields.get("train_steps_per_second")), positive(fields.get("train_samples_per_second"))
    if not runtime or not (steps or rate):
        raise DataError(f"{source.at(line)}: train_runtime without steps; was the file cut short?")
    seconds = runtime / steps if steps else 1 / rate  # type: ignore[operator]
    options: Options = {"software": "pytorch"}
    if samples and rate:
        options["batch"] = max(round(samples * seconds), 1)
    notes: tuple[str, ...] = ("the whole run, its start and evaluations included",)
    if not steps and rate and rate * 1000 < DIGITS:
        notes = (*notes, f"train_steps_per_second {rate:g} has two digits or fewer")
    return [MeasuredRow(source.at(line), TOOL, "train", seconds, options=options, notes=notes)]
