"""Hugging Face Trainer: train_results.json, or the summary it prints; the whole run divided by its steps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import step_logs
from rooflinecli.importers.source import MeasuredRow, Options, Source, number, patterns, positive

_P = patterns("hf_trainer")
TOOL = "Hugging Face Trainer"
_WHOLE = "the whole run, its start and evaluations included"
DIGITS = 6e-4  # of a figure: what four digits of it leave open
HALF = 5e-4  # half of the last digit of a rate: the Trainer rounds to three decimals


def claims(source: Source) -> bool:
    summary = "train_samples_per_second" in source.plain and _P.summary.search(source.plain) is not None
    return summary or ("train_runtime" not in source.plain and ('"log_history"' in source.plain or any(_bars(source))))


def _bars(source: Source) -> Iterator[MeasuredRow]:
    """Runs of scripts with Accelerate that print a head and a bar, but no summary."""
    for bar in _P.bar.finditer(source.plain):
        head, seconds = _head(source.plain[: bar.start()]), _figure(bar[2])
        if head.get("steps") == float(bar[1]) and seconds:
            options: Options = {"software": "pytorch"} | ({"batch": head["batch"]} if "batch" in head else {})
            where = source.at(source.line_of(bar.start()))
            yield MeasuredRow(where, TOOL, "train", seconds / float(bar[1]), options=options, notes=(_WHOLE,))


def _head(text: str) -> dict[str, float]:
    """What was logged before the first step, the last of each."""
    found = {name: pattern.findall(text) for name, pattern in vars(patterns("hf_trainer_head")).items()}
    return {name: float(values[-1].replace(",", "")) for name, values in found.items() if values}


def read(source: Source) -> list[MeasuredRow]:
    text, printed = source.plain, list[tuple[int, int, dict[str, float]]]()
    for start in (match.start() for match in _P.summary.finditer(text)):
        line = source.line_of(start)
        if _P.row.match(source.lines[line - 1]):
            block = "\n".join(row for row in source.lines[max(line - 6, 0) : line + 4] if _P.row.match(row))
        else:
            first = max(text.rfind(mark, 0, start) for mark in ("TrainOutput", "{"))
            block, closed, _ = text[first : start + 2000].partition("}")
            if not closed:
                raise DataError(f"{source.at(line)}: the summary does not end; was the file cut short?")
        fields = {name: figure for name, value in _P.field.findall(block) if (figure := _figure(value)) is not None}
        if re.match(r"train_runtime'?: '", text[start:]):
            fields["quoted"] = 1.0  # as transformers 5 prints, which counts samples and may leave steps out
        # else a step's, not a run's
        if "train_tokens_per_second" not in fields or "train_samples_per_second" in fields:
            printed.append((line, start, fields))
    if not printed:
        if '"log_history"' in text:
            at = source.at(source.line_of(text.index('"log_history"')))
            raise DataError(f"{at}: trainer_state.json of a run that has not ended states no times; give the run's log")
        return list(_bars(source))
    found = []
    for line, start, fields in printed:  # a run's dictionary and table are one: read the fields of both
        same = [other for _, _, other in printed if _same_run(fields, other)]
        # of a figure that is printed twice, the one with more digits
        whole = dict(sorted((pair for o in reversed(same) for pair in o.items()), key=lambda pair: len(repr(pair[1]))))
        before = max((s for _, s, other in printed if s < start and not _same_run(fields, other)), default=0)
        stated = _head(text[before:start])
        if "steps" not in stated and (bars := _P.bar.findall(text[before:start])):
            stated["steps"] = float(bars[-1][0])
        found += _run(source, line, whole, stated)
    return found


def _figure(value: str) -> float | None:
    """A number, or the seconds of a clock."""
    parts = [number(part) for part in reversed(value.split(":"))]
    return None if None in parts else sum(part * 60**i for i, part in enumerate(parts) if part)


def _same_run(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two summaries state one run: the clock of a table has two decimals, what newer versions print four digits."""
    pairs = [(one.get(name, 0.0), other.get(name, 0.0)) for name in ("train_runtime", "train_samples_per_second")]
    return all(abs(a - b) <= max(DIGITS * a, 0.011 * (name == 0)) for name, (a, b) in enumerate(pairs))


def _run(source: Source, line: int, fields: dict[str, float], head: dict[str, float]) -> list[MeasuredRow]:
    """One run: its time over its steps where they are stated or follow from the rate; else by its samples, which have more digits."""
    runtime, steps = (positive(fields.get(name)) for name in ("train_runtime", "global_step"))
    steps = steps or positive(fields.get("step")) or head.get("steps")
    rate, samples = positive(fields.get("train_steps_per_second")), positive(fields.get("train_samples_per_second"))
    counted = positive(fields.get("train_samples")), positive(fields.get("epoch"))
    # before transformers 4.6, samples per second were steps
    if runtime and samples and not rate and None not in counted:
        every = math.prod(counted) / runtime  # type: ignore[arg-type]
        rate, samples = (None, samples) if abs(every / samples - 1) < 0.2 else (samples, every)
    shared = head.get("shared", 1.0)
    samples = samples and samples / shared
    if not runtime or not (steps or rate or None not in counted or "quoted" in fields):
        raise DataError(f"{source.at(line)}: train_runtime without steps; was the file cut short?")
    if steps and rate and abs(runtime * rate / steps - 1) > max(0.02, HALF / rate):
        steps, head = None, {}  # those of another run of the log
    if steps and head.get("done", 0.0) < steps:
        steps -= head.get("done", 0.0)
    if not steps and rate:
        steps = _only_whole(runtime * (rate - HALF), runtime * (rate + HALF))
    options: Options = {"software": "pytorch", "batch": head["batch"] / shared if "batch" in head else None}
    if options["batch"] is None and samples and steps:  # the last batch of an epoch may be a part of one
        parts = math.floor(fields.get("epoch") or 1.0)
        open_time, open_rate = _half(runtime, HALF / 10), _half(samples, HALF)
        least = (runtime - open_time) * (samples - open_rate) / steps
        most = (runtime + open_time) * (samples + open_rate) / (steps - parts) if steps > parts else math.inf
        options["batch"] = _only_whole(least, most)
    options = {name: value for name, value in options.items() if value is not None}
    notes = [_WHOLE]
    if steps and steps < step_logs.STEADY:
        notes.append(f"a run of {steps:g} steps, too short to be steady")
    value, unit = (runtime / steps, "s") if steps else (1 / rate, "s") if rate else (0.0, "")
    if not steps and samples and (not rate or samples > rate):
        value, unit = samples, "samples/s"
    elif not steps and rate and HALF / rate > 0.01:
        notes.append(f"train_steps_per_second {rate:g} leaves the step uncertain by {HALF / rate:.0%}")
    return [MeasuredRow(source.at(line), TOOL, "train", value, unit, options, notes=tuple(notes))]


def _half(value: float, least: float) -> float:
    """Half of the last digit of a figure; of the fourth one where it may have been printed with four."""
    place = 3 - math.floor(math.log10(value))
    return max(least, 0.5 * 10.0**-place) if round(value, place) == value else least


def _only_whole(low: float, high: float) -> float | None:
    """The only whole number between two, if there is one."""
    first = math.ceil(low)
    return float(first) if first > 0 and high < first + 1 and first <= high else None
